"""``slotproof check-driver``: does a driver mind its manners?"""

from __future__ import annotations

import re
from typing import Annotated

import typer

from slotproof.conformance import driver_checks as manners
from slotproof.conformance.cli.options import JsonOption, PythonOption, StartOption, TimeoutOption
from slotproof.conformance.driver_checks.guest import Guest
from slotproof.conformance.engines.process import START_TIMEOUT
from slotproof.conformance.engines.registry import EngineSpec
from slotproof.conformance.terminal import say, say_all, say_json

_ENGINE = re.compile(r"reference(:.*)?|sglang|cmd:.*|[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.DOTALL)
_WIDTH = max(len(manner.name) for manner in manners.MANNERS)


def check_driver(
    driver: Annotated[
        str,
        typer.Argument(help='The driver\'s command in one word ("python toy.py"), or an engine.'),
    ],
    python: PythonOption = None,
    seed: Annotated[int, typer.Option("--seed", help="The seed of its resets.")] = 0,
    step_timeout: TimeoutOption = 10.0,
    start_timeout: StartOption = START_TIMEOUT,
    as_json: JsonOption = False,
) -> int:
    """Test a driver's manners: status 0 all ok, 1 something to mend, 2 it does not start."""
    text = driver if _ENGINE.fullmatch(driver) else f"cmd:{driver}"
    argv = EngineSpec(text, python).driver()
    guest = Guest(argv, seed, step_timeout, start_timeout)
    visit = manners.check(guest, (lambda _: None) if as_json else _show)
    if as_json:
        say_json(_document(visit))
    else:
        say_all(_summary(visit))
    return 0 if visit.clean else 1


def _show(finding: manners.Finding) -> None:
    manner = finding.manner
    say(f"{finding.result:<9}  {manner.name:<{_WIDTH}}  {manner.sentence}")
    for seen in finding.seen:
        say(f"           seen: {' '.join(seen.split())}")
    if finding.result == "not ok":
        say(f"           mend: {manner.mend}")


def _summary(visit: manners.Visit) -> list[str]:
    where = f"configuration {visit.config}" if visit.config else "no configuration that it takes"
    results = [finding.result for finding in visit.findings]
    words = [f"{results.count(each)} {each}" for each in ("ok", "not ok", "not asked")]
    some = ", ".join(word for word in words if not word.startswith("0 "))
    return [f"{visit.engine} {visit.version}, {where}: {some}"]


def _document(visit: manners.Visit) -> dict[str, object]:
    return {
        "status": 0 if visit.clean else 1,
        "engine": visit.engine,
        "version": visit.version,
        "configuration": visit.config,
        "manners": [
            {
                "name": finding.manner.name,
                "sentence": finding.manner.sentence,
                "result": finding.result,
                "seen": finding.seen,
                "mend": finding.manner.mend,
            }
            for finding in visit.findings
        ],
    }
