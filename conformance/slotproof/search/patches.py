"""Patches of known bugs, tried on findings to learn which bug causes which finding.

The driver of an engine can repair known bugs (``--patch``). A finding comes from a known bug if two
conditions hold. With all patches except the bug's own in place, the commands violate the clause.
With every patch in place, the commands do not violate it. One trace may have two bugs, so each bug
is tried alone. If no bug alone reproduces the finding, its cause is the bug whose patch alone
removes it. Each trial starts the engine, so a trial tests a group of bugs. Group n has the bugs
whose patch number has bit n set. The groups that reproduce a finding give its patch's number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from slotproof.engines.base import EngineFailed, EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.environments.families import FAMILIES
from slotproof.lockstep.referee import OutOfTime, play
from slotproof.search.findings import Finding, Mark, mark
from slotproof.search.plan import Clock
from slotproof.support import interrupts
from slotproof.traces.record import Row

ALL = "all"
"""Option value for every patch that fits the build."""
AT_LEAST = 300.0
"""Minimum time for the trials, in seconds."""
STALLS = ("INV-PROGRESS.stalled", "INV-PROGRESS.starved")
Shows = Callable[[Collection[str], Sequence[Finding]], set[int]]
"""Function that tries bugs on findings, and returns the ``id`` of each finding the bugs cause."""
Tell = Callable[[int, int], None]
"""Progress callback: number of replays made, number of replays in total."""


def words_of(spec: str) -> Mapping[str, str]:
    """Return the description of each patch of an engine."""
    family = FAMILIES.get(spec.partition("==")[0])
    return family.patches if family else {}


class Trials:
    """Trials of a build's findings on the same build with patches."""

    def __init__(self, spec: EngineSpec, seconds: float | None, tell: Tell) -> None:
        """Set the time limit to ``seconds``, but at least :data:`AT_LEAST`. ``None``: no limit."""
        self.spec, self.tell = spec, tell
        self.clock = Clock(None if seconds is None else max(AT_LEAST, seconds))
        self.words = words_of(spec.text)
        """Description of each patch."""
        self.offered: list[str] = []
        """Patches that fit the build and are not yet in place."""
        self.done = self.total = 0
        self.cut = ""
        """Reason why patches were not tried on every finding, or empty."""

    def removed(self, findings: Sequence[Finding]) -> dict[str, str]:
        """Return the patch of each finding's bug, by the finding's identity.

        The result omits findings without a known bug, and findings that were not tried in time.
        """
        result: dict[str, str] = {}
        try:
            self._removed(findings, result)
        except (EngineUnusable, EngineFailed, OutOfTime) as problem:
            self._gave_up(problem)
        return result

    def _gave_up(self, problem: BaseException) -> None:
        """Record why patches were not tried on every finding. Untried findings get no patch."""
        out = "interrupted" if interrupts.arrived() else "out of time"
        why = out if isinstance(problem, OutOfTime) else str(problem)
        self.cut = f"patches not tried on all findings ({why}): one cause may be listed as several"

    def _removed(self, findings: Sequence[Finding], result: dict[str, str]) -> None:
        if not self.words or ALL in self.spec.patches or not findings:
            return
        with closing(replace(self.spec, patches=(ALL,)).open()) as engine:
            fit = engine.capabilities.patches
        self.offered = [patch for patch in fit if patch not in self.spec.patches]
        self.total = len(findings) * (2 + len(self.offered).bit_length())
        stay = self._alone((), findings)
        # Any patch that frees a token resolves a stall at the exact memory limit.
        stalls = [finding for finding in findings if finding.mark.clause in STALLS]
        longer = [*map(_longer, stalls)]
        still = self._alone((), longer) if longer else set()
        stay |= {id(stall) for stall, more in zip(stalls, longer, strict=True) if id(more) in still}
        left = [finding for finding in findings if id(finding) not in stay]
        for shows in (partial(self._alone, same=True), self._alone, self._without):
            self._decoded([finding for finding in left if finding.id not in result], shows, result)

    def _decoded(self, findings: Sequence[Finding], shows: Shows, result: dict[str, str]) -> None:
        """Test groups of bugs with ``shows``, and record each finding's patch in ``result``."""
        codes = {name: number for number, name in enumerate(self.offered, 1)}
        pattern = Counter[int]()
        for bit in range(len(codes).bit_length()) if findings else ():
            group = [name for name, code in codes.items() if code >> bit & 1]
            pattern.update(dict.fromkeys(shows(group, findings), 1 << bit))
        for name in sorted(codes, key=lambda name: -codes[name].bit_count()):
            left = [finding for finding in findings if finding.id not in result]
            may = [finding for finding in left if not codes[name] & ~pattern[id(finding)]]
            shown = shows([name], may) if may else set()
            result |= {finding.id: name for finding in may if id(finding) in shown}

    def shown_by(self, patch: str, findings: Sequence[Finding]) -> set[int]:
        """Return the ``id`` of each finding caused by the bug of a patch."""
        try:
            alone = self._alone([patch], findings)
            return alone | self._without([patch], [one for one in findings if id(one) not in alone])
        except (EngineUnusable, EngineFailed, OutOfTime) as problem:
            self._gave_up(problem)
            return set()

    def _alone(
        self, bugs: Collection[str], findings: Iterable[Finding], same: bool = False
    ) -> set[int]:
        """Return the ``id`` of each finding whose clause is violated with only these known bugs
        unpatched. ``same``: its transition must recur, too."""
        identities = self._marks([patch for patch in self.offered if patch not in bugs], findings)
        return {
            id(finding)
            for finding, marks in identities
            if any(finding.id == m.id if same else finding.mark.stop == m.stop for m in marks)
        }

    def _without(self, bugs: Collection[str], findings: Iterable[Finding]) -> set[int]:
        """Return the ``id`` of each finding whose clause holds once these bugs are patched."""
        identities = self._marks(bugs, findings)
        stops = ((finding, {mark.stop for mark in marks}) for finding, marks in identities)
        return {id(finding) for finding, broken in stops if finding.mark.stop not in broken}

    def _marks(
        self, patches: Iterable[str], findings: Iterable[Finding]
    ) -> list[tuple[Finding, list[Mark]]]:
        """Return the identities that each finding's commands reach with these patches in place."""
        identities = []
        with closing(replace(self.spec, patches=(*self.spec.patches, *patches)).open()) as engine:
            # Sort by configuration, so that a driver builds each kind of scheduler once.
            for finding in sorted(findings, key=lambda finding: finding.trace.config_name):
                self.done += 1
                self.tell(self.done, max(self.done, self.total))
                trace = finding.trace
                log = play(engine, trace.setup, trace.commands, trace.passes, self._over).log
                marks = [mark(log[-1], v) for v in log[-1].violations] if log else []
                identities.append((finding, marks))
        return identities

    def _over(self) -> bool:
        return interrupts.arrived() or self.clock.over()


def _longer(finding: Finding) -> Finding:
    """Return a stall whose request needs more memory: two KV pages are added to ``max_new``."""
    rid, trace = finding.trace.violations[0].rid, finding.trace

    def more(row: Row) -> Row:
        if row.command.get("rid") != rid or row.command["do"] != "submit":
            return row
        return Row({**row.command, "max_new": row.command["max_new"] + 2 * trace.config.page_size})

    return replace(finding, trace=replace(trace, rows=[more(row) for row in trace.rows]))
