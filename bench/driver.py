"""Commands per second through a driver: alone, and with the spec and all oracles.

    python bench/driver.py [--engine sglang==0.5.23 ...] [--config p1 ...] [--examples 40]

Commands are those of a campaign, drawn beforehand on the reference engine. An example begins with a
reset, continues past violations, ends if the engine dies, and leaves out commands not offered by
the engine. Every example runs on each engine in turn, so that other load on the machine is shared:
ratios within a run can be trusted. An older driver is compared as ``--engine "cmd:ENV/bin/python
OLDER/conformance/slotproof/drivers/sglang"``. One process runs per engine, ``run --jobs N`` has N.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lockstep import scripts
from machine import described, record

from slotproof.engines.base import Engine, EngineFailed, EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, EngineConfig


@dataclass
class Rate:
    """Number of commands and their duration in seconds."""

    commands: int = 0
    seconds: float = 0.0

    def add(self, played: Callable[[], int]) -> None:
        started = time.perf_counter()
        self.commands += played()
        self.seconds += time.perf_counter() - started

    @property
    def per_second(self) -> int:
        return round(self.commands / max(self.seconds, 1e-9))


def alone(engine: Engine, config: EngineConfig, run: list[Command]) -> int:
    """How many commands an example had, without anybody looking at the snapshots."""
    engine.reset(config, 0)
    count = 0
    with suppress(EngineFailed):
        for command in run:
            count += 1
            engine.do(command)
    return count


def judged(engine: Engine, config: EngineConfig, run: list[Command]) -> int:
    """Run commands with the spec in step and every oracle, tokens replayed."""
    return len(play(engine, Setup(config), run, passes=lambda _: True).log)


def measure(engines: dict[str, Engine], name: str, examples: int) -> Iterator[dict[str, Any]]:
    """Yield a row for every engine that accepts the configuration."""
    config = CONFIGS[name]
    runs = scripts(config, examples)
    usable = {k: e for k, e in engines.items() if e.capabilities.refuses(config) is None}
    rates = {text: {"alone": Rate(), "judged": Rate()} for text in usable}
    for number, run in enumerate(runs):
        for text, engine in usable.items():
            offered = [command for command in run if command["do"] in engine.capabilities.commands]
            for what, played in (("alone", alone), ("judged", judged)):
                if number == 0:
                    played(engine, config, offered)  # the first of all takes longer
                rates[text][what].add(partial(played, engine, config, offered))
    for text, rate in rates.items():
        figures = {f"{what}_commands_per_second": total.per_second for what, total in rate.items()}
        yield {"engine": text, "config": name, **figures}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", action="append", help="an --engine argument, many times")
    parser.add_argument("--config", action="append", choices=sorted(CONFIGS), help="many times")
    parser.add_argument("--examples", type=int, default=40)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    rows = []
    with ExitStack() as opened:
        engines: dict[str, Engine] = {}
        for text in args.engine or ["sglang==0.5.10.post1", "sglang==0.5.23"]:
            try:
                engines[text] = opened.enter_context(
                    closing(EngineSpec(text, step_timeout=60).open())
                )
            except EngineUnusable as reason:
                sys.stderr.write(f"{sys.argv[0]}: {reason}\n")
                return 2
        for name in args.config or ["p1"]:
            for row in measure(engines, name, args.examples):
                rows.append(row)
                print(
                    f"{name:<18} {row['engine'][-60:]:<22} "
                    f"{row['alone_commands_per_second']:>5} commands/s alone "
                    f"{row['judged_commands_per_second']:>5} judged",
                    file=sys.stderr,
                )
    what = "commands of a campaign through a driver, one process, a reset for each example"
    record(args.record, {"what": what, **described("cpu"), "engines": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
