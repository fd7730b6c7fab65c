"""The reference engine behind the pipe: ``python reference.py [MUTANT]``.

Everything that ``docs/reference/protocol.md`` asks of a driver. (A real driver
imports no slotproof; this one is there to test the wire with an engine that is known.)
"""

import dataclasses
import json
import sys
import traceback
from typing import Any

from slotproof.conformance.engines.base import PROTOCOL, EngineFailed, EngineUnusable
from slotproof.conformance.engines.reference import InProcessEngine
from slotproof.conformance.protocol.config import EngineConfig

engine = InProcessEngine(sys.argv[1] if len(sys.argv) > 1 else None)


def answer(message: dict[str, Any]) -> dict[str, Any]:
    match message["op"]:
        case "hello":
            offered = dataclasses.asdict(engine.capabilities)
            lists = {key: sorted(offered[key]) for key in ("commands", "transitions")}
            names = {"name": "reference over the wire", "version": engine.version}
            return {"protocol": PROTOCOL, "engine": names, "capabilities": {**offered, **lists}}
        case "reset":
            engine.reset(EngineConfig.from_json(message["config"]), message["seed"])
        case "do":
            return {"snapshots": engine.do(message["command"])}
        case "recompute":
            return {"tokens": engine.recompute(message["tokens"], message["count"])}
    return {}


for line in sys.stdin:
    request = json.loads(line)
    reply: dict[str, Any]
    try:
        reply = {"ok": True, "result": answer(request)}
    except EngineFailed as failure:
        reply = {"ok": False, "kind": "crash", "error": str(failure), "trace": failure.trace}
    except (EngineUnusable, ValueError) as error:
        reply = {"ok": False, "kind": "usage", "error": str(error)}
    except Exception as error:  # noqa: BLE001  # the driver itself
        text = traceback.format_exc()
        reply = {"ok": False, "kind": "crash", "error": repr(error), "trace": text}
    sys.stdout.write(json.dumps({"id": request.get("id"), **reply}) + "\n")
    sys.stdout.flush()
    if request["op"] == "bye":
        break
