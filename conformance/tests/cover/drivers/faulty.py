"""The toy driver with one fault: ``faulty.py MODE``. MODE is the check that reports the fault."""

import importlib.util
import json
import random
import sys
import time
import zlib
from pathlib import Path
from typing import Any

MODE = sys.argv.pop(1)
TOY = Path(__file__).parents[3] / "slotproof" / "drivers" / "examples" / "toy.py"
module_spec = importlib.util.spec_from_file_location("toy", TOY)
assert module_spec is not None and module_spec.loader is not None
toy: Any = importlib.util.module_from_spec(module_spec)
module_spec.loader.exec_module(toy)
serve, snapshot, Engine, answer = toy.serve, toy.Engine.snapshot, toy.Engine, toy.answer
RESULT: dict[str, Any] = {}


def served(message: dict[str, Any]) -> Any:
    """Return the answer to a message, in the modes of messages."""
    op, command = message.get("op"), message.get("command") or {}
    if MODE == "handshake" and op == "hello" and message["protocol"] == 2:
        return {**serve(message), "engine": {"name": "toy"}}
    if MODE == "versions" and op == "hello":
        return {**toy.HELLO, "protocol": message["protocol"]}
    if MODE == "unknown-message" and op not in ("hello", "reset", "do", "bye"):
        return RESULT
    if MODE == "impossible-config" and op == "reset" and message["config"]["total_tokens"] < 0:
        return RESULT
    if op == "do" and MODE == "unknown-command" and command.get("do") not in toy.FIELDS:
        return {"snapshots": []}
    if op == "do" and MODE == "bad-arguments" and command == {"do": "abort"}:
        toy.engine.inbox.append({"do": "abort", "rid": ""})
        return {"snapshots": []}
    if op == "do" and MODE == "empty-step" and command.get("n") == 3 and not toy.engine.inbox:
        return {"snapshots": serve(message)["snapshots"][-1:]}
    if MODE == "reset" and op == "reset":
        inbox = toy.engine.inbox if toy.engine else []
        result = serve(message)
        toy.engine.inbox = inbox
        return result
    if MODE == "hang" and command.get("do") == "tick":
        time.sleep(600)
    if MODE == "quiet" and op == "reset":
        sys.stdout.write("loading weights: 100%\n")
    return serve(message)


def shown(engine: Any, consumed: int) -> Any:
    """Return a snapshot, in the modes of snapshots."""
    seen = snapshot(engine, consumed)
    if MODE == "snapshot" and seen["slots"]:
        del seen["checker"]
    if MODE == "raises" and seen["requests"]:
        raise KeyError("r1")
    if MODE == "inbox" and consumed == 2:
        seen["consumed"] = 0
    if MODE == "counts":
        seen["pools"]["full"]["evictable"] = 5
    if MODE == "hashes":
        for view in (*seen["requests"].values(), *seen["sessions"].values()):
            view["hash"] ^= 0xBEEF0F66
    if MODE == "events":
        seen["events"] = [
            ["T-FINISH" if e[0] == "T-SAVE" else e[0], *e[1:]] for e in seen["events"]
        ]
    if MODE == "backwards":
        seen["events"].reverse()
    if MODE == "spaces":
        for home in engine.sessions.values():
            if home.turn:
                tokens = ", ".join(map(str, home.turn["prompt"])).encode()
                seen["requests"][home.turn["rid"]]["hash"] = zlib.crc32(tokens)
    if MODE == "determinism":
        random.shuffle(seen["pools"]["full"]["free"])
    return seen


def said(line: str) -> Any:
    """Return an answer, in the modes of answers."""
    if MODE == "bad-line":
        json.loads(line).get("op")  # raises, as in drivers without a check
    reply = answer(line)
    if MODE == "python" and reply.get("result") == {"snapshots": []}:
        print(reply["result"])  # noqa: T201  # as drivers do that don't make JSON
        time.sleep(600)
    if MODE == "ids":
        del reply["id"]
    if MODE == "stderr":
        sys.stderr.write("warning: " + "x" * 200_000 + "\n\0\xff\n")
    return reply


toy.serve, toy.Engine.snapshot = served, shown
for line in sys.stdin:
    print(json.dumps(said(line)), flush=True)  # noqa: T201  # a driver prints
    if toy.over:
        break
if toy.over if MODE == "bye" else MODE == "end-of-input" and not toy.over:
    time.sleep(600)
