"""Coverage of a run's examples: prompts by branch, ends of requests, phases of aborts, refusals by
cause, limits, pairs of transitions on a session.

    python bench/reached.py [--engine reference] [--examples 1400] [--seed 0] [--config p1 ...]
    python bench/reached.py --record bench/results/reached.json

The campaign is as in ``slotproof run``. The figures are those of ``run --json``, under ``clients``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import torch
from machine import described, record

from slotproof.engines.registry import EngineSpec
from slotproof.protocol.config import CONFIGS
from slotproof.search import campaign, report
from slotproof.search.plan import EXAMPLES, Plan

RARE = 5
"""Pairs met less often are named."""


def lines(reached: dict[str, dict[str, int]]) -> Iterator[str]:
    """Yield a table of each kind with shares. For pairs, yield their number and the rare pairs."""
    for what, counts in reached.items():
        total = sum(counts.values())
        if what == "pairs":
            rare = sorted(name for name, count in counts.items() if count < RARE)
            yield f"pairs: {len(counts)}, of which less than {RARE} times: {', '.join(rare) or '-'}"
            continue
        yield f"{what}: {total}"
        for name, count in counts.items():
            yield f"  {name:24} {count:7} {100 * count / total:5.1f} %"


def reached(spec: str, plan: Plan) -> dict[str, Any]:
    """Return the summary of a campaign on the engine, as in ``run --json``. Print findings."""
    with ExitStack() as stack:
        engine = stack.enter_context(closing(EngineSpec(spec).open()))
        outcome = campaign.run(engine, spec, plan)
        summary = report.summary(outcome, plan, engine.capabilities)
    for finding in outcome.findings:
        print(f"found: {finding.id}: the examples after it were not run")
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="reference")
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--config", nargs="*", default=list(CONFIGS), choices=list(CONFIGS))
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    plan = Plan(
        {name: CONFIGS[name] for name in args.config}, examples=args.examples, seed=args.seed
    )
    summary = reached(args.engine, plan)
    print("\n".join(lines(summary["clients"])))
    if args.record is not None:
        document: dict[str, Any] = described("cpu")
        figures = {"commands": summary["commands"], "iterations": summary["iterations"]}
        record(args.record, {**document, **figures, "reached": summary["clients"]})


if __name__ == "__main__":
    main()
