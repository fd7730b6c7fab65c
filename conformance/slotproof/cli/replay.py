"""``slotproof replay``: run a trace again, on the same or another engine."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from slotproof.cli import options
from slotproof.cli.errors import UsageProblem
from slotproof.cli.event_log import logged
from slotproof.cli.options import option, writing
from slotproof.cli.side_by_side import compared
from slotproof.engines.registry import EngineSpec, is_ours
from slotproof.reports import forms, text
from slotproof.reports.trace import Trace, load_trace
from slotproof.support.terminal import say, say_all, say_json
from slotproof.traces import itf

ENGINE_HELP = "Build to replay on. Default: the trace's build, if it is the reference or a mutant."
AGAINST_HELP = "Compare with this build, or with the states recorded in this .itf.json file."
PATCH_HELP = (
    "Repair this known bug. Repeatable. `none` repairs nothing. Default: the trace's patches."
)


def replay(
    trace: Path = typer.Argument(metavar="TRACE", help="Trace, an .itf.json file."),
    engine: str | None = option("--engine ENGINE", "Engine", ENGINE_HELP),
    against: str | None = option("--against ENGINE", "Engine", AGAINST_HELP),
    step_timeout: float = options.STEP_TIMEOUT,
    profile: str | None = options.PROFILE,
    patch: list[str] | None = option("--patch NAME", "Engine", PATCH_HELP),
    out: Path | None = option("--out FILE", "Output", "File for the trace of this replay."),
    log: Path | None = options.LOG,
    as_json: bool = options.JSON,
) -> int:
    """Replay a trace on a build, or on two builds side by side."""
    old = load_trace(trace)
    if against is not None and (out is not None or log is not None):
        raise UsageProblem("--against compares and writes nothing: leave out --out and --log")
    options.writable_file(out)
    if engine is None and not is_ours(old.spec):
        raise UsageProblem(
            f"{trace} was found on {old.found_on!r}, and a trace starts no program by itself: "
            f"give --engine {shlex.quote(old.found_on)}, or name another engine"
        )
    choices = options.known_profile(profile) or options.known_profile(old.chosen_profile)
    patches = [] if patch == ["none"] else patch
    wanted = EngineSpec.parse(engine or old.spec, step_timeout, patches, old.patches)
    if against is not None:
        other = EngineSpec.parse(against, step_timeout, patches, old.patches)
        return compared(old, wanted, other, choices, as_json)
    with logged(wanted.open(), log) as under_test:
        new = old.again(under_test, wanted.text, choices)
    if out is not None:
        with writing(out):
            itf.save(new, out)
    if as_json:
        say_json(forms.document(new))
    else:
        say_all(text.painted(text.render(new, str(trace), wanted)))
        say()
        say(_comparison(old, new))
    return 1 if new.violations else 0


def _comparison(old: Trace, new: Trace) -> str:
    before, now = ({violation.clause for violation in run.violations} for run in (old, new))
    was, does, both = (", ".join(sorted(s)) or "nothing" for s in (before, now, before & now))
    if not now:
        return f"conforms: no clause is violated (the trace was found violating {was})"
    if before & now:
        return f"reproduced: {both}"
    return f"another violation than the trace's: {does} instead of {was}"
