"""``slotproof campaign``: search a build for hours, on any number of machines, and go on later."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from slotproof.campaigns import merging, running, sources, sure
from slotproof.campaigns.cluster import cluster
from slotproof.campaigns.following import PAGE, Following
from slotproof.campaigns.journal import Journal, head_of, load
from slotproof.campaigns.lines import Head
from slotproof.campaigns.running import Ended, Limits
from slotproof.campaigns.state import CampaignState
from slotproof.cli.all_findings import said
from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import (
    CONFIG,
    ENGINE,
    IGNORE,
    JSON,
    PATCH,
    PROFILE,
    STEP_TIMEOUT,
    jobs_count,
    known_clauses,
    known_profile,
    number,
    option,
    writable,
    writing,
)
from slotproof.cli.progress_line import campaign_view
from slotproof.engines.base import Engine, built, versioned
from slotproof.engines.registry import EngineSpec
from slotproof.search import campaign as searching, report
from slotproof.search.baseline import Baseline, load as load_baseline
from slotproof.search.campaign import Outcome
from slotproof.search.causes import causes
from slotproof.search.folder import Folder, by_mark
from slotproof.search.gate import Gate
from slotproof.search.guided import MOST
from slotproof.search.plan import Plan
from slotproof.search.symptoms import AcceptedFindings
from slotproof.search.workers import Workers, workers_for
from slotproof.support import interrupts
from slotproof.support.terminal import complain, labelled, say_all, say_json

FOLDER = Path("slotproof-campaigns")
"""Where journals are that nobody gave a name."""
MOST_TASKS = 10_000
JOURNAL_HELP = f"Folder to resume from, or to report. Default: {FOLDER}/ENGINE-seedN."
SECONDS_HELP = "Seconds of this call, shrinking included."
JOBS_HELP = "Processes at once. Default: 1; with --ray, one per processor of the cluster."
RAY_HELP = "A Ray cluster: HOST:PORT, ray://HOST:PORT, auto (this machine's) or local (a new one)."
MERGE_HELP = "Merge this journal into --journal without searching; may be repeated."
ROUND_HELP = "Tasks of each configuration between two exchanges; more for many workers."


def campaign(
    engine: str = ENGINE,
    journal: Path | None = option("--journal DIR", "Journal", JOURNAL_HELP),
    examples: int | None = option("--examples N", "Search", "In all, the journal's included."),
    seconds: float | None = option("--seconds SECONDS", "Search", SECONDS_HELP, min=0.1),
    jobs: int | None = option("--jobs N", "Search", JOBS_HELP),
    ray: str | None = option("--ray ADDRESS", "Search", RAY_HELP),
    config: list[str] | None = CONFIG,
    seed: int | None = option("--seed N", "Search", "Default: the journal's, else 0."),
    profile: str | None = PROFILE,
    ignore: list[str] | None = IGNORE,
    patch: list[str] | None = PATCH,
    baseline: Path | None = option("--baseline FILE", "Search", "Report only new findings."),
    merge: list[Path] | None = option("--merge DIR", "Journal", MERGE_HELP),
    of_task: int = option("--task N", "Search", "Examples that a worker does in a row.", MOST),
    of_round: int = option("--round N", "Search", ROUND_HELP, 1),
    step_timeout: float = STEP_TIMEOUT,
    as_json: bool = JSON,
) -> int:
    """Search a build for long, guided by what is new, with a journal to go on from."""
    spec = EngineSpec.parse(engine, step_timeout, patch)
    limited = examples is not None or seconds is not None
    if merge:
        if limited:
            raise UsageProblem("--merge searches nothing: leave out --examples and --seconds")
        if journal is None:
            raise UsageProblem("--merge needs --journal")
        return _merged(merge, journal, as_json)
    if not limited:
        if journal is None:
            raise UsageProblem("say how far it goes: --seconds 28800 for a night, or --examples N")
        return _reported(journal, as_json)
    of = 0 if seed is None else number(seed, 0, "--seed")
    where = journal or FOLDER / f"{spec.stem}-seed{of}"
    plan = Plan.named(
        config,
        examples=None if examples is None else number(examples, 1, "--examples"),
        seed=_seed(where) if seed is None else of,
        profile=known_profile(profile),
        set_aside=known_clauses(ignore),
        seconds=seconds,
        distinct=None,
    )
    sizes = number(of_task, 1, "--task", MOST_TASKS), number(of_round, 1, "--round", MOST_TASKS)
    wanted = _jobs(jobs, ray)
    entries = None if baseline is None else load_baseline(baseline)
    if entries is not None:
        entries.check()
    writable(where, "--journal")
    with ExitStack() as stack:
        under_test = stack.enter_context(closing(spec.open()))
        plan = plan.of(under_test.capabilities)
        head = _head(under_test, spec, plan, entries, sizes)
        with writing(where, "--journal"):
            kept = stack.enter_context(closing(Journal(where, head)))
        workers = stack.enter_context(
            workers_for(under_test, spec, wanted or 1)
            if ray is None
            else cluster(ray, spec, wanted, head.title)
        )
        ended, it = _run(under_test, kept, plan, workers, entries, as_json)
        return _said(kept.state, ended, plan, kept.folder, as_json, it)


def _seed(folder: Path) -> int:
    """That of the journal that is there: one that was merged has one of its own."""
    head = head_of(folder)
    return 0 if head is None else head.seed


def _jobs(jobs: int | None, ray: str | None) -> int | None:
    if jobs is None:
        return None if ray is not None else 1
    return number(jobs, 1, "--jobs", 100_000) if ray is not None else jobs_count(jobs)


def _digest(entries: Baseline | None) -> str:
    """The same for the same groups and traces."""
    if entries is None:
        return ""
    found = hashlib.sha256()
    for group in entries.groups:
        found.update(repr(group.to_json()).encode())
        for file in group.traces:
            found.update((entries.folder / file).read_bytes())
    return found.hexdigest()[:12]


def _head(
    engine: Engine, spec: EngineSpec, plan: Plan, entries: Baseline | None, sizes: tuple[int, int]
) -> Head:
    """What this campaign is of."""
    profile = plan.profile or engine.capabilities.profile
    build = built(engine)
    outcome = Outcome(build.title, profile)
    configs = searching.possible(engine, plan, outcome)
    return Head(
        versioned(engine),
        spec.text,
        f"{spec.where} {spec.options}".strip(),
        profile,
        engine.capabilities.to_json(),
        configs,
        plan.seed,
        sources.release(),
        sources.digest(),
        plan.steps,
        plan.shrink,
        plan.set_aside,
        plan.profile,
        _digest(entries),
        *sizes,
        outcome.skipped,
        round(time.time(), 2),
        build=build,
    )


def _run(
    engine: Engine,
    journal: Journal,
    plan: Plan,
    workers: Workers,
    entries: Baseline | None,
    as_json: bool,
) -> tuple[Ended, Following]:
    state, accepted, gate = journal.state, AcceptedFindings(), None
    if entries is not None:
        gate = Gate(engine, state.head.engine, entries, plan)
        with interrupts.noted():
            gate.replay()
        accepted = gate.accepted
    with campaign_view(not as_json, plan.examples) as show:
        following = Following(journal.folder, _folder(journal.folder, state), show)
        following.write(state)
        limits = Limits(plan.examples, plan.seconds)
        ended = running.run(journal, workers, limits, following, accepted)
        if gate is not None:
            _judge(gate, journal)
    return ended, following


def _judge(gate: Gate, journal: Journal) -> None:
    """Journal which findings belong to a group of the baseline."""
    found = [each for each in journal.state.findings.all() if each.id not in journal.state.judged]
    with interrupts.noted():
        judged = gate.judge(found)
    groups = {
        each.finding.id: f"{each.group.name}: {each.why}"
        for each in judged
        if each.group is not None and each.finding in found
    }
    if groups:
        journal.add({"kind": "judged", "known": groups, "at": round(time.time(), 2)})


def _folder(folder: Path, state: CampaignState) -> Folder:
    name = EngineSpec(state.head.spec).stem
    return Folder(folder / "traces", by_mark(f"{name}-seed{state.head.seed}"))


def _merged(folders: list[Path], into: Path, as_json: bool) -> int:
    """A journal of several, and what it says."""
    writable(into, "--journal")
    with writing(into, "--journal"):
        merging.merge(folders, into).close()
    return _reported(into, as_json)


def _reported(folder: Path, as_json: bool) -> int:
    """What a journal says; a campaign may be writing to it."""
    state = load(folder)
    head = state.head
    # How far it goes is not in a journal.
    plan = Plan(head.configs, None, head.steps, head.seed, head.chosen_profile, seconds=1.0)
    return _said(state, Ended(), plan, folder, as_json)


def _said(
    state: CampaignState,
    ended: Ended,
    plan: Plan,
    folder: Path,
    as_json: bool,
    following: Following | None = None,
) -> int:
    """The report; the page and the traces, as they are in the end."""
    reports_only = following is None
    if following is None:
        following = Following(folder, _folder(folder, state), lambda *_: None)
    following.found(state.findings.all())  # a report writes no page where there is one
    outcome = _outcome(state, ended)
    summary = report.summary(outcome, plan, state.head.capabilities)
    summary |= {"how_sure": sure.how_sure(state), "journal": str(folder)}
    summary |= {"baseline": state.judged, "page": str(following.path)}
    summary, lines = said(summary, causes(outcome.findings), following.traces)
    if not reports_only:
        following.sweep()
        following.write(state, ended=_ended(ended, plan))
    elif not following.path.exists():
        following.write(state, ended="As the journal has it")
    if following.problem:
        complain(following.problem)
    if as_json:
        say_json(summary)
    else:
        say_all(_text(summary, lines))
    return int(summary["status"])


def _ended(ended: Ended, plan: Plan) -> str:
    """How a call ended, for the page."""
    if ended.interrupted:
        return "Interrupted: the same command goes on"
    if ended.unusable:
        return f"Ended early: {ended.unusable}"
    if ended.out_of_time:
        return f"The time was over before {plan.examples} examples: the same command goes on"
    return "All examples that were asked for" if plan.examples else "Ended with its time"


def _outcome(state: CampaignState, ended: Ended) -> Outcome:
    """What ``run`` would say of it."""
    outcome = Outcome(state.head.title, state.head.profile, state.head.build)
    outcome.configs = list(state.places)
    outcome.skipped = state.head.skipped
    for name, place in state.places.items():
        outcome.covered[name].add(place.coverage)
        outcome.run[name] += place.examples
    for name, result in state.unfinished():
        outcome.covered[name].add(result.coverage)
        outcome.run[name] += result.examples
    outcome.seconds = state.seconds
    outcome.findings = [each for each in state.findings.all() if each.id not in state.judged]
    outcome.accepted = {*state.accepted, *state.judged}
    outcome.interrupted, outcome.out_of_time = ended.interrupted, ended.out_of_time
    outcome.unusable = ended.unusable
    return outcome


def _text(summary: dict[str, Any], lines: Iterator[str]) -> Iterator[str]:
    yield labelled("journal", f"{summary['journal']}: page {PAGE}, traces in traces/")
    for name, why in summary["baseline"].items():
        yield labelled("baseline", f"{name}: {why}")
    yield from lines
