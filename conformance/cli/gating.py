"""``slotproof gate``: fail on what is new, and on nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from slotproof.conformance import interrupts
from slotproof.conformance.cli import results
from slotproof.conformance.cli.all_findings import as_json as finding_as_json, lines
from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.cli.options import (
    OUTPUT,
    SEARCH,
    ConfigOption,
    EngineOption,
    JsonOption,
    MendOption,
    ProfileOption,
    PythonOption,
    SeedOption,
    StartOption,
    TimeoutOption,
    jobs_count,
    known_profile,
    number,
    writable,
    writable_file,
    writing,
)
from slotproof.conformance.cli.telling import progress_bar
from slotproof.conformance.engines.process import START_TIMEOUT
from slotproof.conformance.engines.registry import EngineSpec
from slotproof.conformance.files import write_whole
from slotproof.conformance.protocol.config import chosen
from slotproof.conformance.search import baseline as baselines, campaign, report
from slotproof.conformance.search.baseline import BadBaseline, Baseline
from slotproof.conformance.search.campaign import Outcome
from slotproof.conformance.search.findings import Finding
from slotproof.conformance.search.folder import SUFFIX, Folder, by_mark, unused
from slotproof.conformance.search.gate import MENDED, Gate, Judged, beside
from slotproof.conformance.search.plan import Plan
from slotproof.conformance.search.workers import workers_for
from slotproof.conformance.statuses import CONFORMS, FOUND, INCONCLUSIVE
from slotproof.conformance.terminal import labelled, say_all, say_json
from slotproof.conformance.traces import itf

SECONDS = 300.0
"""Of the search, unless it is told something else."""


def gate(
    baseline: Annotated[
        Path, typer.Argument(metavar="BASELINE", help="The baseline, a file of known findings.")
    ],
    engine: EngineOption = "reference",
    python: PythonOption = None,
    config: ConfigOption = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds",
            min=0.1,
            help=f"Search for so long, after the traces. Default: {SECONDS:g}, or no limit where "
            "--examples says how many.",
            metavar="SECONDS",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(
            "--examples",
            help="Command sequences of the search at most.",
            metavar="N",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    seed: SeedOption = 0,
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            help="Processes that search at once, each with an engine.",
            metavar="N",
            rich_help_panel=SEARCH,
        ),
    ] = 1,
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Add what is seen to the baseline, its traces beside it.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    mended_fails: Annotated[
        bool,
        typer.Option(
            "--mended-fails", help="Status 1 where a group is mended, too.", rich_help_panel=SEARCH
        ),
    ] = False,
    profile: ProfileOption = None,
    mend: MendOption = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            "--junit",
            help="Write the results as JUnit XML, too.",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    sarif: Annotated[
        Path | None,
        typer.Option(
            "--sarif",
            help="Write them as SARIF 2.1.0, too.",
            metavar="FILE",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="Where traces of findings are written.",
            metavar="DIR",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("slotproof-traces"),
    step_timeout: TimeoutOption = 10.0,
    start_timeout: StartOption = START_TIMEOUT,
    as_json: JsonOption = False,
) -> int:
    """Replay the traces of a baseline, search the build, and fail on what is new."""
    entries = opened(baseline, update)
    plan = Plan(
        chosen(config),
        examples=None if examples is None else number(examples, 1, "--examples"),
        seed=number(seed, 0, "--seed"),
        profile=known_profile(profile),
        seconds=SECONDS if seconds is None and examples is None else seconds,
        distinct=None,
    )
    writable(out)
    writable_file(junit, "--junit")
    writable_file(sarif, "--sarif")
    if update:
        writable_file(baseline, "BASELINE")
    spec = EngineSpec(
        engine,
        python,
        step_timeout=step_timeout,
        start_timeout=start_timeout,
        mends=(*(mend or ()),),
    )
    folder = Folder(out, by_mark(f"{spec.stem}-seed{plan.seed}"))
    entries.check()  # before the engine is started
    workers = jobs_count(jobs)
    under_test = spec.open()
    try:
        name = f"{under_test.name} {under_test.version}".strip()
        it = Gate(under_test, name, entries, plan)
        with interrupts.noted(), progress_bar(not as_json) as tell:
            it.replay(lambda done, count: tell("traces", done, count))
            with workers_for(under_test, spec, workers) as processes:
                outcome = campaign.run(
                    under_test, spec.text, plan, tell, folder.keep, processes, it.known
                )
            judged = it.judge(outcome.findings)
            folder.keep([each.finding for each in judged])
        searched = report.summary(outcome, plan, under_test.capabilities)
    finally:
        under_test.close()
    summary = _summary(it, outcome, judged, searched, folder)
    if update:
        _update(it, judged, baseline)
    summary["added"] = update
    summary["status"] = _status(summary, mended_fails)
    if junit is not None:
        with writing(junit, "--junit"):
            write_whole(junit, results.junit(summary))
    if sarif is not None:
        with writing(sarif, "--sarif"):
            write_whole(sarif, results.sarif(summary, baseline))
    with writing(Path("GITHUB_STEP_SUMMARY"), "the file of"):
        results.step_summary(summary, _verdict(summary))
    if as_json:
        say_json(summary)
    else:
        say_all(results.annotated(summary))
        say_all(_text(summary, baseline))
    return int(summary["status"])


def opened(path: Path, may_be_new: bool) -> Baseline:
    """The baseline that was asked for; raises :class:`UsageProblem` with one line."""
    if may_be_new and not path.exists():
        return Baseline(folder=path.parent)
    try:
        return baselines.load(path)
    except BadBaseline as bad:
        raise UsageProblem(str(bad)) from None


def _summary(
    it: Gate, outcome: Outcome, judged: list[Judged], searched: dict[str, Any], folder: Folder
) -> dict[str, Any]:
    """Everything that a gate has to say."""
    statuses = [(each, status) for each, status in it.statuses(judged, outcome.accepted)]
    return {
        "engine": it.name,
        "other_engines": len(it.baseline.groups) - len(statuses),
        "groups": [
            {
                "name": group.name,
                "status": status,
                "reason": group.reason,
                "traces": [
                    {"file": each.file, "status": each.status, "detail": each.detail, "id": each.id}
                    for each in it.replayed
                    if each.group is group
                ],
                "seen_as": [
                    {**finding_as_json(each.finding, folder), "why": each.why}
                    for each in judged
                    if each.group is not None and each.group.name == group.name
                ],
                "unexplained": group.unexplained,
            }
            for group, status in statuses
        ],
        "new": [_told(each, folder) for each in judged if each.new],
        "not_judged": [_told(each, folder) for each in judged if not each.judged],
        "search": searched,
    }


def _told(each: Judged, folder: Folder) -> dict[str, Any]:
    return {**finding_as_json(each.finding, folder), "why": each.why}


def _status(summary: dict[str, Any], mended_fails: bool) -> int:
    """1 only for what is new and was not added; 3 where something could not be judged, or nothing
    was searched."""
    search = summary["search"]
    mended = any(each["status"] == MENDED for each in summary["groups"])
    if (summary["new"] and not summary["added"]) or (mended and mended_fails):
        return FOUND
    cut = search["interrupted"] or search["unusable"] or not search["examples"]
    return INCONCLUSIVE if summary["not_judged"] or cut else CONFORMS


def _update(it: Gate, judged: list[Judged], path: Path) -> None:
    """Write the baseline and the traces that it names; a disk that does not take it is wrong
    usage."""
    traces = beside(path)
    with writing(path, "BASELINE"):

        def keep(finding: Finding) -> str:
            there = [*traces.glob(f"*{SUFFIX}")]  # another shape of what has the same name
            file = unused(traces / f"{finding.mark.slug}{SUFFIX}", there)
            itf.save(finding.trace.without_states(), file)
            return file.relative_to(path.parent).as_posix()

        entries = it.updated(judged, keep)
        baselines.save(replace(entries, folder=path.parent), path)


def _text(summary: dict[str, Any], path: Path) -> Iterator[str]:
    search = summary["search"]
    yield labelled("engine", f"{summary['engine']} (profile {search['profile']})")
    for each in summary["groups"]:
        yield labelled(each["status"], f"{each['name']}: {each['reason'] or 'no reason is given'}")
        for trace in each["traces"]:
            detail = f": {trace['detail']}" if trace["detail"] else ""
            yield labelled("", f"{trace['file']} {trace['status']}{detail}")
        for seen in each["seen_as"]:
            yield labelled("", f"seen as {seen['id']}: {seen['why']}")
        if each["unexplained"]:
            yield labelled("warning", f"{path}: {each['name']} has no reason")
    yield labelled(
        "search",
        f"{search['commands']} commands in {search['examples']} examples of "
        f"{len(search['configurations'])} configurations, {search['transitions']['reached']} of "
        f"{search['transitions']['offered']} transitions reached",
    )
    yield from (labelled("warning", each) for each in _warnings(summary))
    for each in summary["not_judged"]:
        yield labelled("not judged", f"{each['id']}: {each['why']}; {each['trace']}")
    for each in summary["new"]:
        yield ""
        yield from lines(each)
        if each["why"]:
            yield labelled("", each["why"])
    if summary["new"]:
        yield ""
    yield _verdict(summary)


def _warnings(summary: dict[str, Any]) -> Iterator[str]:
    """What makes green say less than it seems."""
    search, others = summary["search"], summary["other_engines"]
    if others:
        count = f"{others} group{'s' if others > 1 else ''} of the baseline"
        yield f"{count} not looked at: `engine` does not match {summary['engine']}"
    empty = [name for name, each in search["examples_of"].items() if not each["run"]]
    if empty:
        yield (
            f"{len(empty)} of {len(search['configurations'])} configurations had no example: "
            "with more --seconds they would"
        )


def _verdict(summary: dict[str, Any]) -> str:
    search, groups = summary["search"], summary["groups"]
    mended = sum(each["status"] == MENDED for each in groups)
    known = f"{len(groups)} known" + (f", {mended} of them mended" if mended else "")
    seed = f"(seed {search['seed']})"
    if summary["new"]:
        added = ", added to the baseline: explain it" if summary["added"] else ""
        return f"{len(summary['new'])} new{added}, {known} {seed}"
    if summary["status"] == FOUND:
        return f"mended: nothing new, {known} {seed}"
    if summary["status"] == CONFORMS:
        return f"green: nothing new, {known} {seed}"
    why = "interrupted" if search["interrupted"] else search["unusable"]
    why = why or ("no example was run" if not search["examples"] else "something is not judged")
    return f"inconclusive: {why}, nothing new so far, {known} {seed}"
