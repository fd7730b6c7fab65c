"""Patches of known bugs, tried on findings: which bug shows which finding.

The driver of an engine can repair known bugs (``--patch``). A finding comes from a known bug if its
commands still violate its clause, at its transition, where every patch but that of the bug is in
place, and no longer where every patch is. A trace may show two bugs at once, so a bug is tried
alone. Each trial starts the engine, so n bugs are tried in groups: the number of a patch in binary
says in which groups it is, and the groups that show a finding give the number of the patch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import replace

from slotproof.engines.base import Engine, EngineFailed, EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.environments.families import FAMILIES
from slotproof.lockstep.referee import OutOfTime, play
from slotproof.search.findings import Finding, Mark, mark
from slotproof.search.schedule import Clock
from slotproof.support import interrupts

ALL = "all"
"""Every patch that fits the build."""
AT_LEAST = 300.0
"""Seconds of the trials, if the search had less."""
Tell = Callable[[int, int], None]
"""Told of the replays that are made, and of their number."""


class Trials:
    """Findings of a build on the same build with patches."""

    def __init__(self, spec: EngineSpec, seconds: float | None, tell: Tell) -> None:
        """``seconds``: those that the search had. The trials have as many, or no limit either."""
        self.spec, self.tell = spec, tell
        self.clock = Clock(None if seconds is None else max(AT_LEAST, seconds))
        family = FAMILIES.get(spec.text.partition("==")[0])
        self.words = family.mends if family else {}
        """The sentence of each patch."""
        self.offered: list[str] = []
        """The patches that fit the build and are not in place."""
        self.done = self.total = 0
        self.cut = ""
        """Words where no time was left to try every finding."""

    def removed(self, findings: Sequence[Finding]) -> dict[str, str]:
        """Return the patch of the bug that shows a finding, by the finding's identity.

        A finding is missing that no known bug shows alone, or that no time was left for.
        """
        result: dict[str, str] = {}
        try:
            self._removed(findings, result)
        except OutOfTime:
            self.cut = "no time was left to try them on every finding: causes may be told apart"
        except (EngineUnusable, EngineFailed):
            pass  # the rest has no known patch
        return result

    def _removed(self, findings: Sequence[Finding], result: dict[str, str]) -> None:
        if not self.words or ALL in self.spec.mends or not findings:
            return
        with closing(replace(self.spec, mends=(ALL,)).open()) as engine:
            fit = engine.capabilities.mends
        self.offered = [each for each in fit if each not in self.spec.mends]
        bits = range(len(self.offered).bit_length())
        self.total = len(findings) * (len(bits) + 2)
        stay, _ = self._shown((), findings)
        wanted = [each for each in findings if id(each) not in stay]
        codes = {name: number for number, name in enumerate(self.offered, 1)}
        by_clause, by_identity = Counter[int](), Counter[int]()
        for bit in bits if wanted else ():
            bugs = [name for name, code in codes.items() if code >> bit & 1]
            for pattern, shown in zip(
                (by_clause, by_identity), self._shown(bugs, wanted), strict=True
            ):
                pattern.update(dict.fromkeys(shown, 1 << bit))
        for index, pattern in ((1, by_identity), (0, by_clause)):
            for name in sorted(codes, key=lambda name: -codes[name].bit_count()):
                may = [
                    each
                    for each in wanted
                    if each.id not in result and not codes[name] & ~pattern[id(each)]
                ]
                shown = self._shown([name], may)[index] if may else set()
                result |= {each.id: name for each in may if id(each) in shown}

    def shown_by(self, patch: str, findings: Sequence[Finding]) -> set[int]:
        """Return the ``id`` of each finding that the bug of a patch shows alone."""
        try:
            return self._shown([patch], findings)[0]
        except (EngineUnusable, EngineFailed, OutOfTime):
            return set()

    def _shown(
        self, bugs: Collection[str], findings: Iterable[Finding]
    ) -> tuple[set[int], set[int]]:
        """Return the findings, by ``id``, that the engine shows with these known bugs alone: those
        whose clause it violates, and those whose identity it has."""
        patches = (*self.spec.mends, *(each for each in self.offered if each not in bugs))
        by_clause, by_identity = set[int](), set[int]()
        with closing(replace(self.spec, mends=patches).open()) as engine:
            # In an order in which a driver builds each shape of a scheduler once.
            for each in sorted(findings, key=lambda each: each.trace.config_name):
                marks = self._marks(engine, each)
                if (each.mark.clause, each.mark.what) in {(m.clause, m.what) for m in marks}:
                    by_clause.add(id(each))
                if each.id in {mark.id for mark in marks}:
                    by_identity.add(id(each))
        return by_clause, by_identity

    def _marks(self, engine: Engine, finding: Finding) -> list[Mark]:
        """Return the marks of the violations that the commands of a finding lead to."""
        self.done += 1
        self.tell(self.done, max(self.done, self.total))
        trace = finding.trace
        log = play(engine, trace.setup, trace.commands, trace.passes, self._over).log
        return [mark(log[-1], each) for each in log[-1].violations] if log else []

    def _over(self) -> bool:
        return interrupts.arrived() or self.clock.over()
