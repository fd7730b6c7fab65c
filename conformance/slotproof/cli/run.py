"""``slotproof run``: the conformance suite against an engine build."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from slotproof.cli import options
from slotproof.cli.all_findings import said
from slotproof.cli.errors import UsageProblem
from slotproof.cli.event_log import logged
from slotproof.cli.options import option, writing
from slotproof.cli.progress_line import progress_bar
from slotproof.cli.server_args import configured
from slotproof.driver_checks.driver import ScriptRun
from slotproof.driver_checks.meanings import sign
from slotproof.engines.base import Engine, EngineFailed, EngineUnusable, Subject, built
from slotproof.engines.registry import EngineSpec, is_ours
from slotproof.logs.writer import LoggedEngine
from slotproof.protocol.snapshot import nonsense
from slotproof.reports import forms, text
from slotproof.reports.trace import Trace
from slotproof.search import afresh, campaign, report
from slotproof.search.campaign import Campaign, Outcome, Progress
from slotproof.search.causes import Cause, causes
from slotproof.search.cluster import cluster
from slotproof.search.findings import Finding
from slotproof.search.folder import Folder, by_mark, by_number
from slotproof.search.journal import SUFFIX, Head, Journal, Remembering
from slotproof.search.patches import Trials
from slotproof.search.plan import EXAMPLES, Clock, Plan
from slotproof.search.workers import Workers, workers_for
from slotproof.support import interrupts
from slotproof.support.terminal import Painted, complain, labelled

EXAMPLES_HELP = f"Examples (command sequences). Default: {EXAMPLES}, or no limit with --seconds."
STRENGTH_HELP = (
    "Cover each pair (2) or each triple (3) of feature levels. Triples take four times as long."
)
JOBS_HELP = "Parallel processes, with --all. Default: 1, or one per cluster processor with --ray."
RAY_HELP = "Ray cluster: HOST:PORT, ray://HOST:PORT, auto (this machine's) or local (a new one)."
SERVER_HELP = "Configuration of a server, from its command line. Each flag is reported."
SECONDS_HELP = "Time limit of the search. Patches take extra time after the search. Default: none."


def run(
    engine: str = options.ENGINE,
    config: list[str] | None = options.CONFIG,
    server_args: str | None = option("--server-args TEXT", "Search", SERVER_HELP),
    examples: int | None = option("--examples N", "Search", EXAMPLES_HELP),
    strength: int = option("--strength N", "Search", STRENGTH_HELP, 2),
    steps: int = options.STEPS,
    seed: int = options.SEED,
    profile: str | None = options.PROFILE,
    ignore: list[str] | None = options.IGNORE,
    patch: list[str] | None = options.PATCH,
    label: str | None = options.LABEL,
    out: Path = options.TRACES,
    step_timeout: float = options.STEP_TIMEOUT,
    everything: bool = option("--all", "Search", "Search for all distinct findings.", False),
    seconds: float | None = option("--seconds SECONDS", "Search", SECONDS_HELP, min=0.1),
    jobs: int | None = option("--jobs N", "Search", JOBS_HELP),
    ray: str | None = option("--ray ADDRESS", "Search", RAY_HELP),
    log: Path | None = options.LOG,
    as_json: bool = options.JSON,
) -> int:
    """Run the conformance suite against an engine build."""
    if examples is None and seconds is None:
        examples = EXAMPLES
    options.jobs_count(1 if jobs is None else jobs)
    if not everything and (ray is not None or (jobs or 1) > 1):
        raise UsageProblem(
            "--jobs and --ray need --all: without --all, a run stops at the first finding"
        )
    if server_args is not None:
        config = [*(config or ()), configured(engine, server_args)]
    plan = Plan.named(
        config,
        examples=None if examples is None else options.number(examples, 1, "--examples"),
        steps=options.number(steps, 1, "--steps"),
        seed=options.number(seed, 0, "--seed"),
        profile=options.known_profile(profile),
        ignored=options.known_clauses(ignore),
        seconds=seconds,
        distinct=None if everything else Plan.distinct,
        strength=options.number(strength, 2, "--strength", 3),
    )
    options.writable(out)
    wanted = EngineSpec.parse(engine, step_timeout, patch, label=options.a_label(label))
    if everything and log is not None:
        raise UsageProblem("--log ends with the first counterexample: leave out --all")
    name = by_mark if everything else by_number
    folder = Folder(out, name(f"{wanted.stem}-seed{plan.seed}"))
    opened_engine = wanted.open()
    with interrupts.held(), logged(opened_engine, log) as under_test:  # Ctrl-C ends only the search
        plan = plan.of(under_test.capabilities)
        with progress_bar(not as_json) as tell:
            searching = _journalled if everything else _short
            if ray is None:
                workers = workers_for(under_test, wanted, jobs or 1)
            else:
                workers = cluster(ray, wanted, jobs, built(under_test).title)
            with workers as started:
                ended = searching(under_test, wanted, plan, started, folder, tell)
            outcome, ranked, patches = ended
        summary = report.summary(outcome, plan, under_test.capabilities)
        summary |= {"driver": _sign(under_test, wanted, outcome.trace), "patches": patches}
    lines: Iterator[str | Painted]
    if everything:
        summary, lines = said(summary, ranked, folder)
    else:
        summary, lines = _few(summary, outcome, ranked, folder, wanted)
    return options.answer(summary, lines, as_json)


Searched = tuple[Outcome, list[Cause], str]
"""Outcome of a search, its causes, and the reason why patches were not tried, or ""."""


def _short(
    engine: Engine, spec: EngineSpec, plan: Plan, workers: Workers, folder: Folder, tell: Progress
) -> Searched:
    """Search until the first few findings are found."""

    def keep(findings: list[Finding]) -> None:
        if isinstance(engine, LoggedEngine):
            engine.stop()  # the log ends with the counterexample, before shrinking
        folder.keep(findings)

    outcome = campaign.run(engine, spec.text, plan, tell, keep, workers)
    return _explained(outcome, spec, plan, folder, tell)[0]


def _journalled(
    engine: Engine, spec: EngineSpec, plan: Plan, workers: Workers, folder: Folder, tell: Progress
) -> Searched:
    """Search for all findings, with a journal to resume from."""
    path = folder.out / f"{spec.stem}-seed{plan.seed}{SUFFIX}"
    subject = Subject.of(engine, spec.text)
    with writing(path, "--out"):
        journal = Journal(path, Head.of(subject, f"{spec.where} {spec.options}".strip(), plan))
    with closing(journal):
        if before := journal.run.examples:
            complain(f"{path}: resumes after {before} examples")
        memory = Remembering(journal.run, workers, journal)
        clock = Clock(plan.seconds, journal.run.taken)
        outcome = Campaign(subject, plan, memory, tell, folder.keep, clock=clock).run()
        result, removed = _explained(outcome, spec, plan, folder, tell)
        if not (outcome.interrupted or outcome.unusable):
            if before:
                folder.sweep(f"{spec.stem}-seed{plan.seed}-INV-", outcome.engine)
            journal.end(outcome.findings, removed)
        if journal.problem:
            complain(journal.problem)
        return result


def _explained(
    outcome: Outcome, spec: EngineSpec, plan: Plan, folder: Folder, tell: Progress
) -> tuple[Searched, dict[str, str]]:
    """Replay the findings in a fresh process, write them, and try patches of known bugs. Return a
    :data:`Searched`, and the patch that removes each finding."""
    outcome.findings = afresh.tried(spec, outcome.findings, tell)
    folder.keep(outcome.findings)
    trials = Trials(spec, plan.seconds, lambda done, all_: tell("patches", done, all_))
    removed = {} if outcome.interrupted or outcome.unusable else trials.removed(outcome.findings)
    return (outcome, causes(outcome.findings, removed, trials.words), trials.cut), removed


def _few(
    summary: dict[str, Any], outcome: Outcome, ranked: list[Cause], folder: Folder, spec: EngineSpec
) -> tuple[dict[str, Any], Iterator[str | Painted]]:
    """Return the plainest finding in full and the other findings by name, as JSON and as text."""
    first, trace = next(iter(outcome.findings), None), outcome.trace
    of = {finding.id: cause for cause in ranked for finding in cause.findings}
    summary = {
        **summary,
        "others": [
            {
                "id": finding.id,
                "cause": of[finding.id].name,
                "clause": finding.mark.clause,
                "commands": len(finding.trace.rows),
                "trace": str(folder.paths[finding.id]),
            }
            for finding in outcome.findings[1:]
        ],
        "cause": first and {"name": of[first.id].name, "why": of[first.id].why},
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
        yield from text.painted(text.render(first.trace, path, spec))
        yield ""
        yield labelled("trace", folder.problem(first) or path)
        yield labelled("page", f"slotproof show {shlex.quote(path)} --out page.html")
    if summary["cause"] and summary["cause"]["why"]:
        yield labelled("cause", f"{summary['cause']['name']}: {summary['cause']['why']}")
    if summary["shortest"] is not None:
        yield labelled("shortest", summary["shortest"]["text"])
    for other in summary["others"]:
        other_finding = f"{other['id']} in {text.commands(other['commands'])}: {other['trace']}"
        same = summary["cause"]["name"] == other["cause"]
        yield labelled("also seen as" if same else "also found", other_finding)
    yield from report.text(summary)
    yield report.verdict(summary)


def _sign(engine: Engine, spec: EngineSpec, trace: Trace | None) -> str | None:
    """Return a line if the driver, not the engine, may have caused the counterexample. Otherwise
    None."""
    if trace is None or is_ours(spec.text) or trace.violations[0].invariant == "INV-ALIVE":
        return None
    try:
        engine.reset(trace.config, trace.seed)
        told = [(command, engine.do(command)) for command in trace.commands]
    except (EngineFailed, EngineUnusable):
        return None
    if any(nonsense(snapshot, trace.config) for _, shown in told for snapshot in shown):
        return None
    choices = trace.setup.choices(engine.capabilities).choices
    seen = sign(ScriptRun(trace.config_name, trace.config, told, choices), engine.capabilities)
    asked = f"slotproof check-driver {shlex.quote(spec.argument)} {spec.options}".rstrip()
    return f"the driver may be wrong, not the engine: {seen}; run {asked}" if seen else None
