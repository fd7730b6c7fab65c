"""Commands per second through a driver: alone, and with the spec and all oracles behind it.

    python bench/driver.py [--engine sglang==0.5.23 ...] [--config p1] [--examples 40] [--record F]

Commands are those a campaign draws (drawn beforehand, on the reference engine); each example
begins with a reset. An example goes on past violations, ends where the engine dies, and leaves out
what the engine does not offer. One process: ``run --jobs N`` has N of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from lockstep import scripts
from machine import described, record

from slotproof.conformance.engines.base import Engine, EngineFailed, EngineUnusable
from slotproof.conformance.engines.registry import EngineSpec
from slotproof.conformance.lockstep.referee import Setup, play
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import CONFIGS, EngineConfig

Runs = list[list[Command]]


def alone(engine: Engine, config: EngineConfig, runs: Runs) -> tuple[int, float]:
    """(commands, seconds) without anybody looking at the snapshots."""
    count, started = 0, time.perf_counter()
    for run in runs:
        engine.reset(config, 0)
        with suppress(EngineFailed):
            for command in run:
                count += 1
                engine.do(command)
    return count, time.perf_counter() - started


def judged(engine: Engine, config: EngineConfig, runs: Runs) -> tuple[int, float]:
    """(commands, seconds) with the spec in step and every oracle; tokens replayed."""
    count, started = 0, time.perf_counter()
    for run in runs:
        count += len(play(engine, Setup(config), run, passes=lambda _: True).log)
    return count, time.perf_counter() - started


def measure(text: str, name: str, runs: Runs) -> dict[str, Any]:
    config = CONFIGS[name]
    engine = EngineSpec(text, step_timeout=60).open()
    try:
        offered = engine.capabilities.commands
        runs = [[command for command in run if command["do"] in offered] for run in runs]
        alone(engine, config, runs[:2])
        rates = {}
        for what, play in (("alone", alone), ("judged", judged)):
            count, seconds = play(engine, config, runs)
            rates[f"{what}_commands_per_second"] = round(count / seconds)
        return {"engine": text, "config": name, **rates}
    finally:
        engine.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", action="append", help="an --engine argument, many times")
    parser.add_argument("--config", default="p1", choices=sorted(CONFIGS))
    parser.add_argument("--examples", type=int, default=40)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    runs = scripts(CONFIGS[args.config], args.examples)
    rows = []
    for text in args.engine or ["sglang==0.5.10.post1", "sglang==0.5.23"]:
        try:
            row = measure(text, args.config, runs)
        except EngineUnusable as reason:
            sys.stderr.write(f"{sys.argv[0]}: {reason}\n")
            return 2
        rows.append(row)
        print(
            f"{text:<22} {row['alone_commands_per_second']:>5} commands/s alone "
            f"{row['judged_commands_per_second']:>5} judged",
            file=sys.stderr,
        )
    what = "commands of a campaign through a driver, one process, a reset for each example"
    record(args.record, {"what": what, **described("cpu"), "engines": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
