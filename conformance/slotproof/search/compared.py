"""A build as a gate sees it; and another build, the base, as its baseline.

What the base does is known, whatever finds it. Its search and that of the head draw the same
commands, but what one meets the other may miss: what is new after both is tried on the base again.

A known bug ends examples that would go on, and hides others. So where there are patches of known
bugs, a gate looks at the builds with all that fit, and for a part of its time without any.
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
"""Of a gate's time and examples: so much is for the builds with patches."""


@dataclass(frozen=True)
class Part:
    """A build and its base, with patches or without."""

    name: str
    """``patched``, ``unpatched``; empty where there is nothing to choose."""
    spec: EngineSpec
    base: EngineSpec | None
    plan: Plan
    share: float = 1.0
    """The part of what the gate was given."""


def parts(spec: EngineSpec, base: EngineSpec | None, plan: Plan, chosen: bool) -> list[Part]:
    """Return the parts of a gate, the one that its verdict rests on first; one, if the user has
    ``chosen`` the patches, or there are none."""
    if chosen or not words_of(spec.text):
        return [Part("", spec, base, plan)]

    def share(of: float) -> Plan:
        seconds = None if plan.seconds is None else of * plan.seconds
        examples = None if plan.examples is None else max(1, round(of * plan.examples))
        return replace(plan, seconds=seconds, examples=examples, floor=of == BEHIND)

    patched = [
        each and replace(each, patches=patches_for(each.text, [ALL])) for each in (spec, base)
    ]
    assert patched[0] is not None
    return [
        Part("patched", patched[0], patched[1], share(BEHIND), BEHIND),
        Part("unpatched", spec, base, share(1 - BEHIND), 1 - BEHIND),
    ]


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


@dataclass
class Compared:
    """A part of a gate: the build, and its base if it has one."""

    part: Part
    head: Looked
    base: Looked | None = None

    @property
    def cut(self) -> str:
        """Why a search says little; empty if none does."""
        of_base = self.base.cut if self.base else ""
        return self.head.cut or (of_base and f"of the base: {of_base}")


def compare(
    part: Part, baseline: Baseline, jobs: int, folders: Sequence[Folder], tell: Progress
) -> Compared:
    """Look at the base, then at the build, and judge what only the build does. ``folders`` are for
    the traces of the build and of the base."""

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
    by_patches(spec, head, before is not None, of_head)
    for kept, looked in zip(folders, (head, before), strict=True):
        kept.stay += [each.finding for each in looked.judged] if looked else []
    return Compared(part, head, before)


def kept_in(out: Path, spec: EngineSpec, seed: int) -> Folder:
    """Return the folder for traces of a build, with patches and without."""
    stems = {False: spec.stem, True: replace(spec, patches=spec.patches or (ALL,)).stem}
    names = {patched: by_mark(f"{stem}-seed{seed}") for patched, stem in stems.items()}
    return Folder(out, lambda number, each: names[bool(each.trace.patches)](number, each))


def new(parts: Sequence[Looked]) -> list[Cause]:
    """Return the causes of what is new in any part. Of findings with one identity that of the first
    part stays: behind patches it is another bug than those that are patched."""
    gates = [part.gate for part in parts]
    found: dict[str, Finding] = {}
    removed: dict[str, str] = {}
    words: dict[str, str] = {}
    for part in parts:
        new = {each.finding.id: each.finding for each in part.judged if each.new}
        removed |= {id_: patch for id_, patch in part.gate.removed.items() if id_ not in found}
        words |= part.gate.words
        found = new | found
    method = next(filter(None, (gate.method for gate in gates)), "")
    return causes([*found.values()], removed, words, method)


def baseline_of(base: Looked, folder: Folder) -> Baseline:
    """All that the base does, as groups that any engine may be in."""
    name, known = base.gate.name, base.gate.baseline
    small_or_not = [replace(each, judged=True) for each in base.judged]
    found = new([replace(base, judged=small_or_not)])
    with_new = base.gate.updated(small_or_not, found, lambda each: _file(each, folder, known))
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
