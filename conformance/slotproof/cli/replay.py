"""``slotproof replay``: run a trace again, on the same or another engine."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from slotproof.cli.errors import UsageProblem
from slotproof.cli.event_log import logged
from slotproof.cli.options import (
    ENGINE,
    OUTPUT,
    DeviceOption,
    JsonOption,
    LogOption,
    ProfileOption,
    PythonOption,
    StartOption,
    TimeoutOption,
    known_profile,
    writable_file,
    writing,
)
from slotproof.engines.base import demand
from slotproof.engines.process import START_TIMEOUT
from slotproof.engines.registry import EngineSpec, is_ours, mends_for
from slotproof.lockstep.explanations import explain
from slotproof.lockstep.referee import play
from slotproof.reports import forms, text
from slotproof.reports.trace import Trace, load_trace
from slotproof.support.terminal import say, say_all, say_json
from slotproof.traces import itf
from slotproof.traces.record import rows_of


def replay(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="An .itf.json file.")],
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            help="The engine to run it on; needed if the trace was not found on the reference or a "
            "mutant of it.",
            metavar="ENGINE",
            rich_help_panel=ENGINE,
        ),
    ] = None,
    python: PythonOption = None,
    device: DeviceOption = "cpu",
    step_timeout: TimeoutOption = 10.0,
    start_timeout: StartOption = START_TIMEOUT,
    profile: ProfileOption = None,
    mend: Annotated[
        list[str] | None,
        typer.Option(
            "--mend",
            help="Repair this known bug of an SGLang build, in place of what the trace was found "
            "with; may be repeated; none: nothing.",
            metavar="NAME",
            rich_help_panel=ENGINE,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Write the trace of this replay to a file.",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run a trace again: status 1 if a clause is violated, 0 if none is."""
    old = load_trace(trace)
    writable_file(out)
    if engine is None and not is_ours(old.spec):
        raise UsageProblem(
            f"{trace} was found on {old.found_on!r}, which a trace can't have started: "
            f"say so with --engine {shlex.quote(old.found_on)}, or name another engine"
        )
    choices = known_profile(profile) or known_profile(old.chosen_profile)
    spec = engine or old.spec
    mends = mends_for(spec, old.mends) if mend is None else (*mend,)
    mends = () if mends == ("none",) else mends
    wanted = EngineSpec(spec, python, device, step_timeout, start_timeout, mends)
    with logged(wanted.open(), log) as under_test:
        demand(under_test, old.config, old.commands)
        setup = replace(old.setup, profile=choices)
        referee = play(under_test, setup, old.commands, old.passes)
        played = referee.log
        first = old.violations[0].clause if old.violations else ""
        violations = sorted(played[-1].violations, key=lambda each: each.clause != first)
        again = {each.clause for each in violations} & {each.clause for each in old.violations}
        new = replace(
            old,
            engine=f"{under_test.name} {under_test.version}".strip(),
            spec=spec,
            profile=choices or under_test.capabilities.profile,
            rows=rows_of(played),
            states=True,
            violations=violations,
            minimal=old.minimal and bool(again) and len(played) == len(old.rows),
            chosen_profile=choices,
            explained=explain(referee) if violations else None,
            set_aside=tuple(sorted(referee.set_aside)),
            mends=under_test.capabilities.mends,
        )
    if out is not None:
        with writing(out):
            itf.save(new, out)
    if as_json:
        say_json(forms.document(new))
    else:
        say_all(text.painted(text.render(new, str(trace), wanted.options)))
        say()
        say(_comparison(old, new))
    return 1 if new.violations else 0


def _comparison(old: Trace, new: Trace) -> str:
    before = {violation.clause for violation in old.violations}
    now = {violation.clause for violation in new.violations}
    if not now:
        return f"conforms: no clause is violated (the trace was found violating {_some(before)})"
    if before & now:
        return f"reproduced: {_some(before & now)}"
    return f"another violation than the trace's: {_some(now)} instead of {_some(before)}"


def _some(clauses: set[str]) -> str:
    return ", ".join(sorted(clauses)) or "nothing"
