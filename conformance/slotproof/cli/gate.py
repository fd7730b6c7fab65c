"""``slotproof gate``: fail only on new findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from slotproof.search.causes import Cause
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
"""Default limit of the search, in seconds."""
SECONDS_HELP = f"Time limit of the search. Default: {SECONDS:g}, or none with --examples."
BASE_HELP = "Build to compare with. Its findings are accepted, so only bugs of --engine alone fail."
NO_PATCH = "none"
COUNTS = ("examples", "commands", "configurations")
PATCH_HELP = (
    "Known bug to repair: a name from `list patches`, all or none. Repeatable. Default: all for "
    f"{BEHIND:.0%} of the time, and none for the remaining time."
)


def gate(
    baseline: Path | None = typer.Argument(
        None, metavar="BASELINE", help="File of accepted findings. Optional with --base."
    ),
    engine: str = options.ENGINE,
    base: str | None = option("--base ENGINE", "Engine", BASE_HELP),
    config: list[str] | None = options.CONFIG,
    seconds: float | None = option("--seconds SECONDS", "Search", SECONDS_HELP, min=0.1),
    examples: int | None = option("--examples N", "Search", "Maximum number of examples."),
    seed: int = options.SEED,
    jobs: int = options.JOBS,
    update: bool = option("--update", "Output", "Add new findings to the baseline.", False),
    fail_on_fixed: bool = option(
        "--fail-on-fixed", "Search", "Fail also if a group of the baseline is fixed.", False
    ),
    profile: str | None = options.PROFILE,
    patch: list[str] | None = option("--patch NAME", "Engine", PATCH_HELP),
    label: str | None = options.LABEL,
    junit: Path | None = option("--junit FILE", "Output", "File for the results in JUnit XML."),
    out: Path = options.TRACES,
    step_timeout: float = options.STEP_TIMEOUT,
    as_json: bool = options.JSON,
) -> int:
    """Replay the traces of a baseline, search the build, and fail only on new findings.

    With --base another build is searched first, and its findings are accepted, too.
    """
    entries = opened(baseline, update, base)
    path = baseline or Path()
    about = [group.engine for group in entries.groups]
    ours = ("reference", "*")  # groups with these patterns may match the reference engine
    if engine == "reference" and about and not any(name.startswith(ours) for name in about):
        raise UsageProblem(
            f"{path} lists bugs of {about[0]}, and --engine is the reference engine (the default): "
            "name another build with --engine"
        )
    if base is not None and engine == "reference" and not is_ours(EngineSpec.parse(base).text):
        raise UsageProblem(
            f"--base {base} can't be compared with the reference engine (the default of --engine): "
            "name your build with --engine"
        )
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
    patches = [] if patch == [NO_PATCH] else patch
    spec = EngineSpec.parse(engine, step_timeout, patches, label=options.a_label(label))
    other = None if base is None else EngineSpec.parse(base, step_timeout, patches)
    entries.check()  # before the engine is started
    workers = options.jobs_count(jobs)
    if other is not None:  # report a build that can't start before the search of either build
        plan = plan.of(offered(spec), offered(other))
    kept = ((out, spec), (out / "base", other or spec))
    folders = [compared.kept_in(at, of, plan.seed) for at, of in kept]
    with interrupts.noted(), progress_bar(not as_json) as tell:
        parts: list[Compared] = []
        for part in compared.parts(spec, other, plan, chosen=patch is not None):
            if not (parts and interrupts.arrived()):
                parts.append(compared.compare(part, entries, workers, folders, tell))
    new = compared.new([part.head for part in parts])  # one call: several parts may show one bug
    summary = _summary(parts, new, folders[0])
    if update:
        _update(parts, new, entries, path)
    summary["added"] = update
    summary["status"] = _status(summary, fail_on_fixed)
    if junit is not None:
        with writing(junit, "--junit"):
            write_whole(junit, results.junit(summary))
    with writing(Path("GITHUB_STEP_SUMMARY"), "the file of"):
        results.step_summary(summary, _verdict(summary))
    return options.answer(summary, chain(results.annotated(summary), _text(summary, path)), as_json)


def offered(spec: EngineSpec) -> Capabilities:
    """Start an engine and return its capabilities."""
    with closing(spec.open()) as engine:
        return engine.capabilities


def opened(path: Path | None, may_be_new: bool, base: str | None = None) -> Baseline:
    """Return the requested baseline. Raises :class:`UsageProblem`."""
    if base is not None and may_be_new:
        raise UsageProblem("--update writes the findings of one build: leave out --base")
    if path is None:
        if base is None:
            raise UsageProblem("gate needs a BASELINE, or --base with the build to compare with")
        return Baseline()
    if may_be_new and not path.exists():
        return Baseline(folder=path.parent)
    return baselines.load(path)


def _summary(parts: list[Compared], new: Sequence[Cause], folder: Folder) -> dict[str, Any]:
    """Return the results of a gate as JSON. The counts come from the first part's search."""
    main, *others = parts
    it, before = main.head.gate, main.base
    looked = {"base": before, "head": main.head} if before else {"the build": main.head}
    searches = {name: (look.outcome, look.searched) for name, look in looked.items() if look}
    judged = [finding for part in parts for finding in part.head.judged]
    unearned = report.missing(searches, it.plan, main.part.share)
    if unearned and any(outcome.interrupted for outcome, _ in searches.values()):  # no estimate
        texts = [build["text"] for build in unearned["builds"]]
        unearned["text"] = "; ".join([*texts, "run the gate again"])
    return {
        "engine": it.build.title,
        "base": None if before is None else _base(before),
        "other_engines": len(it.baseline.groups) - len(it.groups),
        "groups": [*_groups(parts, folder)],
        "new": [cause_as_json(cause, folder) for cause in new],
        "not_judged": [_told(finding, folder) for finding in judged if not finding.judged],
        "patches": next(filter(None, (part.head.gate.cut for part in parts)), ""),
        "unearned": unearned,
        "search": main.head.searched,
        "unpatched": {name: part.head.searched[name] for part in others for name in COUNTS},
        "cut": next(filter(None, (part.cut for part in parts)), ""),
    }


def _base(before: Looked) -> dict[str, Any]:
    seen = {judged.finding.id for judged in before.judged}
    return {
        "engine": before.gate.build.title,
        "findings": sorted(seen | before.outcome.accepted),
        **{name: before.searched[name] for name in COUNTS},
    }


def _groups(parts: list[Compared], folder: Folder) -> Iterator[dict[str, Any]]:
    """Yield each baseline group's status, combined from all parts of the gate."""
    told: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        it, judged = part.head.gate, part.head.judged
        for group, status in it.statuses(judged, part.head.outcome.accepted):
            seen = [one for one in judged if one.group and one.group.name == group.name]
            now = {
                "name": group.name,
                "status": status,
                "reason": group.reason,
                "traces": [
                    {"file": at.file, "status": at.status, "detail": at.detail, "id": at.id}
                    for at in it.replayed
                    if at.group is group
                ],
                "seen_as": [_told(finding, folder) for finding in seen],
                "unexplained": group.unexplained,
            }
            told.setdefault(group.name, []).append(now)
    for statuses in told.values():
        rows = sorted((row for one in statuses for row in one["traces"]), key=_rank, reverse=True)
        traces = {row["file"]: row for row in rows}  # the most informative row of each trace
        seen_as = [row for one in statuses for row in one["seen_as"]]
        first: dict[str, Any] = min(statuses, key=_rank)
        yield {**first, "traces": [*traces.values()], "seen_as": seen_as}


def _rank(told: dict[str, Any]) -> int:
    """Return the rank of a status. The most informative status has rank 0."""
    return (CHANGED, STILL_THERE, FIXED, PATCHED, NOT_TRIED, "not seen").index(told["status"])


def _told(judged: Judged, folder: Folder) -> dict[str, Any]:
    return {**finding_as_json(judged.finding, folder), "why": judged.why}


def _status(summary: dict[str, Any], fail_on_fixed: bool) -> int:
    """Return 1 for a new finding that is not added to the baseline. Return 1 also for a fixed group
    if ``fail_on_fixed``. Return 3 for a finding not judged, or a search too short for a verdict."""
    fixed = any(group["status"] == FIXED for group in summary["groups"])
    if (summary["new"] and not summary["added"]) or (fixed and fail_on_fixed):
        return FOUND
    lacking = summary["not_judged"] or summary["cut"] or summary["unearned"]
    return INCONCLUSIVE if lacking else CONFORMS


def _update(parts: list[Compared], new: list[Cause], entries: Baseline, path: Path) -> None:
    """Write the baseline and its traces. A failed write is a usage error."""
    traces = beside(path)
    with writing(path, "BASELINE"):

        def keep(finding: Finding) -> str:
            existing = [*traces.glob(f"*{SUFFIX}")]  # names taken by other traces
            file = unused(traces / f"{finding.mark.slug}{SUFFIX}", existing)
            itf.save(finding.trace.without_states(), file)
            return file.relative_to(path.parent).as_posix()

        for part in parts:
            entries = part.head.gate.updated(part.head.judged, new, keep, entries)
            new = []  # the first part adds the causes of all parts
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
    for group in summary["groups"]:
        reason = group["reason"] or "no reason is given"
        yield labelled(group["status"], f"{group['name']}: {reason}")
        for trace in group["traces"]:
            detail = f": {trace['detail']}" if trace["detail"] else ""
            yield labelled("", f"{trace['file']} {trace['status']}{detail}")
        for seen in group["seen_as"]:
            yield labelled("", f"seen as {seen['id']}: {seen['why']}")
        if group["unexplained"]:
            yield labelled("warning", f"{path}: {group['name']} has no reason")
    yield labelled(
        "search",
        f"{search['commands']} commands in {search['examples']} examples of "
        f"{len(search['configurations'])} configurations, {search['transitions']['reached']} of "
        f"{search['transitions']['offered']} transitions reached",
    )
    if bare := summary["unpatched"]:
        words = f"{bare['commands']} commands in {bare['examples']} examples"
        yield labelled("unpatched", f"{words}; the search above repaired known bugs with patches")
    yield from report.left_out({}, {}, search["by_choice"])
    if others := summary["other_engines"]:
        ignored = f"the gate skipped {others} baseline group{'s' if others > 1 else ''}"
        yield labelled("warning", f"{ignored}: `engine` does not match {summary['engine']}")
    if summary["patches"]:
        yield labelled("patches", summary["patches"])
    if summary["unearned"]:
        yield labelled("not earned", summary["unearned"]["text"])
    for finding in summary["not_judged"]:
        yield labelled("not judged", f"{finding['id']}: {finding['why']}; {finding['trace']}")
    yield _verdict(summary)


def _verdict(summary: dict[str, Any]) -> str:
    search, groups = summary["search"], summary["groups"]
    fixed = sum(group["status"] == FIXED for group in groups)
    place = "in the baseline or in the --base build" if summary["base"] else "in the baseline"
    listed = f"{len(groups)} {place}" + (f", {fixed} of them fixed" if fixed else "")
    seed = f"(seed {search['seed']})"
    if summary["new"]:
        added = ", added to the baseline: write the reason" if summary["added"] else ""
        return f"{counted(summary['new'], 'new ')}{added}, {listed} {seed}"
    if summary["status"] == FOUND:
        return f"fixed: nothing new, {listed} {seed}"
    if summary["status"] == CONFORMS:
        return f"green: nothing new, {listed} {seed}"
    unearned = summary["unearned"] and summary["unearned"]["text"]
    why = summary["cut"] or unearned or "a finding is not judged"
    return f"inconclusive: {why}; nothing new so far, {listed} {seed}"
