"""Patches of known bugs, tried on findings: which patch removes which finding.

The driver of an engine can repair known bugs (``--patch``). A patch removes a finding if the
commands of its trace no longer violate its clause on the patched build. Where two bugs break one
clause in one iteration, only both patches do that: then the patch counts after which the clause is
broken at another transition. Each trial starts the engine with other patches, so n patches are
tried in groups: the number of a patch in binary says in which groups it is, and the groups that
remove a finding give the number of the patch. The patch is then tried alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

from slotproof.engines.base import Engine, EngineFailed, EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.environments.families import FAMILIES
from slotproof.lockstep.referee import OutOfTime, play
from slotproof.search.findings import Finding, Mark, mark
from slotproof.search.schedule import Stop
from slotproof.support import interrupts

ALL = "all"
"""Every patch that fits the build."""
T = TypeVar("T")
Gone = dict[bool, T]
"""By whether a finding is gone wholly, or from its transition only."""
Tell = Callable[[int, int], None]
"""Told of the trials that are made, and of their number."""


class Trials:
    """Findings of a build on the same build with patches."""

    def __init__(self, spec: EngineSpec, stop: Stop, tell: Tell) -> None:
        self.spec, self.stop, self.tell = spec, stop, tell
        family = FAMILIES.get(spec.text.partition("==")[0])
        self.words = family.mends if family else {}
        """The sentence of each patch."""
        self.done = self.total = 0

    def removed(self, findings: Sequence[Finding]) -> dict[str, str]:
        """Return the patch that removes a finding, by the finding's identity.

        A finding is missing that no single patch removes, or that no time was left for.
        """
        result: dict[str, str] = {}
        try:
            offered = self._offered()
            self.total = len(findings) * (2 + len(offered).bit_length())
            some: Gone[set[int]] = {True: set()}
            if offered:
                some = self._gone(offered, findings)
            wanted = [each for each in findings if id(each) in some[True]]
            codes = {name: number for number, name in enumerate(offered, 1)}
            patterns: Gone[dict[int, int]] = {True: defaultdict(int), False: defaultdict(int)}
            for bit in range(len(offered).bit_length()) if wanted else ():
                group = [name for name, code in codes.items() if code >> bit & 1]
                for wholly, gone in self._gone(group, wanted).items():
                    for each in gone:
                        patterns[wholly][each] |= 1 << bit
            for wholly, pattern in patterns.items():
                self._alone(wanted, codes, pattern, wholly, result)
        except (EngineUnusable, EngineFailed, OutOfTime):
            pass  # the rest has no patch that is known to remove it
        return result

    def _alone(
        self,
        wanted: Sequence[Finding],
        codes: dict[str, int],
        pattern: dict[int, int],
        wholly: bool,
        result: dict[str, str],
    ) -> None:
        """Try each patch alone on the findings that it may remove.

        Where two patches remove a finding each, its pattern has the bits of both.
        """
        order = sorted(codes, key=lambda name: -codes[name].bit_count())
        for name in order:
            may = [
                each
                for each in wanted
                if each.id not in result and not codes[name] & ~pattern[id(each)]
            ]
            gone = self._gone([name], may)[wholly] if may else ()
            result |= {each.id: name for each in may if id(each) in gone}

    def removes(self, patch: str, findings: Sequence[Finding]) -> set[int]:
        """Return the ``id`` of each finding that a patch removes."""
        try:
            return self._gone([patch], findings)[True]
        except (EngineUnusable, EngineFailed, OutOfTime):
            return set()

    def _offered(self) -> list[str]:
        """The patches that fit the build and are not in place."""
        if not self.words or ALL in self.spec.mends:
            return []
        with closing(replace(self.spec, mends=(ALL,)).open()) as engine:
            return [each for each in engine.capabilities.mends if each not in self.spec.mends]

    def _gone(self, patches: Collection[str], findings: Iterable[Finding]) -> Gone[set[int]]:
        """Return the findings, by ``id``, that these patches together remove: wholly, or from their
        transition."""
        spec = replace(self.spec, mends=tuple(dict.fromkeys((*self.spec.mends, *patches))))
        result: Gone[set[int]] = {True: set(), False: set()}
        with closing(spec.open()) as engine:
            for each in _by_configuration(findings):
                marks = self._marks(engine, each)
                clauses = {(mark.clause, mark.what) for mark in marks}
                if (each.mark.clause, each.mark.what) not in clauses:
                    result[True].add(id(each))
                if each.id not in {mark.id for mark in marks}:
                    result[False].add(id(each))
        return result

    def _marks(self, engine: Engine, finding: Finding) -> list[Mark]:
        """Return the marks of the violations that the commands of a finding lead to."""
        self.done += 1
        self.tell(self.done, max(self.done, self.total))
        trace = finding.trace
        log = play(engine, trace.setup, trace.commands, trace.passes, self._over).log
        return [mark(log[-1], each) for each in log[-1].violations] if log else []

    def _over(self) -> bool:
        return interrupts.arrived() or self.stop()


def _by_configuration(findings: Iterable[Finding]) -> list[Finding]:
    """In an order in which a driver builds each shape of a scheduler once."""
    return sorted(findings, key=lambda each: each.trace.config_name)
