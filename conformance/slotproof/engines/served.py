"""Server of an in-process engine over a pipe: ``python -m … ENGINE``.

``check-driver reference`` and the tests of the wire protocol use this server. Unlike the drivers of
other engines, the server imports slotproof.
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
    """Server that passes the protocol's messages to an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.ready = False

    def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a message. Raises ``ValueError`` for an invalid message."""
        REQUEST.demand(message, ValueError)
        if (op := message["op"]) == "hello":
            if message["protocol"] != PROTOCOL:
                raise ValueError(f"protocol {message['protocol']} is unknown, expected {PROTOCOL}")
            names = {"name": f"{self.engine.name} over the wire", "version": self.engine.version}
            offered = self.engine.capabilities.to_json()
            return {"protocol": PROTOCOL, "engine": names, "capabilities": offered}
        if op == "reset":
            self.engine.reset(EngineConfig.from_json(message["config"]), message["seed"])
            self.ready = True
        elif op == "do":
            if not self.ready:
                raise ValueError("do: the engine is not reset. Send reset first")
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
            reply = {"ok": True, "result": self.answer(message)}
        except EngineFailed as failure:
            reply = _crash(str(failure), failure.trace)
        except (EngineUnusable, ValueError) as error:
            reply = {"ok": False, "kind": "usage", "error": " ".join(str(error).split())}
        except Exception as error:  # noqa: BLE001  # whatever a stranger's engine raises
            reply = _crash(f"{type(error).__name__}: {error}", traceback.format_exc())
        return {"id": message.get("id") if isinstance(message, dict) else None, **reply}


def _crash(error: str, trace: str) -> dict[str, Any]:
    return {"ok": False, "kind": "crash", "error": error, "trace": trace}


def main() -> None:
    """Serve the engine of the command line until ``bye`` or the end of input."""
    out, sys.stdout = sys.stdout, sys.stderr  # the engine's own output is no answer
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
    os._exit(0)  # The usual exit takes long once torch is loaded.


if __name__ == "__main__":
    main()
