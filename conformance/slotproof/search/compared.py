"""A build as a gate sees it; and another build, the base, as its baseline.

What the base does is known, whatever finds it. Its search and that of the head draw the same
commands, but what one meets the other may miss: what is new after both is tried on the base again.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from slotproof.engines.base import versioned
from slotproof.engines.methods import changed_method
from slotproof.engines.registry import EngineSpec
from slotproof.search import afresh, campaign, report
from slotproof.search.baseline import Baseline
from slotproof.search.campaign import Outcome, Progress
from slotproof.search.findings import Finding
from slotproof.search.folder import Folder
from slotproof.search.gate import Gate, Judged
from slotproof.search.patches import Trials
from slotproof.search.plan import Plan
from slotproof.search.workers import workers_for
from slotproof.support import interrupts

_IN_BASE = "in the base, "


@dataclass
class Looked:
    """What a gate saw of a build."""

    gate: Gate
    outcome: Outcome
    judged: list[Judged]
    searched: dict[str, Any]
    """The search, in the words of a run's JSON."""

    @property
    def cut(self) -> str:
        """Why the search says little; empty if it does not."""
        if self.searched["interrupted"]:
            return "interrupted"
        return self.searched["unusable"] or (
            "" if self.searched["examples"] else "no example was run"
        )


def look(
    spec: EngineSpec, baseline: Baseline, plan: Plan, jobs: int, folder: Folder, tell: Progress
) -> Looked:
    """Replay what is known, search, and judge. Raises ``EngineUnusable`` with one line."""
    tell("starting", 0, 0)
    with closing(spec.open()) as engine:
        plan = plan.of(engine.capabilities)
        it = Gate(engine, versioned(engine), baseline, plan, tell=tell)
        with interrupts.noted():
            it.replay()
            with workers_for(engine, spec, jobs) as processes:
                outcome = campaign.run(
                    engine, spec.text, plan, tell, folder.keep, processes, it.accepted
                )
            judged = it.judge(outcome.findings)
            folder.keep([each.finding for each in judged])
        return Looked(it, outcome, judged, report.summary(outcome, plan, engine.capabilities))


def baseline_of(base: Looked, folder: Folder) -> Baseline:
    """All that the base does, as groups that any engine may be in."""
    name, known = base.gate.name, base.gate.baseline
    small_or_not = [replace(each, judged=True) for each in base.judged]
    with_new = base.gate.updated(small_or_not, lambda finding: _file(finding, folder, known))
    old = [replace(each, engine="*") if each.covers(name) else each for each in with_new.groups]
    for index in range(len(known.groups), len(old)):
        old[index] = replace(old[index], reason=_IN_BASE + base.gate.build.title)
    return replace(known, groups=tuple(old))


def against(
    base: EngineSpec,
    spec: EngineSpec,
    name: str,
    head: Looked,
    folder: Folder,
    tell: Progress = lambda *_: None,
) -> None:
    """What is new, or not judged, is tried on the base: what it does as well becomes a group. The
    rest comes from what the head, ``spec``, has changed."""
    if interrupts.arrived() or all(each.group for each in head.judged):
        return
    with closing(base.open()) as engine, interrupts.noted():
        before = Gate(engine, name, Baseline(), head.gate.plan)
        for index, each in enumerate(head.judged):
            tell("replaying what is new", index, len(head.judged))
            if not each.group and before.shows(each.finding.trace):
                head.judged[index] = _known(head.gate, each, name, folder)
        if all(each.group for each in head.judged):
            return
        old, new = base.package(), spec.package()
        if old and new and engine.capabilities == head.gate.engine.capabilities:
            head.gate.method = changed_method(old, new)


def by_patches(spec: EngineSpec, looked: Looked, on_base: bool, tell: Progress) -> None:
    """Try patches of known bugs on what belongs to no group; ``on_base``: it is not the base's."""
    if interrupts.arrived() or all(each.group for each in looked.judged):
        return
    it = looked.gate
    trials = Trials(spec, it.plan.seconds, lambda done, count: tell("patches", done, count))
    looked.judged = it.try_patches(looked.judged, trials, on_base)


def confirm(spec: EngineSpec, head: Looked, folder: Folder, tell: Progress) -> None:
    """Replay what is new in a fresh process; the files say where it does not show."""
    new = [index for index, each in enumerate(head.judged) if each.new]
    findings = afresh.tried(spec, [head.judged[index].finding for index in new], tell)
    for index, finding in zip(new, findings, strict=True):
        head.judged[index] = replace(head.judged[index], finding=finding)
    folder.keep([each.finding for each in head.judged])


def _known(it: Gate, each: Judged, name: str, folder: Folder) -> Judged:
    """A finding in a group of its own, which is in the baseline from now on."""
    file = _file(each.finding, folder, it.baseline)
    added = it.baseline.with_new(each.finding.id, "*")
    ids, traces = (each.finding.id,), (file,) if file else ()
    group = replace(added.groups[-1], reason=_IN_BASE + name, seen_as=ids, traces=traces)
    it.baseline = replace(added, groups=(*added.groups[:-1], group))
    return Judged(each.finding, group, "the base does the same on these commands")


def _file(finding: Finding, folder: Folder, baseline: Baseline) -> str | None:
    """Where its trace is, from the folder of the baseline."""
    path = folder.path(finding)
    return None if path is None else os.path.relpath(path, baseline.folder)
