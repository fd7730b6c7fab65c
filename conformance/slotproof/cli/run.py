"""``slotproof run``: the conformance suite against an engine build."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from slotproof.cli.all_findings import said
from slotproof.cli.errors import UsageProblem
from slotproof.cli.event_log import logged, stop_log
from slotproof.cli.options import (
    OUTPUT,
    SEARCH,
    ConfigOption,
    DeviceOption,
    EngineOption,
    JsonOption,
    LogOption,
    MendOption,
    ProfileOption,
    PythonOption,
    SeedOption,
    SetAsideOption,
    StartOption,
    StepsOption,
    TimeoutOption,
    jobs_count,
    known_profile,
    number,
    writable,
)
from slotproof.cli.progress_line import progress_bar
from slotproof.driver_checks.driver import ScriptRun
from slotproof.driver_checks.meanings import sign
from slotproof.engines.base import Engine, EngineFailed, EngineUnusable
from slotproof.engines.process import START_TIMEOUT
from slotproof.engines.registry import EngineSpec, is_ours
from slotproof.protocol.config import chosen
from slotproof.protocol.snapshot import nonsense
from slotproof.reports import forms, text
from slotproof.reports.trace import Trace
from slotproof.search import baseline as baselines, campaign, report
from slotproof.search.campaign import Outcome
from slotproof.search.findings import Finding
from slotproof.search.folder import Folder, by_mark, by_number
from slotproof.search.plan import EXAMPLES, Plan
from slotproof.search.workers import workers_for
from slotproof.support import interrupts
from slotproof.support.terminal import Painted, labelled, say_all, say_json


def run(
    engine: EngineOption = "reference",
    python: PythonOption = None,
    config: ConfigOption = None,
    examples: Annotated[
        int | None,
        typer.Option(
            "--examples",
            help=f"Command sequences in all. Default: {EXAMPLES}; with --seconds "
            "as many as there is time for.",
            metavar="N",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    steps: StepsOption = Plan.steps,
    seed: SeedOption = 0,
    profile: ProfileOption = None,
    set_aside: SetAsideOption = None,
    mend: MendOption = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="Where counterexamples are written.",
            metavar="DIR",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("slotproof-traces"),
    device: DeviceOption = "cpu",
    step_timeout: TimeoutOption = 10.0,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Go on after a finding; collect distinct ones.", rich_help_panel=SEARCH
        ),
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            min=0.1,
            help="Stop after so many seconds, shrinking too.",
            metavar="SECONDS",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            help="Processes at once, each with an engine (with --all).",
            metavar="N",
            rich_help_panel=SEARCH,
        ),
    ] = 1,
    start_timeout: StartOption = START_TIMEOUT,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run the conformance suite against an engine build."""
    configs = chosen(config)
    if jobs_count(jobs) > 1 and not everything:
        raise UsageProblem("--jobs goes with --all: without it, a run stops at the first finding")
    plan = Plan(
        configs,
        examples=_examples(examples, seconds),
        steps=number(steps, 1, "--steps"),
        seed=number(seed, 0, "--seed"),
        profile=known_profile(profile),
        set_aside=known(set_aside),
        seconds=seconds,
        distinct=None if everything else Plan.distinct,
    )
    writable(out)
    wanted = EngineSpec(engine, python, device, step_timeout, start_timeout, (*(mend or ()),))
    if everything and log is not None:
        raise UsageProblem("--log ends with the first counterexample: leave out --all")
    name = by_mark if everything else by_number
    folder = Folder(out, name(f"{wanted.stem}-seed{plan.seed}"))
    opened_engine = wanted.open()
    with interrupts.held(), logged(opened_engine, log) as under_test:  # it ends the campaign only
        outcome = _campaign(under_test, wanted, plan, jobs, folder, not as_json)
        summary = report.summary(outcome, plan, under_test.capabilities)
        summary["driver"] = _sign(under_test, wanted, outcome.trace)
    lines: Iterator[str | Painted]
    if everything:
        summary, lines = said(summary, outcome, folder)
    else:
        summary, lines = _few(summary, outcome, folder, wanted)
    if as_json:
        say_json(summary)
    else:
        say_all(lines)
    return int(summary["status"])


def _campaign(
    engine: Engine, spec: EngineSpec, plan: Plan, jobs: int, folder: Folder, bar: bool
) -> Outcome:
    def keep(findings: list[Finding]) -> None:
        stop_log(engine)  # it ends with the counterexample: what shrinking tries is not in it
        folder.keep(findings)

    with progress_bar(bar) as tell, workers_for(engine, spec, jobs) as workers:
        return campaign.run(engine, spec.text, plan, tell, keep, workers)


def _few(
    summary: dict[str, Any], outcome: Outcome, folder: Folder, spec: EngineSpec
) -> tuple[dict[str, Any], Iterator[str | Painted]]:
    """The summary with the plainest finding whole, and the others by name; as JSON and as text."""
    first, trace = next(iter(outcome.findings), None), outcome.trace
    summary = {
        **summary,
        "others": [
            {
                "id": each.id,
                "clause": each.mark.clause,
                "commands": len(each.trace.rows),
                "trace": str(folder.paths[each.id]),
            }
            for each in outcome.findings[1:]
        ],
        "shortest": report.compare(trace) if trace is not None else None,
        "trace": folder.path(first) if first is not None else None,
        "itf": forms.document(trace) if trace is not None else None,
    }
    return summary, _few_text(summary, first, folder, spec)


def _few_text(
    summary: dict[str, Any], first: Finding | None, folder: Folder, spec: EngineSpec
) -> Iterator[str | Painted]:
    if first is not None:
        path = str(folder.paths[first.id])
        yield from text.painted(text.render(first.trace, path, spec.options))
        yield ""
        yield labelled("trace", folder.problem(first) or path)
        page = f"slotproof show {shlex.quote(path)} --out page.html"
        yield labelled("page", page)
    if summary["shortest"] is not None:
        yield labelled("shortest", summary["shortest"]["text"])
    for other in summary["others"]:
        found = f"{other['id']} in {text.commands(other['commands'])}: {other['trace']}"
        yield labelled("also found", found)
    yield from report.text(summary)
    yield report.verdict(summary)


def _sign(engine: Engine, spec: EngineSpec, trace: Trace | None) -> str | None:
    """What speaks for the driver, not the engine, as the cause of a counterexample; in a line."""
    if trace is None or is_ours(spec.text) or trace.violations[0].invariant == "INV-ALIVE":
        return None
    try:
        engine.reset(trace.config, trace.seed)
        told = [(command, engine.do(command)) for command in trace.commands]
    except (EngineFailed, EngineUnusable):
        return None
    if any(nonsense(each, trace.config) for _, shown in told for each in shown):
        return None
    choices = trace.setup.choices(engine.capabilities).choices
    seen = sign(ScriptRun(trace.config_name, trace.config, told, choices), engine.capabilities)
    asked = f"slotproof check-driver {shlex.quote(spec.text)} {spec.options}".rstrip()
    return f"it may be the driver, not the engine: {seen}; ask {asked}" if seen else None


def _examples(asked: int | None, seconds: float | None) -> int | None:
    """How many to run; where only a time is given, that is the plan."""
    if asked is not None:
        return number(asked, 1, "--examples")
    return EXAMPLES if seconds is None else None


def known(clauses: list[str] | None) -> tuple[str, ...]:
    """Clauses that exist; anything else is a slip of the pen."""
    for clause in clauses or ():
        if clause not in baselines.clauses():
            raise UsageProblem(
                f"--set-aside: there is no clause {clause!r}; `slotproof list invariants --json` "
                "shows them"
            )
    return tuple(clauses or ())
