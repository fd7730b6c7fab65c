"""The driver's messages: JSON lines on standard input and output, and one engine in this process.

A fresh scheduler takes milliseconds, so nothing is forked: `reset` throws the old one away.
"""

from __future__ import annotations

import traceback
from typing import Any

from slotproof_driver import fields, serving
from slotproof_driver.usage import UsageError, one_line

from . import boot, content
from .engine import Engine, capabilities


class Driver(serving.Driver):
    """Answers the protocol's requests."""

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
        """Those of a build that two turns were tried with: one that is laid out otherwise is
        refused with a line."""
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
        return capabilities(engine.scheduler, self.options)

    def reset(self, config: dict[str, Any]) -> None:
        self.engine = Engine(boot.normalise(config), self.options)
        self.crashed = False

    def engine_at_work(self) -> Engine:
        """The engine of the running example."""
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
    parser.add_argument("--no-prefix-cache", action="store_true", help="blocks are not shared")
    parser.add_argument("--priority", action="store_true", help="requests differ in importance")
    parser.add_argument(
        "--turns-alone", action="store_true", help="a session may outgrow the context"
    )
    asked = parser.parse_args()
    options = boot.Options(not asked.no_prefix_cache, asked.turns_alone, asked.priority)
    Driver(options, asked.patch).run()
