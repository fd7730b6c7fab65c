"""A gate: what is known of a build is replayed, the build is searched, and what is new is told.

A finding is known if a group of the baseline lists its identity, or has its cause
(:mod:`slotproof.search.symptoms`), or if it is not reached where the same commands are
given more slowly: then a known finding comes first, of which it is a consequence within the same
iteration; or if a patch of a known bug removes both it and what a trace of the group shows. All
else is new. What could not be made small is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from slotproof.engines.base import Engine, built
from slotproof.lockstep.explanations import explain
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.referee import Referee, play
from slotproof.protocol.build import Build
from slotproof.protocol.commands import Command
from slotproof.reports.trace import Trace
from slotproof.search.baseline import Baseline, Group
from slotproof.search.causes import Cause
from slotproof.search.findings import Finding, lead, mark
from slotproof.search.patches import Trials
from slotproof.search.plan import Plan
from slotproof.search.symptoms import AcceptedFindings, Bug, Symptoms, same, symptoms
from slotproof.support import interrupts
from slotproof.traces.record import rows_of

STILL_THERE, FIXED, CHANGED, NOT_TRIED = "still there", "fixed", "changed", "not tried"
PATCHED = "patched"
"""A trace of the unpatched build that does not show where patches are in place."""


@dataclass(frozen=True)
class Replayed:
    """What a committed trace shows on this build."""

    group: Group
    file: str
    status: str
    was: str
    """The clause that it was kept for."""
    detail: str = ""
    cause: Symptoms | None = None
    finding: Finding | None = None
    """Where it breaks more, or something else, than it did."""

    @property
    def id(self) -> str:
        """The identity that it is seen under; where it is fixed, its clause."""
        seen = self.cause.mark if self.cause else self.finding.mark if self.finding else None
        return seen.id if seen else self.was


@dataclass(frozen=True)
class Judged:
    """A finding of the search, or of a trace that changed, and where it belongs."""

    finding: Finding
    group: Group | None = None
    why: str = ""
    """Why it belongs to the group, or is not judged."""
    judged: bool = True
    """Whether it is small enough to tell."""
    slower: bool = False
    """Whether it took other commands to tell: its trace saves that."""

    @property
    def new(self) -> bool:
        return self.judged and self.group is None


@dataclass
class Gate:
    """The groups of a baseline on a build."""

    engine: Engine
    name: str
    """The engine's name and version, which patterns of groups match: a changed build of a release
    has what is known of the release."""
    baseline: Baseline
    plan: Plan
    replayed: list[Replayed] = field(default_factory=list)
    removed: dict[str, str] = field(default_factory=dict)
    """The patch of a known bug that removes a finding, by its identity."""
    words: dict[str, str] = field(default_factory=dict)
    """The sentence of each patch."""
    cut: str = ""
    """Words where patches were not tried on every finding."""
    method: str = ""
    """The one method in which it differs from the base, where what is new was tried on that."""
    tell: Callable[[str, int, int], None] = lambda *_: None
    """Told what is done, how much of it is over, and of how much."""

    @property
    def build(self) -> Build:
        """What reports call the engine."""
        return built(self.engine)

    @property
    def groups(self) -> list[Group]:
        """Those that are about this engine."""
        return self.baseline.of(self.name)

    def traces(self) -> list[tuple[Group, str, Trace]]:
        """The committed traces."""
        every = [(group, file) for group in self.groups for file in group.traces]
        return [(group, file, self.baseline.trace(file)) for group, file in every]

    def replay(self) -> list[Replayed]:
        """Replay them all, in their order."""
        every = self.traces()
        for number, (group, file, trace) in enumerate(every):
            self.tell("replaying traces", number, len(every))
            known = {v.clause for g, _, t in every if g is group for v in t.violations}
            self.replayed.append(self._again(group, file, trace, known))
        return self.replayed

    def shows(self, trace: Trace) -> bool:
        """Whether the engine does on these commands what the trace says, and nothing else."""
        known = {each.clause for each in trace.violations}
        return self._again(Group(""), "", trace, known).status == STILL_THERE

    def _again(self, group: Group, file: str, trace: Trace, known: set[str]) -> Replayed:
        was = trace.violations[0].clause
        reason = self.engine.capabilities.lacks(trace.config, trace.commands)
        if reason is not None:
            return Replayed(group, file, NOT_TRIED, was, f"the engine {reason}")
        missing = sorted({*trace.patches} - {*self.engine.capabilities.patches})
        if missing:
            return Replayed(
                group, file, NOT_TRIED, was, f"it needs --patch {' --patch '.join(missing)}"
            )
        seen = self._seen(trace)
        if seen is None:
            masked = self.engine.capabilities.patches and not trace.patches
            return Replayed(group, file, PATCHED if masked else FIXED, was)
        broken = [each.clause for each in seen.trace.violations]
        new = [each.clause for each in _beyond(seen.trace.violations, known)]
        same_place = len(seen.trace.rows) == len(trace.rows)
        if was in broken and same_place and not new:  # else it shows nothing of that bug
            made = symptoms(seen.trace, seen.mark)
            return Replayed(group, file, STILL_THERE, was, seen.id, made)
        detail = f"it breaks {', '.join(dict.fromkeys(new or broken))} now"
        if not same_place:
            detail += f", at command {len(seen.trace.rows)} of {len(trace.rows)}"
        return Replayed(group, file, CHANGED, was, detail, finding=seen)

    def _seen(self, trace: Trace, commands: list[Command] | None = None) -> Finding | None:
        """What these commands, or its own, lead to; a cause needs all of it."""
        wanted = trace.commands if commands is None else commands
        referee = play(self.engine, trace.setup, wanted, trace.passes)
        broken = referee.log[-1].violations if referee.log else []
        if not broken:
            return None
        first = {each.clause for each in trace.violations[:1]}
        leading = lead(broken)
        here = next((each for each in broken if each.clause in first), leading)
        if here.reporting != leading.reporting:
            here = leading
        return Finding(mark(referee.log[-1], here), self._trace(trace, referee, here), 0)

    def _trace(self, trace: Trace, referee: Referee, first: Violation) -> Trace:
        broken = referee.log[-1].violations
        made = replace(
            trace,
            engine=self.name,
            build=self.build,
            rows=rows_of(referee.log),
            states=True,
            violations=[first, *(each for each in broken if each is not first)],
            minimal=trace.minimal and len(referee.log) == len(trace.rows),
            ignored=tuple(sorted(referee.ignored)),
        )
        return made.explained_by(explain(referee, most=None))

    # What is known --------------------------------------------------------------

    def causes(self, group: Group) -> list[Symptoms]:
        """What the traces of a group show on this build."""
        return [each.cause for each in self.replayed if each.group is group and each.cause]

    def bare(self, group: Group) -> bool:
        """Whether nothing but its identities is known of it. One whose traces are fixed is known
        of no more: what comes back is new."""
        tried = (each.status for each in self.replayed if each.group is group)
        return all(status == NOT_TRIED for status in tried)

    @property
    def accepted(self) -> AcceptedFindings:
        """Findings that the search need not look at."""
        bare = {name for group in self.groups if self.bare(group) for name in group.seen_as}
        bugs = []
        for group in self.groups:
            causes = tuple(self.causes(group))
            if causes:
                ids = frozenset((*group.seen_as, *(each.mark.id for each in causes)))
                bugs.append(Bug(ids, causes))
        return AcceptedFindings(frozenset(bare), tuple(bugs))

    def judge(self, findings: list[Finding]) -> list[Judged]:
        """Return where what was found belongs, and what a committed trace shows by now."""
        changed = [each.finding for each in self.replayed if each.finding]
        return [self._judged(each) for each in (*changed, *findings)]

    def _judged(self, finding: Finding) -> Judged:
        for group in self.groups:
            # The words of a stall name its cause, whichever trace of the group is fixed.
            listed = self.bare(group) or (finding.mark.what and self.causes(group))
            if listed and group.lists(finding.mark):
                return Judged(finding, group, f"{finding.id} is listed")
        found = symptoms(finding.trace, finding.mark)
        known = self._known(found)
        if known is not None:
            return Judged(finding, *known)
        if finding.trace.minimal and not interrupts.arrived():
            known = self._sooner(finding.trace)
            if known is not None:
                return Judged(finding, *known, slower=True)
        from_trace = any(each.finding is finding for each in self.replayed)
        if not (finding.trace.minimal or from_trace):
            return Judged(finding, why="no time was left to make it small", judged=False)
        return Judged(finding)

    def try_patches(self, judged: list[Judged], trials: Trials, on_base: bool) -> list[Judged]:
        """Try patches on what belongs to no group, and on a trace of each group.

        What was tried ``on_base`` stays new: the base does not show it, whichever bug it is.
        """
        findings = [each.finding for each in judged if each.group is None]
        self.words |= trials.words
        self.removed |= trials.removed(findings)
        shown = {
            each.group.name: Finding(each.cause.mark, self.baseline.trace(each.file), 0)
            for each in reversed(self.replayed)
            if each.cause
        }
        groups: dict[str, Group] = {}
        for patch in () if on_base else dict.fromkeys(self.removed.values()):
            ids = trials.shown_by(patch, [*shown.values()])
            names = {name for name, finding in shown.items() if id(finding) in ids}
            group = next((each for each in self.groups if each.name in names), None)
            if group is not None:
                groups[patch] = group
        self.cut = trials.cut
        return [self._patched(each, groups) for each in judged]

    def _patched(self, judged: Judged, groups: dict[str, Group]) -> Judged:
        patch = self.removed.get(judged.finding.id, "")
        if judged.group is not None or patch not in groups:
            return judged
        why = f"the patch {patch} removes both it and a trace of {groups[patch].name}"
        return Judged(judged.finding, groups[patch], why)

    def _known(self, found: Symptoms) -> tuple[Group, str] | None:
        for group in self.groups:
            why = same(found, self.causes(group))
            if why is not None:
                return group, why
        return None

    def _sooner(self, trace: Trace) -> tuple[Group, str] | None:
        """Whether a known finding comes first where the commands are given more slowly."""
        every = [*slower(trace.commands)]
        for number, commands in enumerate(every):
            self.tell("replaying more slowly", number, len(every))
            first = self._seen(trace, commands)
            if first is None:
                continue
            made = symptoms(first.trace, first.mark)
            known = self._known(replace(made, minimal=True))
            if known is not None:
                group, _ = known
                return group, f"given more slowly, {first.id} comes first"
        return None

    # What becomes of the baseline ------------------------------------------------

    def updated(
        self,
        judged: list[Judged],
        new: list[Cause],
        keep: Callable[[Finding], str | None],
        to: Baseline | None = None,
    ) -> Baseline:
        """Return the baseline, or the one that is given, with every identity that was seen, and a
        group of its own for each ``new`` cause. What is there stays. ``keep`` puts a trace beside
        the baseline, and says where: that of what is new, or was hard to tell."""
        result = self.baseline if to is None else to
        for each in self.replayed:
            if each.cause is not None:
                result = result.with_seen(each.group.name, [each.cause.mark.id])
        for one in judged:
            if one.group is not None:
                shape = [keep(one.finding)] if one.slower else []
                files = [file for file in shape if file]
                result = result.with_seen(one.group.name, [one.finding.id], files)
        for cause in new:
            result = result.with_new(cause.name, self.name)
            name = result.groups[-1].name
            for finding in cause.findings:
                file = keep(finding)
                result = result.with_seen(name, [finding.id], [file] if file else [])
        return result

    def statuses(self, judged: list[Judged], seen: set[str]) -> Iterator[tuple[Group, str]]:
        """Of each group whether the build still has it; ``seen`` are accepted identities that the
        search met."""
        there = {each.group.name for each in judged if each.group is not None}
        for group in self.groups:
            tried = [each.status for each in self.replayed if each.group is group]
            met = group.name in there or not seen.isdisjoint(group.seen_as)
            if met or {STILL_THERE, CHANGED} & set(tried):
                yield group, STILL_THERE
            elif FIXED in tried:
                yield group, FIXED
            elif PATCHED in tried:
                yield group, PATCHED
            else:
                yield group, NOT_TRIED if tried else "not seen"


def slower(commands: list[Command]) -> Iterator[list[Command]]:
    """The same commands with more iterations: behind each of them, then at one place after the
    other.

    >>> [len(each) for each in slower([{"do": "retract"}, {"do": "step", "n": 1}])]
    [4, 4, 3]
    """
    for count in (1, 2):
        more: Command = {"do": "step", "n": count}
        yield [one for each in commands for one in (each, more)]
    for place in range(len(commands) - 1, 0, -1):
        yield [*commands[:place], {"do": "step", "n": 1}, *commands[place:]]


def _beyond(violations: list[Violation], known: set[str]) -> list[Violation]:
    """What a trace breaks that no trace of its group was kept for; what is only in the reporting
    does not count beside what is not."""
    only_told = all(each.reporting for each in violations)
    return [
        each
        for each in violations
        if each.clause not in known and (only_told or not each.reporting)
    ]


def beside(path: Path) -> Path:
    """The folder for the traces of a baseline."""
    return path.with_name(f"{path.stem}-traces")
