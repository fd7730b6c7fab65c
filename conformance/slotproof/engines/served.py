"""An engine that answers in this process, behind a pipe: ``python -m … ENGINE``.

``check-driver reference`` talks to this; so do tests of the wire. It is the only
driver that imports slotproof, for the engine it serves does too.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

from slotproof.engines.base import Engine, EngineFailed, EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.protocol.commands import check
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.messages import PROTOCOL, REQUEST


class Served:
    """Answers the protocol's messages with an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.ready = False

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """The result of a message; ``ValueError`` for one that makes no sense."""
        REQUEST.demand(message, ValueError)
        op = message["op"]
        if op == "hello":
            if message["protocol"] != PROTOCOL:
                raise ValueError(f"protocol {message['protocol']} is unknown, this is {PROTOCOL}")
            names = {"name": f"{self.engine.name} over the wire", "version": self.engine.version}
            offered = self.engine.capabilities.to_json()
            return {"protocol": PROTOCOL, "engine": names, "capabilities": offered}
        if op == "reset":
            self.engine.reset(EngineConfig.from_json(message["config"]), message["seed"])
            self.ready = True
        elif op == "do":
            if not self.ready:
                raise ValueError("do: reset comes first")
            return {"snapshots": self.engine.do(check(message["command"]))}
        elif op == "recompute":
            return {"tokens": self.engine.recompute(message["tokens"], message["count"])}
        return {}

    def reply(self, line: str) -> dict[str, Any]:
        message: Any = None
        try:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError("a message is a JSON object")  # noqa: TRY004  # it is input
            found = {"ok": True, "result": self.answer(message)}
        except EngineFailed as failure:
            found = _crash(str(failure), failure.trace)
        except (EngineUnusable, ValueError) as error:
            found = {"ok": False, "kind": "usage", "error": " ".join(str(error).split())}
        except Exception as error:  # noqa: BLE001  # whatever a stranger's engine raises
            found = _crash(f"{type(error).__name__}: {error}", traceback.format_exc())
        number = message.get("id") if isinstance(message, dict) else None
        return {"id": number, **found}


def _crash(error: str, trace: str) -> dict[str, Any]:
    return {"ok": False, "kind": "crash", "error": error, "trace": trace}


def main() -> None:
    """Serve the engine of the command line until ``bye`` or the end of input."""
    out, sys.stdout = sys.stdout, sys.stderr  # what the engine prints is no answer
    try:
        served = Served(EngineSpec(sys.argv[1]).open())
    except EngineUnusable as problem:
        sys.exit(str(problem))
    for line in sys.stdin:
        reply = served.reply(line)
        out.write(json.dumps(reply) + "\n")
        out.flush()
        if reply["ok"] and json.loads(line).get("op") == "bye":
            break
    sys.stderr.flush()
    os._exit(0)  # torch takes its time to leave


if __name__ == "__main__":
    main()
