"""A gate that compares a build, called the head, with a second build, called the base.

The gate accepts every finding of the base. Both searches draw the same commands, but one may miss a
bug that the other meets. So the gate replays the head's new findings on the base.

A known bug ends examples early, and so hides other bugs. If patches of known bugs fit the builds,
the gate spends most of its time searching with all patches, and the rest without patches.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slotproof.engines.base import versioned
from slotproof.engines.methods import changed_method
from slotproof.engines.registry import EngineSpec, patches_for
from slotproof.search import afresh, campaign, report
from slotproof.search.baseline import Baseline
from slotproof.search.campaign import Outcome, Progress
from slotproof.search.causes import Cause, causes
from slotproof.search.findings import Finding
from slotproof.search.folder import Folder, by_mark
from slotproof.search.gate import Gate, Judged
from slotproof.search.patches import ALL, Trials, words_of
from slotproof.search.plan import Plan
from slotproof.search.workers import workers_for
from slotproof.support import interrupts

_IN_BASE = "in the base, "
BEHIND = 0.75
"""Share of a gate's time and examples that is spent on builds with patches in place."""


@dataclass(frozen=True)
class Part:
    """Part of a gate: a build and its base, both with patches or both without patches."""

    name: str
    """``patched`` or ``unpatched``. Empty if no patches exist, or the user chose the patches."""
    spec: EngineSpec
    base: EngineSpec | None
    plan: Plan
    share: float = 1.0
    """Share of the gate's time and examples."""


def parts(spec: EngineSpec, base: EngineSpec | None, plan: Plan, chosen: bool) -> list[Part]:
    """Return the parts of a gate. The first part decides the verdict. The gate has only one part if
    the user has ``chosen`` the patches, or no patches exist."""
    if chosen or not words_of(spec.text):
        return [Part("", spec, base, plan)]

    def share(of: float) -> Plan:
        seconds = None if plan.seconds is None else of * plan.seconds
        examples = None if plan.examples is None else max(1, round(of * plan.examples))
        return replace(plan, seconds=seconds, examples=examples, floor=of == BEHIND)

    patched = [of and replace(of, patches=patches_for(of.text, [ALL])) for of in (spec, base)]
    assert patched[0] is not None
    return [
        Part("patched", patched[0], patched[1], share(BEHIND), BEHIND),
        Part("unpatched", spec, base, share(1 - BEHIND), 1 - BEHIND),
    ]


@dataclass
class Looked:
    """Result of replaying the baseline's traces on a build, and of searching the build."""

    gate: Gate
    outcome: Outcome
    judged: list[Judged]
    searched: dict[str, Any]
    """Summary of the search, as in the JSON of a run."""

    @property
    def cut(self) -> str:
        """Reason why the search is inconclusive, or empty."""
        if self.searched["interrupted"]:
            return "interrupted"
        return self.searched["unusable"] or (
            "" if self.searched["examples"] else "no example was run"
        )


def look(
    spec: EngineSpec, baseline: Baseline, plan: Plan, jobs: int, folder: Folder, tell: Progress
) -> Looked:
    """Replay the baseline's traces, search, and judge the findings. Raises ``EngineUnusable``."""
    tell("starting", 0, 0)
    with closing(spec.open()) as engine:
        plan = plan.of(engine.capabilities)
        gate = Gate(engine, versioned(engine), baseline, plan, tell=tell)
        with interrupts.noted():
            gate.replay()
            with workers_for(engine, spec, jobs) as processes:
                outcome = campaign.run(
                    engine, spec.text, plan, tell, folder.keep, processes, gate.accepted
                )
            judged = gate.judge(outcome.findings)
            folder.keep([judgement.finding for judgement in judged])
        return Looked(gate, outcome, judged, report.summary(outcome, plan, engine.capabilities))


@dataclass
class Compared:
    """Results of one part of a gate, for the build, and for the base if the part has one."""

    part: Part
    head: Looked
    base: Looked | None = None

    @property
    def cut(self) -> str:
        """Reason why a search is inconclusive, or empty."""
        of_base = self.base.cut if self.base else ""
        return self.head.cut or (of_base and f"search of the base: {of_base}")


def compare(
    part: Part, baseline: Baseline, jobs: int, folders: Sequence[Folder], tell: Progress
) -> Compared:
    """Search the base, then the build, and judge only the build's findings. ``folders``: one folder
    for the build's traces, and one for the base's traces."""

    def named(build: str) -> Progress:
        words = ", ".join(filter(None, (part.name, build)))
        return lambda what, done, all_: tell(f"{words}, {what}" if words else what, done, all_)

    (folder, theirs), spec, base, before = folders, part.spec, part.base, None
    of_head = named("head" if base else "")
    if base is not None:
        before = look(base, baseline, part.plan, jobs, theirs, named("base"))
        baseline = baseline_of(before, theirs)
    head = look(spec, baseline, part.plan, jobs, folder, of_head)
    if base is not None and before is not None:
        against(base, spec, before.gate.build.title, head, folder, named("base"))
    confirm(spec, head, folder, of_head)
    if not (interrupts.arrived() or all(judgement.group for judgement in head.judged)):
        trials = Trials(spec, part.plan.seconds, lambda done, all_: of_head("patches", done, all_))
        head.judged = head.gate.try_patches(head.judged, trials, on_base=before is not None)
    for target, looked in zip(folders, (head, before), strict=True):
        target.stay += [judgement.finding for judgement in looked.judged] if looked else []
    return Compared(part, head, before)


def kept_in(out: Path, spec: EngineSpec, seed: int) -> Folder:
    """Return the folder for a build's traces. File names show if the build had patches in place."""
    stems = {False: spec.stem, True: replace(spec, patches=spec.patches or (ALL,)).stem}
    names = {patched: by_mark(f"{stem}-seed{seed}") for patched, stem in stems.items()}
    return Folder(out, lambda number, finding: names[bool(finding.trace.patches)](number, finding))


def new(parts: Sequence[Looked]) -> list[Cause]:
    """Return the causes of the new findings of all parts. If two parts have a finding with one
    identity, the first part's finding stays. Its build has all patches, so no patch removes it."""
    findings: dict[str, Finding] = {}
    removed: dict[str, str] = {}
    words: dict[str, str] = {}
    for part in parts:
        of_part = [judgement.finding for judgement in part.judged if judgement.new]
        removed |= {id_: patch for id_, patch in part.gate.removed.items() if id_ not in findings}
        words |= part.gate.words
        findings = {finding.id: finding for finding in of_part} | findings
    method = next((part.gate.method for part in parts if part.gate.method), "")
    return causes([*findings.values()], removed, words, method)


def baseline_of(base: Looked, folder: Folder) -> Baseline:
    """Return a baseline of the base's findings. Its new groups match any engine."""
    name, baseline = base.gate.name, base.gate.baseline
    judged = [replace(judgement, judged=True) for judgement in base.judged]
    fresh = new([replace(base, judged=judged)])
    with_new = base.gate.updated(judged, fresh, lambda finding: _file(finding, folder, baseline))
    old = [replace(group, engine="*") if group.covers(name) else group for group in with_new.groups]
    for index in range(len(baseline.groups), len(old)):
        old[index] = replace(old[index], reason=_IN_BASE + base.gate.build.title)
    return replace(baseline, groups=tuple(old))


def against(
    base: EngineSpec, spec: EngineSpec, name: str, head: Looked, folder: Folder, tell: Progress
) -> None:
    """Replay the head's new and unjudged findings on the base. Accept findings that the base
    reproduces. The changes in the head, ``spec``, cause all other findings."""
    if interrupts.arrived() or all(judgement.group for judgement in head.judged):
        return
    with closing(base.open()) as engine, interrupts.noted():
        before = Gate(engine, name, Baseline(), head.gate.plan)
        for index, judgement in enumerate(head.judged):
            tell("replaying new findings", index, len(head.judged))
            if not judgement.group and before.shows(judgement.finding.trace):
                head.judged[index] = _accepted(head.gate, judgement, name, folder)
        if all(judgement.group for judgement in head.judged):
            return
        old, new = base.package(), spec.package()
        if old and new and engine.capabilities == head.gate.engine.capabilities:
            head.gate.method = changed_method(old, new)


def confirm(spec: EngineSpec, head: Looked, folder: Folder, tell: Progress) -> None:
    """Replay new findings in fresh processes. Note in the trace if a finding does not reproduce."""
    new = [index for index, judgement in enumerate(head.judged) if judgement.new]
    findings = afresh.tried(spec, [head.judged[index].finding for index in new], tell)
    for index, finding in zip(new, findings, strict=True):
        head.judged[index] = replace(head.judged[index], finding=finding)
    folder.keep([judgement.finding for judgement in head.judged])


def _accepted(gate: Gate, judgement: Judged, name: str, folder: Folder) -> Judged:
    """Add a group to the gate's baseline for a finding that the base has, too."""
    file = _file(judgement.finding, folder, gate.baseline)
    added = gate.baseline.with_new(judgement.finding.id, "*")
    ids, traces = (judgement.finding.id,), (file,) if file else ()
    group = replace(added.groups[-1], reason=_IN_BASE + name, seen_as=ids, traces=traces)
    gate.baseline = replace(added, groups=(*added.groups[:-1], group))
    return Judged(judgement.finding, group, "the base has the same violation on these commands")


def _file(finding: Finding, folder: Folder, baseline: Baseline) -> str | None:
    """Return the path of a finding's trace, relative to the baseline's folder."""
    path = folder.path(finding)
    return None if path is None else os.path.relpath(path, baseline.folder)
