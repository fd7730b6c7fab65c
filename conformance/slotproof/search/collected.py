"""The findings of a campaign as they come in: as they were seen, then shrunk, each once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from slotproof.search.findings import Finding, Mark


@dataclass
class Collected:
    """What was found, by identity, and by what it is recognised."""

    accepted: frozenset[str] = frozenset()
    """Identities that are no findings of it."""
    found: dict[str, Finding] = field(default_factory=dict)
    pending: dict[str, Finding] = field(default_factory=dict)
    """Seen, and not among the findings before the round is over."""
    known: list[Mark] = field(default_factory=list)
    """Of each finding, every way in which it was seen when it was shrunk."""
    met: set[str] = field(default_factory=set)
    """Accepted ones that something was shrunk to."""

    def saw(self, finding: Finding) -> bool:
        """Keep what is new as it is: whatever happens now, it is not lost. Whether it is new."""
        new = finding.id not in self.found and finding.id not in self.pending
        if new:
            self.pending[finding.id] = finding
        return new

    def shorter(self, small: Finding) -> None:
        """Keep what was shrunk in the place of what it was, before the rest of the round is."""
        self.pending = {
            name: each for name, each in self.pending.items() if _example(each) != _example(small)
        }
        if small.id not in self.found and small.id not in self.accepted:
            self.pending[small.id] = small

    def shrunk(self, found: Sequence[Finding], smaller: Iterable[Finding]) -> None:
        """The end of a round: what was seen in it, and what that was shrunk to."""
        for small in smaller:
            self.add(small)
        if found:
            self.pending.clear()

    def add(self, small: Finding) -> None:
        """A finding, or another way to see one."""
        self.known.append(small.mark)
        if small.id in self.accepted:
            self.met.add(small.id)
            return
        old = self.found.setdefault(small.id, small)
        shorter = min(old, small, key=lambda each: (not each.trace.minimal, len(each.trace.rows)))
        self.found[small.id] = shorter

    def settle(self) -> None:
        """The end: what is left as it was seen is a finding, too."""
        for finding in self.pending.values():
            self.add(finding)
        self.pending.clear()

    def all(self) -> list[Finding]:
        """All there are so far; the plainest first."""
        every = {**self.pending, **self.found}.values()
        return sorted(every, key=lambda each: each.plainness)


def _example(finding: Finding) -> tuple[str, int, str]:
    """Where it was seen, and as what."""
    return finding.trace.config_name, finding.first, finding.mark.clause


def groups(found: Iterable[Finding]) -> list[tuple[Finding, ...]]:
    """What is shrunk one after the other: clause by clause, those with few transitions first."""
    order = sorted(
        found,
        key=lambda each: (
            each.mark.clause,
            len(set(each.mark.transitions)),
            len(each.trace.rows),
            each.first,
            each.trace.config_name,
        ),
    )
    return [tuple(group) for _, group in groupby(order, key=lambda each: each.mark.clause)]
