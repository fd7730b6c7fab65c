"""One scheduler, stepped by the driver as in `EngineCore.step`. It returns snapshots."""

from __future__ import annotations

import inspect
from collections import deque
from typing import Any, NamedTuple

from slotproof_driver.accepts import Accepts
from slotproof_driver.usage import UsageError

from . import boot, drafts, layout
from .clients import ClientRequest, Clients, Session
from .events import Watcher
from .inputs import Inputs, check_tokens
from .layout import Layout
from .runner import Runner, RunnerRequest
from .snapshot import Snapshooter
from .worker import Worker

INBOX = ("open", "submit", "abort", "close", "flush", "flush_all", "pause", "continue", "abort_all")
TRANSITIONS = (
    "T-OPEN",
    "T-CLOSE",
    "T-CLOSE-DEFER",
    "T-REAP",
    "T-SUBMIT",
    "T-PLAIN-SUBMIT",
    "T-MATCH",
    "T-RESTORE",
    "T-EXTEND",
    "T-PARK",
    "T-INSERT",
    "T-EVICT",
    "T-DECODE",
    "T-SAVE",
    "T-ABORT",
    "T-ABORT-WAITING",
    "T-RETRACT-WIPE",
    "T-PLAIN-FINISH",
    "T-PLAIN-ABORT",
    "T-PLAIN-RETRACT",
)
AHEAD = ("T-LAUNCH", "T-RESULT", "T-LATE-RESULT", "T-LATE-FINISH")
"""Transitions that are offered only with several batches under way."""
NOT_OBSERVED = {
    "the engine's own check": "vLLM has no check of its memory at run time",
    "timeouts": "vLLM closes no session by itself",
    "room that idle slots make": "vLLM never reclaims the blocks of a paused session",
    "turns without new tokens": "vLLM's front end refuses an empty prompt",
    "requests for no token": "vLLM refuses max_tokens below 1",
}
ANSWERS = {"closed": "to an abort of a turn: vLLM treats the session as one request, and ends it"}


class Ran(NamedTuple):
    """Batch that has run, but whose output the scheduler has not processed."""

    batch: Any
    sampled: dict[str, list[int]]
    rejected: list[tuple[RunnerRequest, int]]
    firsts: dict[str, int]
    """Position of each request's first sampled token."""


class Engine:
    """Engine under test in one example."""

    def __init__(self, config: dict[str, Any], options: boot.Options) -> None:
        self.turns_alone = options.turns_alone
        self.scheduler = boot.build_scheduler(config)
        self.context_len = int(self.scheduler.max_model_len)
        self.layout = Layout(self.scheduler, config["page_size"])
        self.clients = Clients()
        self.overlap = bool(config["overlap"])
        self.batches = int(config["batches"])
        ahead = bool(self.scheduler.scheduler_config.async_scheduling)
        self.watcher = Watcher(self.layout, self.clients, self.overlap)
        self.accepts = Accepts(config["draft"] + 1)
        self.proposals = drafts.proposals() if config["draft"] else None
        self.under_way: deque[Ran] = deque()
        self.runner = Runner(
            config["page_size"],
            config["draft"],
            self._accepts,
            boot.block_hash(config),
            Worker.of(self.scheduler, ahead, self.layout.blocks),
        )
        self.inputs = Inputs(config)
        self.snapshooter = Snapshooter(
            self.layout, self.clients, self.watcher, self.runner, not config["no_tree"]
        )
        self.options = {name: bool(config[name]) for name in ("priority", "no_tree")}
        self.outputs = boot.model_outputs()
        self.aborted = boot.aborted()
        self.inbox: list[dict[str, Any]] = []
        self.messages: list[dict[str, Any]] = []
        self.iterations = 0

    def check(self, command: dict[str, Any]) -> None:
        """Raise `UsageError` for an impossible command, before anything has changed."""
        known = commands(self.scheduler)
        if command.get("do") not in known:
            offered = ", ".join(known)
            raise UsageError(f"unknown command {command.get('do')!r}; there are: {offered}")
        if command["do"] == "submit":
            check_tokens(command)

    def do(self, command: dict[str, Any]) -> list[dict[str, Any]]:
        """Run one command that :meth:`check` accepted, and return its snapshots."""
        if command["do"] == "step":
            return [self._step() for _ in range(command["n"])]
        if command["do"] == "tick":
            return [self._snapshot(0)]
        self.inbox.append(command)
        return []

    def _step(self) -> dict[str, Any]:
        """Run one iteration: first the inbox, then a batch."""
        inbox, self.inbox = self.inbox, []
        self.iterations += 1
        for command in inbox:
            fields = {name: value for name, value in command.items() if name != "do"}
            getattr(self, f"_{command['do']}")(**fields)
        if self.overlap:
            self._ahead()
        elif self.scheduler.has_requests():
            self._process(self._launch())
        return self._snapshot(len(inbox))

    def _ahead(self) -> None:
        """Run one iteration of `EngineCore.step_with_batch_queue`. If possible, it schedules a
        batch before it processes the previous batch's output."""
        if self.scheduler.has_requests():
            self.under_way.append(self._launch())
            ran = bool(self.under_way[-1].batch.total_num_scheduled_tokens)
            if len(self.under_way) < self.batches and (ran or self.scheduler.has_requests()):
                return
        if self.under_way:
            self._process(self.under_way.popleft())

    def _launch(self) -> Ran:
        batch = self.scheduler.schedule()
        self.watcher.launched(batch)
        sampled = self.runner.execute(batch)
        return Ran(batch, sampled, self.runner.rejected, self.runner.firsts)

    def _process(self, ran: Ran) -> None:
        for key, tokens in ran.sampled.items():
            self.watcher.sampled(ran.batch, key, ran.firsts.get(key, 0), len(tokens))
        told = self.scheduler.update_from_output(ran.batch, self.outputs(ran.batch, ran.sampled))
        self.runner.settle(ran.rejected)
        for answers in told.values():
            for answer in answers.outputs:
                self._hears(answer)
        if self.proposals is not None and ran.sampled and not self.overlap:
            proposed = self.runner.proposed(ran.sampled)
            self.scheduler.update_draft_token_ids(self.proposals(proposed))

    def _accepts(self, key: str, computed: int) -> int:
        return self.accepts.of(self.clients.of(key)[1], computed)

    def _snapshot(self, consumed: int) -> dict[str, Any]:
        messages, self.messages = self.messages, []
        ended = [{"rid": message["rid"]} for message in messages if message["type"] == "finish"]
        effective = {"priority": self.watcher.preempted, "no_tree": bool(self.runner.batch)}
        self.watcher.preempted = False
        return {
            "iter": self.iterations,
            "consumed": consumed,
            "messages": messages,
            "ended": ended,
            "options": [name for name, on in self.options.items() if on and effective[name]],
            **self.snapshooter.take(),
        }

    # Commands of clients -------------------------------------------------------------------

    def _open(self, session: str) -> None:
        if session in self.clients.sessions:
            self._tell("refused", session=session, message="it is open")
            return
        self.clients.open(session)
        self.watcher.emit("T-OPEN", session)
        self._tell("opened", session=session, message="")

    def _submit(
        self, session: str | None, rid: str, tokens: list[int], max_new: int, stop: list[int]
    ) -> None:
        of = None if session is None else self.clients.sessions.get(session)
        turn = ClientRequest(rid, session, tokens, max_new)
        refusal = self._refusal(turn, of)
        if refusal is not None:
            self._finish(turn, "abort", refusal)
        elif of is None:
            self.watcher.emit("T-PLAIN-SUBMIT", None, rid, prompt=len(tokens))
            key = self.clients.add(turn)
            self.scheduler.add_request(self.inputs.make(key, tokens, max_new, stop, False))
        else:
            request = self.inputs.make(of.key, tokens, max_new, stop, True)
            turn.arrival = request.arrival_time
            if of.turn is None:
                of.turn = turn
                self.watcher.emit("T-SUBMIT", session, rid, new=len(tokens))
            else:
                of.queue.append(turn)
            self.scheduler.add_request(request)

    def _refusal(self, turn: ClientRequest, of: Session | None) -> str | None:
        """Return the reason why the front end refuses the turn, or None."""
        if turn.session is not None and (of is None or of.closed):
            return "the session is not open"
        if turn.max_new < 1:
            return "max_tokens must be at least 1"
        if not turn.tokens:
            return "the prompt is empty"
        longest = len(turn.tokens)
        if of is not None and not self.turns_alone:  # vLLM looks at the turn alone: see the README.
            longest += self.snapshooter.longest(of)
        if longest >= self.context_len:
            return f"a prompt of up to {longest} tokens is longer than the context"
        return None

    def _abort(self, rid: str) -> None:
        of = self.clients.find(rid)
        if isinstance(of, Session):
            self._end_session(of)
        elif of is not None:
            self.scheduler.finish_requests(rid, self.aborted)
            self.watcher.emit("T-PLAIN-ABORT", None, rid, **self.watcher.left(rid))
            self.clients.end(rid)
            self._finish(of, "abort")

    def _abort_all(self) -> None:
        for rid in list(self.clients.plain):
            self._abort(rid)
        for session in list(self.clients.sessions.values()):
            if session.turn is not None:
                self._end_session(session)

    def _close(self, session: str) -> None:
        of = self.clients.sessions.get(session)
        if of is None or of.closed:
            self._tell("refused", session=session, message="it is not open")
            return
        if self.layout.request(of.key) is not None:
            self.scheduler.add_request(self.inputs.last(of.key))
        if of.turn is None:
            self._gone(of, "T-CLOSE")
            return
        of.closed = True
        if of.closing:
            self.watcher.emit("T-CLOSE-DEFER", session)

    def _end_session(self, of: Session) -> None:
        """Abort a turn. Its session ends, too: for vLLM, both are one request."""
        runs, turns = self.layout.runs(of.key), of.turns()
        self.scheduler.finish_requests(of.key, self.aborted)
        left = self.watcher.left(of.key) if runs else {}
        transition = "T-ABORT" if runs else "T-ABORT-WAITING"
        self.watcher.emit(transition, of.sid, turns[0].rid, **left)
        if runs:
            self.watcher.freed.pop(of.key, None)
        for turn in turns:
            self._finish(turn, "abort")
        self._gone(of, "T-REAP" if of.closing else "T-CLOSE")

    def _flush_all(self) -> None:
        """Preempt the running requests, then flush the prefix cache."""
        self._flush(reset_running_requests=True)

    def _flush(self, **asked: bool) -> None:
        """Flush the prefix cache, as `EngineCore.reset_prefix_cache` does. vLLM refuses to do so
        while any request has a block."""
        before = len(self.layout.tree())
        self.scheduler.reset_prefix_cache(**asked)
        gone = before - len(self.layout.tree())
        if gone:
            self.watcher.emit("T-EVICT", None, None, n=gone * self.layout.page_size, swa_n=0)

    def _accept(self, rid: str, tokens: int) -> None:
        self.accepts.request(rid, tokens)

    def _pause(self) -> None:
        self.scheduler.set_pause_state(layout.pause_state(self.scheduler, paused=True))

    def _continue(self) -> None:
        self.scheduler.set_pause_state(layout.pause_state(self.scheduler, paused=False))

    # Messages to clients -------------------------------------------------------------------

    def _hears(self, answer: Any) -> None:
        """Process one output of the engine. Outputs are processed in the engine's order."""
        key, of = answer.request_id, self.clients.keys[answer.request_id]
        turn = of.turn if isinstance(of, Session) else of
        if turn is None:  # Up to 0.25.0 this may be a late token of a finished turn.
            return
        turn.output += answer.new_token_ids
        self.watcher.told(key, len(answer.new_token_ids))
        if answer.finish_reason is None:
            return
        reason = answer.finish_reason.name.lower()
        late = key in self.watcher.retracted
        if late:
            self.watcher.retracted.discard(key)
            self.watcher.emit("T-LATE-FINISH", turn.session, turn.rid)
        if isinstance(of, ClientRequest):
            if not late:
                shared, left = self.watcher.freed[key]
                more = {"q": shared, "dup": 0, "swa_dup": 0, **left}
                self.watcher.emit("T-PLAIN-FINISH", None, of.rid, **more)
            self.clients.end(key)
            self._finish(of, reason)
            return
        self.watcher.over(key)
        of.slot = not late
        if of.slot:
            self.watcher.emit("T-SAVE", of.sid, turn.rid)
        self._finish(turn, reason)
        of.turn = None
        if of.queue:
            request = self.layout.request(key)
            turn = of.taken(request and request.arrival_time)
            self.watcher.emit("T-SUBMIT", of.sid, turn.rid, new=len(turn.tokens))
            if of.closing:
                self.watcher.emit("T-CLOSE-DEFER", of.sid)
        elif of.closed:
            self._gone(of, "T-REAP")

    def _gone(self, of: Session, transition: str) -> None:
        """Close a session and free its slot."""
        self.watcher.emit(transition, of.sid, None, **self.watcher.left(of.key))
        self.clients.end(of.key)
        self._tell("closed", session=of.sid, message="")

    def _finish(self, turn: ClientRequest, reason: str, message: str = "") -> None:
        tokens = list(turn.output)
        self._tell("finish", rid=turn.rid, reason=reason, tokens=tokens, message=message)

    def _tell(self, kind: str, **fields: Any) -> None:
        self.messages.append({"type": kind, **fields})


def commands(scheduler: Any) -> list[str]:
    """Return the commands that this build offers."""
    lacks = set() if hasattr(scheduler, "set_pause_state") else {"pause", "continue"}
    if "reset_running_requests" not in inspect.signature(scheduler.reset_prefix_cache).parameters:
        lacks.add("flush_all")
    rounds = ["accept"] if drafts.offered() else []
    return [*(name for name in INBOX if name not in lacks), "step", "tick", *rounds]


def capabilities(scheduler: Any) -> dict[str, Any]:
    """Return the driver's capabilities, in the format of the protocol."""
    return {
        "commands": commands(scheduler),
        "events": True,
        "pools": ["full"],
        "page_sizes": boot.LIMITS["page_size"],
        "config": {k: v for k, v in boot.limits().items() if k not in ("page_size", "retract")},
        "transitions": [*TRANSITIONS, *(AHEAD if boot.runs_ahead() else ())],
        "profile": "vllm",
        "recompute": True,
        "rounds_in_chunks": True,
        "shallow_rounds": not getattr(scheduler, "use_v2_model_runner", False),
        "answers": ANSWERS,
        "not_observed": NOT_OBSERVED,
    }
