"""Coverage of a run: the transitions, guards and clauses that were exercised."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from slotproof_model.evaluation.evaluate import outcomes
from slotproof_model.evaluation.layout import INDEX, Vector
from slotproof_model.spec.state import RUNNING, req

_COUNTS = ("transitions", "decoding", "checked", "ignored", "by_choice")
_PHASE, _OUTPUT = INDEX[req.phase.name], INDEX[req.output.name]


@dataclass
class Coverage:
    """Counts of transitions, guard outcomes and clauses over a run."""

    transitions: Counter[str] = field(default_factory=Counter)
    decoding: Counter[str] = field(default_factory=Counter)
    """Counts of the transitions of running requests that already have output."""
    checked: Counter[str] = field(default_factory=Counter)
    """Number of evaluations on states with something to judge, by invariant."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Number of violations of clauses that the user chose to ignore."""
    by_choice: Counter[str] = field(default_factory=Counter)
    """Counts of stalls that the profile documents, by clause, cause and documentation page."""
    holds: int = 0
    fails: int = 0
    """Bit masks of guard conjuncts without parameters, one of true and one of false conjuncts."""
    commands: int = 0
    iterations: int = 0
    reached: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Counts of client behaviour, from :mod:`slotproof.lockstep.reached`."""

    def saw_guards(self, page_size: int, state: Vector) -> None:
        table = outcomes(page_size)
        bits = table.evaluate(state)
        self.holds |= bits
        self.fails |= ~bits & ((1 << len(table.names)) - 1)

    def saw(self, transition: str, state: Vector) -> None:
        """Count a transition that is about to be applied."""
        self.transitions[transition] += 1
        if state[_PHASE] == RUNNING and state[_OUTPUT]:
            self.decoding[transition] += 1

    def add(self, other: Coverage) -> None:
        for name in (*_COUNTS, "commands", "iterations"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.holds |= other.holds
        self.fails |= other.fails
        for what, counts in other.reached.items():
            self.reached[what] += counts

    @property
    def size(self) -> int:
        """Number of different transitions and guard outcomes seen."""
        return len(self.transitions) + self.holds.bit_count() + self.fails.bit_count()

    def guards(self, offered: Collection[str]) -> tuple[int, int, list[str]]:
        """Return the offered guards' outcomes as (number seen, number possible, names missing)."""
        missing = []
        count = 0
        for bit, (transition, name) in enumerate(outcomes(1).names):
            if transition in offered:
                count += 2
                for way, seen in (("held", self.holds), ("failed", self.fails)):
                    if not seen >> bit & 1:
                        missing.append(f"{transition}.{name} never {way}")
        return count - len(missing), count, missing


def total(parts: Iterable[Coverage]) -> Coverage:
    whole = Coverage()
    for part in parts:
        whole.add(part)
    return whole
