"""Patches of known bugs, tried on findings: which bug shows which finding.

The driver of an engine can repair known bugs (``--patch``). A finding comes from a known bug if its
commands violate its clause where every patch but that of the bug is in place, and no longer where
every patch is. A trace may show two bugs at once, so a bug is tried alone. Where no bug shows it
alone, it comes from the bug whose patch alone removes it. Each trial starts the engine, so n bugs
are tried in groups: the number of a patch in binary says in which groups it is, and the groups that
show a finding give the number of the patch.
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
"""Every patch that fits the build."""
AT_LEAST = 300.0
"""Seconds of the trials, if the search had less."""
STALLS = ("INV-PROGRESS.stalled", "INV-PROGRESS.starved")
Shows = Callable[[Collection[str], Sequence[Finding]], set[int]]
"""Which findings, by ``id``, come from these known bugs."""
Tell = Callable[[int, int], None]
"""Told of the replays that are made, and of their number."""


def words_of(spec: str) -> Mapping[str, str]:
    """Return the sentence of each patch that there is for an engine."""
    family = FAMILIES.get(spec.partition("==")[0])
    return family.patches if family else {}


class Trials:
    """Findings of a build on the same build with patches."""

    def __init__(self, spec: EngineSpec, seconds: float | None, tell: Tell) -> None:
        """``seconds``: those that the search had. The trials have as many, or no limit either."""
        self.spec, self.tell = spec, tell
        self.clock = Clock(None if seconds is None else max(AT_LEAST, seconds))
        self.words = words_of(spec.text)
        """The sentence of each patch."""
        self.offered: list[str] = []
        """The patches that fit the build and are not in place."""
        self.done = self.total = 0
        self.cut = ""
        """Words where patches were not tried on every finding."""

    def removed(self, findings: Sequence[Finding]) -> dict[str, str]:
        """Return the patch of the bug that shows a finding, by the finding's identity.

        A finding is missing that no known bug shows alone, or that no time was left for.
        """
        result: dict[str, str] = {}
        try:
            self._removed(findings, result)
        except (EngineUnusable, EngineFailed, OutOfTime) as problem:
            self._gave_up(problem)
        return result

    def _gave_up(self, problem: BaseException) -> None:
        """Note why patches were not tried on every finding. The rest has no known patch."""
        out = "interrupted" if interrupts.arrived() else "out of time"
        why = out if isinstance(problem, OutOfTime) else str(problem)
        self.cut = f"{why} before every finding was tried: one cause may be listed as several"

    def _removed(self, findings: Sequence[Finding], result: dict[str, str]) -> None:
        if not self.words or ALL in self.spec.patches or not findings:
            return
        with closing(replace(self.spec, patches=(ALL,)).open()) as engine:
            fit = engine.capabilities.patches
        self.offered = [each for each in fit if each not in self.spec.patches]
        self.total = len(findings) * (2 + len(self.offered).bit_length())
        stay = self._alone((), findings)
        # A stall at the very limit of memory ends with any patch that frees a token.
        longer = [(each, _longer(each)) for each in findings if each.mark.clause in STALLS]
        still = self._alone((), [more for _, more in longer]) if longer else set()
        stay |= {id(each) for each, more in longer if id(more) in still}
        left = [each for each in findings if id(each) not in stay]
        for shows in (partial(self._alone, same=True), self._alone, self._without):
            self._decoded([each for each in left if each.id not in result], shows, result)

    def _decoded(self, findings: Sequence[Finding], shows: Shows, result: dict[str, str]) -> None:
        """Note the patch of the bug that a finding comes from, as ``shows`` tells it of groups."""
        codes = {name: number for number, name in enumerate(self.offered, 1)}
        pattern = Counter[int]()
        for bit in range(len(codes).bit_length()) if findings else ():
            group = [name for name, code in codes.items() if code >> bit & 1]
            pattern.update(dict.fromkeys(shows(group, findings), 1 << bit))
        for name in sorted(codes, key=lambda name: -codes[name].bit_count()):
            may = [
                each
                for each in findings
                if each.id not in result and not codes[name] & ~pattern[id(each)]
            ]
            shown = shows([name], may) if may else set()
            result |= {each.id: name for each in may if id(each) in shown}

    def shown_by(self, patch: str, findings: Sequence[Finding]) -> set[int]:
        """Return the ``id`` of each finding that comes from the bug of a patch."""
        try:
            alone = self._alone([patch], findings)
            return alone | self._without(
                [patch], [each for each in findings if id(each) not in alone]
            )
        except (EngineUnusable, EngineFailed, OutOfTime) as problem:
            self._gave_up(problem)
            return set()

    def _alone(
        self, bugs: Collection[str], findings: Iterable[Finding], same: bool = False
    ) -> set[int]:
        """Return the findings, by ``id``, whose clause is violated with these known bugs alone; at
        the ``same`` transition, if asked."""
        patches = [each for each in self.offered if each not in bugs]
        found = self._marks(patches, findings)
        return {
            id(each)
            for each, marks in found
            if any(each.id == m.id if same else each.mark.stop == m.stop for m in marks)
        }

    def _without(self, bugs: Collection[str], findings: Iterable[Finding]) -> set[int]:
        """Return the findings, by ``id``, whose clause is not violated without these known bugs."""
        found = self._marks(bugs, findings)
        return {id(each) for each, marks in found if each.mark.stop not in {m.stop for m in marks}}

    def _marks(
        self, patches: Iterable[str], findings: Iterable[Finding]
    ) -> list[tuple[Finding, list[Mark]]]:
        """Return the marks that the commands of each finding lead to with these patches."""
        found = []
        with closing(replace(self.spec, patches=(*self.spec.patches, *patches)).open()) as engine:
            # In an order in which a driver builds each shape of a scheduler once.
            for each in sorted(findings, key=lambda each: each.trace.config_name):
                self.done += 1
                self.tell(self.done, max(self.done, self.total))
                trace = each.trace
                log = play(engine, trace.setup, trace.commands, trace.passes, self._over).log
                found.append((each, [mark(log[-1], v) for v in log[-1].violations] if log else []))
        return found

    def _over(self) -> bool:
        return interrupts.arrived() or self.clock.over()


def _longer(finding: Finding) -> Finding:
    """Return a stall whose request may generate two pages more, and so lacks more memory."""
    rid, trace = finding.trace.violations[0].rid, finding.trace

    def more(row: Row) -> Row:
        if row.command.get("rid") != rid or row.command["do"] != "submit":
            return row
        new = row.command["max_new"] + 2 * trace.config.page_size
        return Row({**row.command, "max_new": new})

    return replace(finding, trace=replace(trace, rows=[more(row) for row in trace.rows]))
