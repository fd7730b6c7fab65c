"""A gate on a build: replay of the baseline's traces, a search, and a report of new findings.

A finding belongs to a group of the baseline in any of four cases. The group lists the finding's
identity. The finding's symptoms match the group's traces (:mod:`slotproof.search.symptoms`). A
slower replay of the commands first reaches a finding of the group, so the finding is only a
consequence of it. One patch removes both the finding and the violation in a trace of the group. All
other findings are new. A finding that was not shrunk in time is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from slotproof.engines.base import Engine, built
from slotproof.lockstep.explanations import explain
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.referee import play
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

STILL_THERE, FIXED, CHANGED, NOT_TRIED = "still there", "fixed", "changed", "not tried"
PATCHED = "patched"
"""Status of a trace recorded without patches that does not reproduce on a build with patches."""


@dataclass(frozen=True)
class Replayed:
    """Result of replaying a committed trace on this build."""

    group: Group
    file: str
    status: str
    was: str
    """Clause violated in the committed trace."""
    detail: str = ""
    cause: Symptoms | None = None
    finding: Finding | None = None
    """Finding, if the replay violates other clauses than the trace, or ends at another command."""

    @property
    def id(self) -> str:
        """Identity seen in the replay, or the trace's clause if the bug is fixed."""
        seen = self.cause.mark if self.cause else self.finding.mark if self.finding else None
        return seen.id if seen else self.was


@dataclass(frozen=True)
class Judged:
    """A finding of the search or of a changed trace, with its group."""

    finding: Finding
    group: Group | None = None
    why: str = ""
    """Reason why the finding belongs to the group, or why it is not judged."""
    judged: bool = True
    """True if the finding was shrunk far enough to be judged."""
    slower: bool = False
    """True if a slower replay identified the group. The trace is then stored for later gates."""

    @property
    def new(self) -> bool:
        return self.judged and self.group is None


@dataclass
class Gate:
    """Groups of a baseline, checked on a build."""

    engine: Engine
    name: str
    """Engine name and version, matched by the patterns of groups. A changed build of a release
    shares the release's groups."""
    baseline: Baseline
    plan: Plan
    replayed: list[Replayed] = field(default_factory=list)
    removed: dict[str, str] = field(default_factory=dict)
    """Patch of a known bug that removes a finding, by the finding's identity."""
    words: dict[str, str] = field(default_factory=dict)
    """Description of each patch."""
    cut: str = ""
    """Reason why patches were not tried on every finding, or empty."""
    method: str = ""
    """Name of the only Python method in which the build differs from its base, or empty."""
    tell: Callable[[str, int, int], None] = lambda *_: None
    """Progress callback: name of the activity, items done, items in total."""

    @property
    def build(self) -> Build:
        """Build of the engine, as named in reports."""
        return built(self.engine)

    @property
    def groups(self) -> list[Group]:
        """Groups of the baseline that match this engine."""
        return self.baseline.of(self.name)

    def replay(self) -> list[Replayed]:
        """Replay the committed traces in order."""
        files = [(group, file) for group in self.groups for file in group.traces]
        every = [(group, file, self.baseline.trace(file)) for group, file in files]
        for number, (group, file, trace) in enumerate(every):
            self.tell("replaying traces", number, len(every))
            accepted = {v.clause for g, _, t in every if g is group for v in t.violations}
            self.replayed.append(self._again(group, file, trace, accepted))
        return self.replayed

    def shows(self, trace: Trace) -> bool:
        """Return True if a replay breaks the clause at the same command, and no new clause."""
        accepted = {violation.clause for violation in trace.violations}
        return self._again(Group(""), "", trace, accepted).status == STILL_THERE

    def _again(self, group: Group, file: str, trace: Trace, accepted: set[str]) -> Replayed:
        was = trace.violations[0].clause
        if (reason := self.engine.capabilities.lacks(trace.config, trace.commands)) is not None:
            return Replayed(group, file, NOT_TRIED, was, f"the engine {reason}")
        if missing := sorted({*trace.patches} - {*self.engine.capabilities.patches}):
            why = f"the trace needs --patch {' --patch '.join(missing)}"
            return Replayed(group, file, NOT_TRIED, was, why)
        if (seen := self._seen(trace)) is None:
            masked = self.engine.capabilities.patches and not trace.patches
            return Replayed(group, file, PATCHED if masked else FIXED, was)
        broken = [violation.clause for violation in seen.trace.violations]
        new = [violation.clause for violation in _beyond(seen.trace.violations, accepted)]
        same_place = len(seen.trace.rows) == len(trace.rows)
        # Another clause or another command is no evidence of the group's bug.
        if was in broken and same_place and not new:
            return Replayed(group, file, STILL_THERE, was, seen.id, symptoms(seen.trace, seen.mark))
        detail = f"the replay breaks {', '.join(dict.fromkeys(new or broken))} now"
        if not same_place:
            detail += f", at command {len(seen.trace.rows)} of {len(trace.rows)}"
        return Replayed(group, file, CHANGED, was, detail, finding=seen)

    def _seen(self, trace: Trace, commands: list[Command] | None = None) -> Finding | None:
        """Replay a trace, or ``commands`` in its place. Return the finding reached, or None."""
        wanted = trace.commands if commands is None else commands
        referee = play(self.engine, trace.setup, wanted, trace.passes)
        if not (broken := referee.log[-1].violations if referee.log else []):
            return None
        recorded = {violation.clause for violation in trace.violations[:1]}
        leading = lead(broken)
        chosen = next((violation for violation in broken if violation.clause in recorded), leading)
        if chosen.reporting != leading.reporting:
            chosen = leading
        made = trace.played(
            referee.log,
            chosen,
            engine=self.name,
            build=self.build,
            minimal=trace.minimal and len(referee.log) == len(trace.rows),
            ignored=tuple(sorted(referee.ignored)),
        )
        made = made.explained_by(explain(referee, most=None))
        return Finding(mark(referee.log[-1], chosen), made, 0)

    # Findings in the baseline ---------------------------------------------------

    def causes(self, group: Group) -> list[Symptoms]:
        """Return the symptoms of a group's traces on this build."""
        return [trace.cause for trace in self.replayed if trace.group is group and trace.cause]

    def bare(self, group: Group) -> bool:
        """Return True if no trace of the group was tried, so that only identities can match. If all
        traces are fixed, no identity matches, because a fixed bug that returns is a new finding."""
        tried = (replayed.status for replayed in self.replayed if replayed.group is group)
        return all(status == NOT_TRIED for status in tried)

    @property
    def accepted(self) -> AcceptedFindings:
        """Findings ignored by the search."""
        bare = {name for group in self.groups if self.bare(group) for name in group.seen_as}
        bugs = []
        for group in self.groups:
            if causes := tuple(self.causes(group)):
                ids = frozenset((*group.seen_as, *(cause.mark.id for cause in causes)))
                bugs.append(Bug(ids, causes))
        return AcceptedFindings(frozenset(bare), tuple(bugs))

    def judge(self, findings: list[Finding]) -> list[Judged]:
        """Judge each finding of the search, and the finding of each changed trace."""
        changed = [replayed.finding for replayed in self.replayed if replayed.finding]
        return [self._judged(finding) for finding in (*changed, *findings)]

    def _judged(self, finding: Finding) -> Judged:
        for group in self.groups:
            # A stall's message names its cause, even if only some traces of the group reproduce.
            listed = self.bare(group) or (finding.mark.what and self.causes(group))
            if listed and group.lists(finding.mark):
                return Judged(finding, group, f"the group lists {finding.id}")
        if (match := self._group_of(symptoms(finding.trace, finding.mark))) is not None:
            return Judged(finding, *match)
        if finding.trace.minimal and not interrupts.arrived():
            match = self._sooner(finding.trace)
            if match is not None:
                return Judged(finding, *match, slower=True)
        from_trace = any(replayed.finding is finding for replayed in self.replayed)
        if not (finding.trace.minimal or from_trace):
            return Judged(finding, why="no time was left to shrink the finding", judged=False)
        return Judged(finding)

    def try_patches(self, judged: list[Judged], trials: Trials, on_base: bool) -> list[Judged]:
        """Try patches on findings without a group, and on a trace of each group.

        Findings that were replayed ``on_base`` stay new, because the base does not have them.
        """
        findings = [judgement.finding for judgement in judged if judgement.group is None]
        self.words |= trials.words
        self.removed |= trials.removed(findings)
        shown = {
            replayed.group.name: Finding(replayed.cause.mark, self.baseline.trace(replayed.file), 0)
            for replayed in reversed(self.replayed)
            if replayed.cause
        }
        groups: dict[str, Group] = {}
        for patch in () if on_base else dict.fromkeys(self.removed.values()):
            ids = trials.shown_by(patch, [*shown.values()])
            names = {name for name, finding in shown.items() if id(finding) in ids}
            group = next((candidate for candidate in self.groups if candidate.name in names), None)
            if group is not None:
                groups[patch] = group
        self.cut = trials.cut
        return [self._patched(judgement, groups) for judgement in judged]

    def _patched(self, judged: Judged, groups: dict[str, Group]) -> Judged:
        patch = self.removed.get(judged.finding.id, "")
        if judged.group is not None or patch not in groups:
            return judged
        why = f"the patch {patch} removes both this finding and a trace of {groups[patch].name}"
        return Judged(judged.finding, groups[patch], why)

    def _group_of(self, observed: Symptoms) -> tuple[Group, str] | None:
        for group in self.groups:
            if (why := same(observed, self.causes(group))) is not None:
                return group, why
        return None

    def _sooner(self, trace: Trace) -> tuple[Group, str] | None:
        """Return the group of a finding that a slower replay reaches first, and the reason."""
        every = [*slower(trace.commands)]
        for number, commands in enumerate(every):
            self.tell("replaying more slowly", number, len(every))
            if (first := self._seen(trace, commands)) is None:
                continue
            made = symptoms(first.trace, first.mark)
            match = self._group_of(replace(made, minimal=True))
            if match is not None:
                group, _ = match
                return group, f"a slower replay reaches {first.id} first"
        return None

    # Updates of the baseline -----------------------------------------------------

    def updated(
        self,
        judged: list[Judged],
        new: list[Cause],
        keep: Callable[[Finding], str | None],
        to: Baseline | None = None,
    ) -> Baseline:
        """Return the baseline, or ``to``, with every identity seen and a group for each ``new``
        cause. Existing entries stay. ``keep`` stores a finding's trace beside the baseline and
        returns the file. New findings, and findings matched by a slower replay, are stored."""
        result = self.baseline if to is None else to
        for replayed in self.replayed:
            if replayed.cause is not None:
                result = result.with_seen(replayed.group.name, [replayed.cause.mark.id])
        for judgement in judged:
            if judgement.group is not None:
                shape = [keep(judgement.finding)] if judgement.slower else []
                files = [file for file in shape if file]
                result = result.with_seen(judgement.group.name, [judgement.finding.id], files)
        for cause in new:
            result = result.with_new(cause.name, self.name)
            name = result.groups[-1].name
            for finding in cause.findings:
                file = keep(finding)
                result = result.with_seen(name, [finding.id], [file] if file else [])
        return result

    def statuses(self, judged: list[Judged], seen: set[str]) -> Iterator[tuple[Group, str]]:
        """Yield each group's status on the build. ``seen``: accepted identities the search met."""
        matched = {judgement.group.name for judgement in judged if judgement.group is not None}
        for group in self.groups:
            tried = [replayed.status for replayed in self.replayed if replayed.group is group]
            met = group.name in matched or not seen.isdisjoint(group.seen_as)
            if met or {STILL_THERE, CHANGED} & set(tried):
                yield group, STILL_THERE
            elif FIXED in tried:
                yield group, FIXED
            elif PATCHED in tried:
                yield group, PATCHED
            else:
                yield group, NOT_TRIED if tried else "not seen"


def slower(commands: list[Command]) -> Iterator[list[Command]]:
    """Yield the commands with steps added: after every command, then at one place at a time.

    >>> [len(commands) for commands in slower([{"do": "retract"}, {"do": "step", "n": 1}])]
    [4, 4, 3]
    """
    for count in (1, 2):
        more: Command = {"do": "step", "n": count}
        yield [item for command in commands for item in (command, more)]
    for place in range(len(commands) - 1, 0, -1):
        yield [*commands[:place], {"do": "step", "n": 1}, *commands[place:]]


def _beyond(violations: list[Violation], accepted: set[str]) -> list[Violation]:
    """Return violations of clauses that the group's traces do not violate. Reporting clauses count
    only if every violation is about reporting."""
    only_reporting = all(violation.reporting for violation in violations)
    return [
        violation
        for violation in violations
        if violation.clause not in accepted and (only_reporting or not violation.reporting)
    ]


def beside(path: Path) -> Path:
    """Return the folder for the traces of a baseline."""
    return path.with_name(f"{path.stem}-traces")
