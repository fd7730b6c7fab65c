"""``slotproof check-driver``: check a driver against the rules of the protocol."""

from __future__ import annotations

import re
from collections import Counter

import typer

from slotproof.cli.options import JSON, STEP_TIMEOUT, answer
from slotproof.driver_checks import CHECKS, Result, check
from slotproof.driver_checks.driver import Driver
from slotproof.engines.registry import EngineSpec
from slotproof.environments.families import FAMILIES
from slotproof.support.terminal import say

_ENGINE = re.compile(
    rf"reference(:.*)?|({'|'.join(FAMILIES)})([=@].*)?|cmd:.*|[A-Za-z_][\w.]*:[A-Za-z_]\w*",
    re.DOTALL,
)
_WIDTH = max(len(rule.name) for rule in CHECKS)


def check_driver(
    driver: str = typer.Argument(
        metavar="DRIVER", help='Driver command in quotes ("python toy.py"), or an engine.'
    ),
    step_timeout: float = STEP_TIMEOUT,
    as_json: bool = JSON,
) -> int:
    """Check that a driver follows the rules of the protocol."""
    spec = EngineSpec.parse(driver if _ENGINE.fullmatch(driver) else f"cmd:{driver}", step_timeout)
    tested = Driver(spec.driver(), step_timeout, spec.start_timeout)
    report = check(tested, (lambda _: None) if as_json else _show)
    build = spec.identity(report.engine, report.version)
    names = f"configuration{'s' * (len(report.configs) > 1)} {', '.join(report.configs)}"
    where = names if report.configs else "no supported configuration"
    counts = Counter(result.result for result in report.results)
    shown = ", ".join(f"{counts[x]} {x}" for x in ("ok", "not ok", "not asked") if counts[x])
    document = {
        "status": int(not report.clean),
        "engine": report.engine,
        "version": build.number,
        "configurations": report.configs,
        "manners": [
            {
                "name": result.check.name,
                "sentence": result.check.sentence,
                "result": result.result,
                "seen": result.seen,
                "fix": result.check.fix,
            }
            for result in report.results
        ],
    }
    return answer(document, [f"{build.title}, {where}: {shown}"], as_json)


def _show(result: Result) -> None:
    say(f"{result.result:<9}  {result.check.name:<{_WIDTH}}  {result.check.sentence}")
    for seen in result.seen:
        say(f"           seen: {' '.join(seen.split())}")
    if result.result == "not ok":
        say(f"           fix: {result.check.fix}")
