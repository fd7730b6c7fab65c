"""Complete driver in one file: a toy engine and its messages. Standard library only.

The engine stores session slots in pages of one token. It has no prefix tree, runs one turn at a
time, and frees memory by discarding the slots of other sessions. With `--bug` it has a bug, which
`slotproof run --engine "cmd:python toy.py --bug"` finds.
"""

import json
import sys
import traceback
import zlib

BUG = "--bug" in sys.argv
NO_TREE = {"u": 0, "swa_u": 0}  # Number of unlocked tokens in a prefix tree.


class Session:
    def __init__(self):
        self.history, self.turn, self.running = [], None, False
        self.slot, self.row, self.at = False, -1, []  # at[i] is the KV index of position i.


class Engine:
    def __init__(self, config, seed):
        self.config, self.seed, self.iter = config, seed, 0
        self.free, self.rows = list(range(config["total_tokens"])), list(range(config["rows"]))
        self.sessions, self.queue, self.inbox = {}, [], []  # The first request in the queue runs.
        self.messages, self.events = [], []

    def tell(self, type, **fields):  # messages to clients
        self.messages.append({"type": type, **fields})

    def event(self, transition, sid, rid=None, **parameters):  # events for the spec
        self.events.append([transition, sid, rid, parameters])

    def open(self, session):
        if session in self.sessions:
            return self.tell("refused", session=session, message="it is open")
        self.sessions[session] = Session()
        self.event("T-OPEN", session)
        self.tell("opened", session=session)

    def submit(self, session, rid, tokens, max_new, stop):
        home = self.sessions.get(session)
        prompt = (home.history if home else []) + tokens
        fits = len(prompt) + max_new <= min(self.config["context_len"], self.config["total_tokens"])
        if not home or home.turn or not prompt or not fits:
            return self.tell("finish", rid=rid, reason="abort", tokens=[], message="not possible")
        home.turn = {"rid": rid, "prompt": prompt, "max_new": max_new, "stop": stop, "output": []}
        self.queue.append(session)
        self.event("T-SUBMIT", session, rid, new=len(tokens))

    def abort(self, rid):
        for sid, home in self.sessions.items():
            if home.turn and home.turn["rid"] == rid:
                if home.running:
                    self.event("T-ABORT", sid, rid, **NO_TREE)
                    self.give_back(home, keep_slot=BUG)
                else:
                    self.event("T-ABORT-WAITING", sid, rid)
                self.end(sid, home, "abort")

    def close(self, session):
        home = self.sessions.get(session)
        if home is None:
            return self.tell("refused", session=session, message="it is not open")
        if home.turn:
            self.abort(home.turn["rid"])
        self.give_back(self.sessions.pop(session))
        self.event("T-CLOSE", session, **NO_TREE)
        self.tell("closed", session=session)

    def give_back(self, home, keep_slot=False):
        self.free += home.at
        self.rows += [home.row] if home.row >= 0 else []
        if not keep_slot:  # with the bug, the slot still describes free pages
            home.slot, home.row, home.at = False, -1, []

    def step(self):
        inbox, self.inbox, self.iter = self.inbox, [], self.iter + 1
        for command in inbox:
            getattr(self, command["do"])(**{k: v for k, v in command.items() if k != "do"})
        if self.queue:
            self.forward(self.queue[0], self.sessions[self.queue[0]])
        return self.snapshot(len(inbox))

    def admit(self, sid, home, turn):
        need = len(turn["prompt"]) + turn["max_new"] - len(home.at)
        for other, idle in self.sessions.items():
            short = len(self.free) < need or not (home.slot or self.rows)
            if idle.slot and idle is not home and short:
                self.give_back(idle)
                self.event("T-DISCARD", other, **NO_TREE)
        if home.slot:  # The turn borrows the slot and computes its last token again for the logits.
            keep = min(len(home.at), len(turn["prompt"]) - 1)
            self.free, home.at = self.free + home.at[keep:], home.at[:keep]
            self.event("T-RESTORE", sid, turn["rid"])
        else:
            home.row = self.rows.pop()
            self.event("T-MATCH", sid, turn["rid"], m=0, locked=0, swa_locked=0)
        home.running = True

    def forward(self, sid, home):  # Compute the missing KV, then sample a token.
        turn = home.turn
        if not home.running:
            self.admit(sid, home, turn)
        known = turn["prompt"] + turn["output"]
        home.at += [self.free.pop() for _ in known[len(home.at) :]]
        more = int(turn["max_new"] > 0)
        if turn["output"]:
            self.event("T-DECODE", sid, turn["rid"], at=len(known), d=1, k=1, told=1)
        else:
            told = {"sampled": more, "told": more, "row": home.row}
            self.event("T-EXTEND", sid, turn["rid"], t=len(known), ahead=0, **told)
        turn["output"] += [1 + zlib.crc32(f"{self.seed} {known}".encode()) % 250] * more
        stopped = turn["output"][-1:] and turn["output"][-1] in turn["stop"]
        if stopped or len(turn["output"]) == turn["max_new"]:
            home.slot, home.history = True, turn["prompt"] + turn["output"]
            self.event("T-SAVE", sid, turn["rid"])
            self.end(sid, home, "stop" if stopped else "length")

    def end(self, sid, home, reason):
        self.tell("finish", rid=home.turn["rid"], reason=reason, tokens=home.turn["output"])
        self.queue.remove(sid)
        home.turn, home.running = None, False

    def snapshot(self, consumed):
        messages, self.messages, events, self.events = self.messages, [], self.events, []
        pool = {"total": self.config["total_tokens"], "available": len(self.free)}
        pool |= {"evictable": 0, "protected": 0}
        holders = [home for home in self.sessions.values() if home.slot or home.running]
        held = sum(len(home.at) for home in holders if not home.running)
        uncached = sum(len(home.at) for home in holders if home.running)
        leak = len(self.free) + held + uncached != pool["total"]
        return {
            "iter": self.iter,
            "consumed": consumed,
            "messages": messages,
            "events": events,
            "pools": {"full": {**pool, "free": list(self.free)}},
            "tree": {},
            "rows": {
                "total": self.config["rows"],
                "free": list(self.rows),
                "used": {str(home.row): {"full": list(home.at)} for home in holders},
            },
            "sessions": {
                sid: {
                    "open": True,
                    "closing": False,
                    "inflight": home.turn and home.turn["rid"],
                    "history": len(home.history),
                    "hash": hashed(home.history),
                }
                for sid, home in self.sessions.items()
            },
            "slots": {
                sid: {**lengths(home), "lent": home.running}
                for sid, home in self.sessions.items()
                if home.slot
            },
            "requests": {
                home.turn["rid"]: {
                    "session": sid,
                    "kind": "turn",
                    "in_last": home.running,
                    "in_running": home.running,
                    "phase": "running" if home.running else "waiting",
                    "loan": sid if home.running and home.slot else None,
                    **(lengths(home) if home.running else lengths(Session())),
                    "prompt": len(home.turn["prompt"]),
                    "hash": hashed(home.turn["prompt"]),
                    "output": len(home.turn["output"]),
                }
                for sid, home in self.sessions.items()
                if home.turn
            },
            "checker": {  # The engine's own check is part of the toy, too.
                "ran": True,
                "level": 1,
                "verdict": "leak" if leak else "ok",
                "message": "",
                "pools": {"full": {**pool, "held": held, "uncached": uncached}},
            },
        }


def lengths(home):
    return {"row": home.row, "C": len(home.at), "A": len(home.at), "Q": 0, "E": 0, "locks": 0}


def hashed(tokens):
    return zlib.crc32(",".join(map(str, tokens)).encode())


# The driver answers each line with one line. A message answered with `usage` has changed nothing.

FIELDS = {
    "open": {"session": str},
    "close": {"session": str},
    "abort": {"rid": str},
    "submit": {"session": str | None, "rid": str, "tokens": list, "max_new": int, "stop": list},
    "step": {"n": int},
    "tick": {"seconds": int},
}
LIMITS = {"page_size": [1], "swa_tokens": [0], "window": [0], "chunk": [0], "draft": [0]}
HELLO = {
    "protocol": 2,
    "engine": {"name": "toy with a bug" if BUG else "toy", "version": "1"},
    "capabilities": {
        "commands": list(FIELDS),
        "events": True,
        "pools": ["full"],
        "page_sizes": [1],
        "config": LIMITS,
        "profile": "reference",
        "transitions": [
            "T-OPEN",
            "T-SUBMIT",
            "T-MATCH",
            "T-RESTORE",
            "T-EXTEND",
            "T-DECODE",
            "T-SAVE",
            "T-ABORT",
            "T-ABORT-WAITING",
            "T-DISCARD",
            "T-CLOSE",
        ],
        "not_observed": {
            "requests without a session": "the toy refuses them",
            "timeouts": "the toy closes no session by itself",
        },
    },
}
engine, over = None, False


def serve(message):
    global engine, over
    op, config, command = (message.get(key) for key in ("op", "config", "command"))
    if op == "hello":
        require(message.get("protocol") == 2, "this driver speaks protocol 2")
        return HELLO
    if op == "reset":
        require(isinstance(config, dict), "reset takes a config")
        for name, values in LIMITS.items():
            require(config.get(name) in values, f"{name} can only be {values}")
        for name in ("total_tokens", "rows", "context_len"):
            require(type(config.get(name)) is int and config[name] > 0, f"{name}: at least 1")
        engine = Engine(config, message.get("seed"))
    elif op == "do":
        require(engine and isinstance(command, dict), "do takes a command, after a reset")
        fields = FIELDS.get(command.get("do"))
        require(fields is not None, f"there is no command {command.get('do')!r}")
        require(command.keys() == {"do", *fields}, f"{command['do']} takes {list(fields)}")
        for name, kind in fields.items():
            require(isinstance(command[name], kind), f"{name} can't be {command[name]!r}")
        if command["do"] == "step":
            return {"snapshots": [engine.step() for _ in range(command["n"])]}
        if command["do"] == "tick":
            return {"snapshots": [engine.snapshot(0)]}
        engine.inbox.append(command)
        return {"snapshots": []}
    else:
        require(op == "bye", f"there is no op {op!r}")
        over = True
    return {}


class Usage(Exception):
    pass


def require(condition, text):
    if not condition:
        raise Usage(text)


def answer(line):
    number = None
    try:
        message = json.loads(line)
        require(isinstance(message, dict), "a message is a JSON object")
        number = message.get("id")
        return {"id": number, "ok": True, "result": serve(message)}
    except (Usage, json.JSONDecodeError) as problem:
        return {"id": number, "ok": False, "kind": "usage", "error": str(problem)}
    except Exception as error:
        text, trace = f"{type(error).__name__}: {error}", traceback.format_exc()
        return {"id": number, "ok": False, "kind": "crash", "error": text, "trace": trace}


if __name__ == "__main__":
    for line in sys.stdin:
        print(json.dumps(answer(line)), flush=True)
        if over:
            break
