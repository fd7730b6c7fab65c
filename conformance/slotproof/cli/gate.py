"""``slotproof gate``: fail on what is new, and on nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import typer

from slotproof.cli import options, results
from slotproof.cli.all_findings import as_json as finding_as_json, cause_as_json, counted, lines
from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import option, writing
from slotproof.cli.progress_line import progress_bar
from slotproof.engines.base import Capabilities
from slotproof.engines.registry import EngineSpec, is_ours
from slotproof.search import baseline as baselines, compared, report
from slotproof.search.baseline import Baseline
from slotproof.search.compared import BEHIND, Compared, Looked
from slotproof.search.findings import Finding
from slotproof.search.folder import SUFFIX, Folder, unused
from slotproof.search.gate import CHANGED, FIXED, NOT_TRIED, PATCHED, STILL_THERE, Judged, beside
from slotproof.search.plan import Plan
from slotproof.support import interrupts
from slotproof.support.files import write_whole
from slotproof.support.statuses import CONFORMS, FOUND, INCONCLUSIVE
from slotproof.support.terminal import labelled
from slotproof.traces import itf

SECONDS = 300.0
"""Seconds of the search by default."""
SECONDS_HELP = f"Stop the search after so long. Default: {SECONDS:g}; with --examples, no limit."
BASE_HELP = "Fail only on bugs that --engine has and this build has not."
NO_PATCH = "none"
COUNTS = ("examples", "commands", "configurations")
PATCH_HELP = (
    "Repair a known bug of the builds: a name of `list patches`, all or none. Default: all for "
    f"{BEHIND:.0%} of the time, none for the rest."
)


def gate(
    baseline: Path | None = typer.Argument(
        None, metavar="BASELINE", help="File of accepted findings; optional with --base."
    ),
    engine: str = options.ENGINE,
    base: str | None = option("--base ENGINE", "Engine", BASE_HELP),
    config: list[str] | None = options.CONFIG,
    seconds: float | None = option("--seconds SECONDS", "Search", SECONDS_HELP, min=0.1),
    examples: int | None = option("--examples N", "Search", "Command sequences at most."),
    seed: int = options.SEED,
    jobs: int = options.JOBS,
    update: bool = option("--update", "Output", "Add what is found to the baseline.", False),
    fail_on_fixed: bool = option(
        "--fail-on-fixed",
        "Search",
        "Fail also if a group of the baseline is not found any more.",
        False,
    ),
    profile: str | None = options.PROFILE,
    patch: list[str] | None = option("--patch NAME", "Engine", PATCH_HELP),
    label: str | None = options.LABEL,
    junit: Path | None = option("--junit FILE", "Output", "Write the results as JUnit XML, too."),
    out: Path = options.TRACES,
    step_timeout: float = options.STEP_TIMEOUT,
    as_json: bool = options.JSON,
) -> int:
    """Replay the traces of a baseline, search the build, and fail on what is new.

    With --base another build is searched first, and its findings are accepted, too.
    """
    entries = opened(baseline, update, base)
    path = baseline or Path()
    about = [each.engine for each in entries.groups]
    patterns = ("reference", "*")  # of groups that may be about the reference engine
    if engine == "reference" and about and not any(each.startswith(patterns) for each in about):
        raise UsageProblem(
            f"{path} is about {about[0]}, and the reference engine is run by default: --engine "
            "says which build"
        )
    if base is not None and engine == "reference" and not is_ours(EngineSpec.parse(base).text):
        raise UsageProblem(f"--base {base} needs --engine: the default is the reference engine")
    plan = Plan.named(
        config,
        examples=None if examples is None else options.number(examples, 1, "--examples"),
        seed=options.number(seed, 0, "--seed"),
        profile=options.known_profile(profile),
        seconds=SECONDS if seconds is None and examples is None else seconds,
        floor=True,
        distinct=None,
    )
    options.writable(out)
    options.writable_file(junit, "--junit")
    if update:
        options.writable_file(path, "BASELINE")
    unpatched = patch == [NO_PATCH]
    patches = [] if unpatched else patch
    spec = EngineSpec.parse(engine, step_timeout, patches, label=options.a_label(label))
    other = None if base is None else EngineSpec.parse(base, step_timeout, patches)
    entries.check()  # before the engine is started
    workers = options.jobs_count(jobs)
    if other is not None:  # that one of them can't start is told before either is searched
        plan = plan.of(offered(spec), offered(other))
    folders = [
        compared.kept_in(out, spec, plan.seed),
        compared.kept_in(out / "base", other or spec, plan.seed),
    ]
    with interrupts.noted(), progress_bar(not as_json) as tell:
        found: list[Compared] = []
        for part in compared.parts(spec, other, plan, chosen=patch is not None):
            if not (found and interrupts.arrived()):
                found.append(compared.compare(part, entries, workers, folders, tell))
    summary = _summary(found, folders[0])
    if update:
        _update(found, entries, path)
    summary["added"] = update
    summary["status"] = _status(summary, fail_on_fixed)
    if junit is not None:
        with writing(junit, "--junit"):
            write_whole(junit, results.junit(summary))
    with writing(Path("GITHUB_STEP_SUMMARY"), "the file of"):
        results.step_summary(summary, _verdict(summary))
    said = chain(results.annotated(summary), _text(summary, path))
    return options.answer(summary, said, as_json)


def offered(spec: EngineSpec) -> Capabilities:
    """Return the capabilities of an engine, which is started for it."""
    with closing(spec.open()) as engine:
        return engine.capabilities


def opened(path: Path | None, may_be_new: bool, base: str | None = None) -> Baseline:
    """The baseline that was asked for; raises one line."""
    if base is not None and may_be_new:
        raise UsageProblem("--update writes what is known of one build: leave out --base")
    if path is None:
        if base is None:
            raise UsageProblem("gate needs a baseline, or --base with the build to compare with")
        return Baseline()
    if may_be_new and not path.exists():
        return Baseline(folder=path.parent)
    return baselines.load(path)


def _summary(parts: list[Compared], folder: Folder) -> dict[str, Any]:
    """Return everything that a gate has to say. Its verdict rests on the first part."""
    main, *others = parts
    it, before = main.head.gate, main.base
    looked = {"base": before, "head": main.head} if before else {"the build": main.head}
    searches = {name: (each.outcome, each.searched) for name, each in looked.items() if each}
    judged = [each for part in parts for each in part.head.judged]
    return {
        "engine": it.build.title,
        "base": None if before is None else _base(before),
        "other_engines": len(it.baseline.groups) - len(it.groups),
        "groups": [*_groups(parts, folder)],
        "new": [
            cause_as_json(each, folder) for each in compared.new([each.head for each in parts])
        ],
        "not_judged": [_told(each, folder) for each in judged if not each.judged],
        "patches": next(filter(None, (each.head.gate.cut for each in parts)), ""),
        "unearned": report.missing(searches, it.plan, main.part.share),
        "search": main.head.searched,
        "unpatched": {name: each.head.searched[name] for each in others for name in COUNTS},
        "cut": next(filter(None, (each.cut for each in parts)), ""),
    }


def _base(before: Looked) -> dict[str, Any]:
    seen = {each.finding.id for each in before.judged}
    return {
        "engine": before.gate.build.title,
        "findings": sorted(seen | before.outcome.accepted),
        **{name: before.searched[name] for name in COUNTS},
    }


def _groups(parts: list[Compared], folder: Folder) -> Iterator[dict[str, Any]]:
    """Yield what the parts show of each group of the baseline."""
    told: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        it, judged = part.head.gate, part.head.judged
        for group, status in it.statuses(judged, part.head.outcome.accepted):
            seen = [each for each in judged if each.group and each.group.name == group.name]
            now = {
                "name": group.name,
                "status": status,
                "reason": group.reason,
                "traces": [
                    {"file": each.file, "status": each.status, "detail": each.detail, "id": each.id}
                    for each in it.replayed
                    if each.group is group
                ],
                "seen_as": [_told(each, folder) for each in seen],
                "unexplained": group.unexplained,
            }
            told.setdefault(group.name, []).append(now)
    for each in told.values():
        rows = sorted((row for one in each for row in one["traces"]), key=_rank, reverse=True)
        traces = {row["file"]: row for row in rows}  # the telling one of each
        seen_as = [row for one in each for row in one["seen_as"]]
        first: dict[str, Any] = min(each, key=_rank)
        yield {**first, "traces": [*traces.values()], "seen_as": seen_as}


def _rank(told: dict[str, Any]) -> int:
    """Return a number that is less, the more the status of a group or of a trace says."""
    return (CHANGED, STILL_THERE, FIXED, PATCHED, NOT_TRIED, "not seen").index(told["status"])


def _told(each: Judged, folder: Folder) -> dict[str, Any]:
    return {**finding_as_json(each.finding, folder), "why": each.why}


def _status(summary: dict[str, Any], fail_on_fixed: bool) -> int:
    """1 only for what is new and was not added; 3 where something could not be judged, or the
    search of a build was not enough for a verdict."""
    fixed = any(each["status"] == FIXED for each in summary["groups"])
    if (summary["new"] and not summary["added"]) or (fixed and fail_on_fixed):
        return FOUND
    lacking = summary["not_judged"] or summary["cut"] or summary["unearned"]
    return INCONCLUSIVE if lacking else CONFORMS


def _update(parts: list[Compared], entries: Baseline, path: Path) -> None:
    """Write the baseline and the traces that it names; a disk that does not take it is wrong
    usage."""
    traces = beside(path)
    with writing(path, "BASELINE"):

        def keep(finding: Finding) -> str:
            there = [*traces.glob(f"*{SUFFIX}")]  # another shape of what has the same name
            file = unused(traces / f"{finding.mark.slug}{SUFFIX}", there)
            itf.save(finding.trace.without_states(), file)
            return file.relative_to(path.parent).as_posix()

        # Of all parts together: one bug shows in several.
        found = compared.new([each.head for each in parts])
        for each in parts:
            entries = each.head.gate.updated(each.head.judged, found, keep, entries)
            found = []
        baselines.save(replace(entries, folder=path.parent), path)


def _text(summary: dict[str, Any], path: Path) -> Iterator[str]:
    search = summary["search"]
    yield labelled("engine", f"{summary['engine']} (profile {search['profile']})")
    if base := summary["base"]:
        count = len(base["findings"])
        yield labelled(
            "base",
            f"{base['engine']}: {base['commands']} commands in {base['examples']} examples, "
            f"{count} finding{'' if count == 1 else 's'}",
        )
    for cause in summary["new"]:
        yield from ("", *lines(cause))
    if summary["new"]:
        yield ""
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
    if bare := summary["unpatched"]:
        words = f"{bare['commands']} commands in {bare['examples']} examples"
        yield labelled("unpatched", f"{words}; the search above is behind patches of known bugs")
    yield from report.left_out({}, {}, search["by_choice"])
    if others := summary["other_engines"]:
        ignored = f"{others} group{'s' if others > 1 else ''} of the baseline not looked at"
        yield labelled("warning", f"{ignored}: `engine` does not match {summary['engine']}")
    if summary["patches"]:
        yield labelled("patches", summary["patches"])
    if summary["unearned"]:
        yield labelled("not earned", summary["unearned"]["text"])
    for each in summary["not_judged"]:
        yield labelled("not judged", f"{each['id']}: {each['why']}; {each['trace']}")
    yield _verdict(summary)


def _verdict(summary: dict[str, Any]) -> str:
    search, groups = summary["search"], summary["groups"]
    fixed = sum(each["status"] == FIXED for each in groups)
    known = f"{len(groups)} known" + (f", {fixed} of them fixed" if fixed else "")
    seed = f"(seed {search['seed']})"
    if summary["new"]:
        added = ", added to the baseline: explain it" if summary["added"] else ""
        return f"{counted(summary['new'], 'new ')}{added}, {known} {seed}"
    if summary["status"] == FOUND:
        return f"fixed: nothing new, {known} {seed}"
    if summary["status"] == CONFORMS:
        return f"green: nothing new, {known} {seed}"
    unearned = summary["unearned"] and summary["unearned"]["text"]
    why = summary["cut"] or unearned or "something is not judged"
    return f"inconclusive: {why}; nothing new so far, {known} {seed}"
