"""Messages of the driver: JSON lines on standard input and output. The engine is in this process.

A fresh scheduler takes milliseconds, so the driver needs no forks. `reset` drops the old engine.
"""

from __future__ import annotations

import traceback
from typing import Any

from slotproof_driver import fields, serving
from slotproof_driver.usage import UsageError, one_line

from . import boot, content
from .engine import Engine, capabilities


class Driver(serving.Driver):
    """Driver of vLLM. The driver answers the protocol's requests."""

    name = "vllm"

    def __init__(self, options: boot.Options, asked: list[str]) -> None:
        """``asked``: names of patches."""
        super().__init__(asked)
        self.options = options
        self.engine: Engine | None = None
        self.crashed = False

    def load(self) -> str:
        return boot.import_engine()

    def capabilities(self) -> dict[str, Any]:
        """Try two turns on the build, then return its capabilities. Raise `UsageError`, in one
        line, if the build's layout is unknown."""
        try:
            self.reset({})
            for command in serving.REHEARSAL:
                self.engine_at_work().do(command)
        except UsageError:
            raise
        except Exception as error:
            traceback.print_exc()
            raise UsageError(f"unknown layout: {one_line(error)}") from error
        finally:
            engine, self.engine = self.engine, None
        assert engine is not None
        return capabilities(engine.scheduler)

    def reset(self, config: dict[str, Any]) -> None:
        self.engine = Engine(boot.normalise(config), self.options)
        self.crashed = False

    def engine_at_work(self) -> Engine:
        """Return the engine of the running example."""
        if self.engine is None or self.crashed:
            raise UsageError("do: reset first")
        return self.engine

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        engine = self.engine_at_work()
        fields.check(command)
        engine.check(command)
        try:
            return {"ok": True, "result": {"snapshots": engine.do(command)}}
        except Exception as error:
            self.crashed = True
            trace = traceback.format_exc()
            return {"ok": False, "kind": "crash", "error": one_line(error), "trace": trace}

    def recompute(self, tokens: list[int], count: int) -> dict[str, Any]:
        return {"ok": True, "result": {"tokens": content.follows(tokens, count)}}


def main() -> None:
    """Serve until the end of input."""
    parser = Driver.parser()
    parser.add_argument(
        "--turns-alone", action="store_true", help="let a session outgrow the context"
    )
    asked = parser.parse_args()
    Driver(boot.Options(asked.turns_alone), asked.patch).run()
