"""Lockstep speed on the reference engine: commands per second with all oracles on.

    python bench/lockstep.py [--seconds 5] [--record bench/results/lockstep.json] [--profile]
    python bench/lockstep.py --device cuda --record bench/results/lockstep-h200.json

Commands are drawn beforehand (the Hypothesis machine runs once per example). The timed part is
engine, snapshot, spec and oracles. By default, the pool has 64 tokens and the device is the CPU,
one core. The last line gives the speed of a whole campaign, generation included.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import time
from pathlib import Path

import torch
from machine import described, record, usable

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, EngineConfig
from slotproof.protocol.snapshot import Snapshot
from slotproof.reports.trace import Trace
from slotproof.search import campaign
from slotproof.search.examples import Search, rare_collections
from slotproof.search.plan import ExampleBatch, Plan

NAMES = ("p1", "p1-chunk", "p1-draft", "p4", "p1-swa", "p4-swa")
"""Configurations with a pool of about 64 tokens, not tight."""


class _Diary(InProcessEngine):
    """Record of the commands sent to an engine."""

    def __init__(self) -> None:
        super().__init__()
        self.lives: list[list[Command]] = []

    def reset(self, config: EngineConfig, seed: int) -> None:
        self.lives.append([])
        super().reset(config, seed)

    def do(self, command: Command) -> list[Snapshot]:
        self.lives[-1].append(command)
        return super().do(command)


def scripts(config: EngineConfig, count: int) -> list[list[Command]]:
    """Return command sequences drawn as in a campaign."""
    diary = _Diary()
    blank = Trace("reference", "reference", "reference", config, 0, [], [], minimal=False)
    Search(Plan({}), ExampleBatch("", 0, 0, count), blank).run(diary, lambda _: None, lambda: False)
    return diary.lives


def played(
    config: EngineConfig, runs: list[list[Command]], seconds: float, device: str = "cpu"
) -> tuple[int, int, float]:
    """(commands, iterations, seconds) of playing the scripts again and again, once at least."""
    commands = iterations = 0
    engine = InProcessEngine(device=device)
    with rare_collections():  # as in a search
        started = time.perf_counter()
        while not commands or time.perf_counter() - started < seconds:
            for run in runs:
                referee = play(engine, Setup(config), run)
                assert not referee.log[-1].violations
                commands += len(run)
                iterations += referee.coverage.iterations
    return commands, iterations, time.perf_counter() - started


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="per configuration")
    parser.add_argument("--examples", type=int, default=60, help="per configuration")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    usable(args.device)
    torch.set_num_threads(1)
    rows = []
    for name in NAMES:
        config = CONFIGS[name]
        runs = scripts(config, args.examples)
        played(config, runs, 0.0, args.device)  # kernels are compiled
        commands, iterations, seconds = played(config, runs, args.seconds, args.device)
        row = {
            "config": name,
            "commands_per_second": round(commands / seconds),
            "iterations_per_second": round(iterations / seconds),
        }
        rows.append(row)
        print(
            f"{name:<10} {row['commands_per_second']:>6} commands/s "
            f"{row['iterations_per_second']:>6} iterations/s"
        )
    plan = Plan(dict(CONFIGS), examples=len(NAMES) * args.examples)
    whole = campaign.run(InProcessEngine(device=args.device), "reference", plan)
    rate = round(whole.coverage.commands / whole.seconds)
    print(f"whole campaign, Hypothesis included: {rate} commands/s")
    if args.record:
        document = {
            "what": "lockstep on the reference engine, all oracles on, one core",
            **described(args.device),
            "configurations": rows,
            "campaign_commands_per_second": rate,
        }
        record(args.record, document)
    if args.profile:
        profile = cProfile.Profile()
        runs = scripts(CONFIGS["p4"], args.examples)
        profile.runcall(played, CONFIGS["p4"], runs, args.seconds)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    return 0


if __name__ == "__main__":
    sys.exit(main())
