"""``slotproof run``: the conformance suite against an engine build."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from slotproof.conformance.cli.all_findings import Book, opened, run_all
from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.cli.logging import logged, stop_log
from slotproof.conformance.cli.options import (
    DeviceOption,
    EngineOption,
    JsonOption,
    LogOption,
    ProfileOption,
    PythonOption,
    StartOption,
    TimeoutOption,
    jobs_count,
    known_profile,
    number,
    writable,
)
from slotproof.conformance.cli.telling import progress_bar
from slotproof.conformance.engines.base import Engine
from slotproof.conformance.engines.process import START_TIMEOUT
from slotproof.conformance.engines.registry import EngineSpec
from slotproof.conformance.files import slug
from slotproof.conformance.protocol.config import CONFIGS, EngineConfig
from slotproof.conformance.search import campaign, report
from slotproof.conformance.search.plan import EXAMPLES
from slotproof.conformance.search.shortest import compare
from slotproof.conformance.terminal import labelled, say, say_all, say_json, say_text
from slotproof.conformance.traces import itf, text
from slotproof.conformance.traces.trace import Trace
from slotproof.model.invariants import INVARIANTS


def run(
    engine: EngineOption = "reference",
    python: PythonOption = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="A configuration by name; may be repeated. Default: all."),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(
            "--examples",
            help=f"Command sequences in all. Default: {EXAMPLES}; with --seconds "
            "as many as there is time for.",
        ),
    ] = None,
    steps: Annotated[
        int, typer.Option("--steps", help="Rules per example at most.")
    ] = campaign.Plan.steps,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same run.")] = 0,
    profile: ProfileOption = None,
    set_aside: Annotated[
        list[str] | None,
        typer.Option(
            "--set-aside",
            help="A clause (INV-ONCE.reported) whose violations are known; may be repeated.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where counterexamples are written.")] = Path(
        "slotproof-traces"
    ),
    device: DeviceOption = "cpu",
    step_timeout: TimeoutOption = 10.0,
    everything: Annotated[
        bool, typer.Option("--all", help="Go on after a finding; collect distinct ones.")
    ] = False,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0.1, help="Stop after so many seconds, shrinking too."),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", help="Processes at once, each with an engine (with --all).")
    ] = 1,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", help="A file of known findings: fail on new ones only."),
    ] = None,
    update_baseline: Annotated[
        bool, typer.Option("--update-baseline", help="Add what is found to that file.")
    ] = False,
    start_timeout: StartOption = START_TIMEOUT,
    log: LogOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run the conformance suite against an engine build."""
    configs = chosen(config)
    everything = everything or baseline is not None
    if jobs_count(jobs) > 1 and not everything:
        raise UsageProblem("--jobs goes with --all: without it, a run stops at the first finding")
    if update_baseline and baseline is None:
        raise UsageProblem("--update-baseline needs --baseline FILE")
    known_findings = opened(baseline, update_baseline)
    plan = campaign.Plan(
        configs,
        examples=_examples(examples, seconds),
        steps=number(steps, 1, "--steps"),
        seed=number(seed, 0, "--seed"),
        profile=known_profile(profile),
        set_aside=known(set_aside),
        seconds=seconds,
    )
    writable(out)
    wanted = EngineSpec(engine, python, device, step_timeout, start_timeout)
    if everything and log is not None:
        raise UsageProblem("--log ends with the first counterexample: leave out --all")
    with logged(wanted.open(), log) as under_test:
        if everything:
            book = Book(known_findings, baseline, update_baseline)
            return run_all(under_test, wanted, plan, jobs, out, book, as_json)
        return _run(under_test, engine, plan, out, as_json)


def _run(engine: Engine, spec: str, plan: campaign.Plan, out: Path, as_json: bool) -> int:
    keep = _Keeper(out / f"{slug(spec, 60)}-seed{plan.seed}.itf.json")
    with progress_bar(not as_json) as tell:
        outcome = campaign.run(engine, spec, plan, tell, lambda found: _found(found, engine, keep))
    summary = report.summary(outcome, plan, engine.capabilities)
    path = keep.path(0)
    summary["others"] = [
        {
            "clause": each.violations[0].clause,
            "commands": len(each.rows),
            "trace": str(keep.path(number)),
        }
        for number, each in enumerate(outcome.traces[1:], 1)
    ]
    summary["shortest"] = compare(outcome.trace) if outcome.trace is not None else None
    summary["trace"] = str(path) if outcome.trace is not None and not keep.problem else None
    if as_json:
        say_json({**summary, "itf": itf.to_itf(outcome.trace) if outcome.trace else None})
        return int(summary["status"])
    if outcome.trace is not None:
        say_text(text.render(outcome.trace, str(path)))
        say()
        say(labelled("trace", keep.problem or path))
        say(
            labelled(
                "page", f"slotproof show {shlex.quote(str(path))} --format html --out page.html"
            )
        )
    if summary["shortest"] is not None:
        say(labelled("shortest", summary["shortest"]["text"]))
    for other in summary["others"]:
        say(
            labelled(
                "also found",
                f"{other['clause']} in {text.commands(other['commands'])}: {other['trace']}",
            )
        )
    say_all(report.text(summary))
    say(report.verdict(summary))
    return int(summary["status"])


def _examples(asked: int | None, seconds: float | None) -> int | None:
    """How many to run; where only a time is given, that is the plan."""
    if asked is not None:
        return number(asked, 1, "--examples")
    return EXAMPLES if seconds is None else None


def _found(traces: list[Trace], engine: Engine, keep: _Keeper) -> None:
    """The log ends with the counterexample: what shrinking tries is not in it."""
    stop_log(engine)
    keep(traces)


class _Keeper:
    """Writes what is found as soon as it is found; a full disk is told, not fatal."""

    def __init__(self, first: Path) -> None:
        self.first = first
        self.written: list[Trace] = []
        self.problem = ""

    def path(self, index: int) -> Path:
        """The plainest counterexample has the plain name, the others have numbers from 2."""
        if not index:
            return self.first
        name = self.first.name.replace(".itf.json", f"-{index + 1}.itf.json")
        return self.first.with_name(name)

    def __call__(self, traces: list[Trace]) -> None:
        for index, trace in enumerate(traces):
            if index < len(self.written) and self.written[index] is trace:
                continue
            try:
                itf.save(trace, self.path(index))
            except OSError as error:
                self.problem = f"could not be written to {self.path(index)}: {error.strerror}"
        self.written = list(traces)


def chosen(names: list[str] | None) -> dict[str, EngineConfig]:
    """Configurations by name; all of them without names."""
    for name in names or ():
        if name not in CONFIGS:
            raise UsageProblem(f"unknown configuration {name!r}; there are: {', '.join(CONFIGS)}")
    return {name: CONFIGS[name] for name in names} if names else dict(CONFIGS)


def known(clauses: list[str] | None) -> tuple[str, ...]:
    """Clauses that exist; anything else is a slip of the pen."""
    there = {
        f"{each.id}.{name}"
        for each in INVARIANTS.values()
        for name in (*each.conjuncts, *each.observed)
    }
    for clause in clauses or ():
        if clause not in there:
            raise UsageProblem(
                f"--set-aside: there is no clause {clause!r}; `slotproof list invariants --json` "
                "shows them"
            )
    return tuple(clauses or ())
