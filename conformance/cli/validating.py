"""``slotproof validate``: a recorded log against the spec, without the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.cli.options import JsonOption, ProfileOption, known_profile
from slotproof.conformance.cli.running import known
from slotproof.conformance.logs import judging, report
from slotproof.conformance.logs.format import BadLog
from slotproof.conformance.terminal import say_all, say_json


def validate(
    log: Annotated[Path, typer.Argument(help="An event log: JSON lines.")],
    profile: ProfileOption = None,
    set_aside: Annotated[
        list[str] | None,
        typer.Option(
            "--set-aside",
            help="A clause (INV-ONCE.reported) whose violations are known; may be repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Check a recorded event log against the spec, without the engine."""
    try:
        verdict = judging.validate(log, known_profile(profile), known(set_aside))
    except BadLog as bad:
        raise UsageProblem(str(bad)) from None
    if as_json:
        say_json(report.summary(verdict))
    else:
        say_all(report.text(verdict))
    return report.status(verdict)
