"""What a run has seen, and what it has not."""

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
    """Transitions, guard outcomes and clauses, counted over a run."""

    transitions: Counter[str] = field(default_factory=Counter)
    decoding: Counter[str] = field(default_factory=Counter)
    """Those of them that met a request between two of its decoding rounds."""
    checked: Counter[str] = field(default_factory=Counter)
    """How often each invariant was evaluated on something it speaks of."""
    ignored: Counter[str] = field(default_factory=Counter)
    """Violations that were passed over because the user knows them."""
    by_choice: Counter[str] = field(default_factory=Counter)
    """Stalls that the engine's profile documents as a choice, by clause, cause and page."""
    holds: int = 0
    fails: int = 0
    """A bit per guard conjunct without parameters: seen to hold, seen to fail."""
    commands: int = 0
    iterations: int = 0
    reached: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """What clients sent and met: counted in :mod:`slotproof.lockstep.reached`."""

    def saw_guards(self, page_size: int, state: Vector) -> None:
        table = outcomes(page_size)
        bits = table.evaluate(state)
        self.holds |= bits
        self.fails |= ~bits & ((1 << len(table.names)) - 1)

    def saw(self, transition: str, state: Vector) -> None:
        """A transition that is about to be applied."""
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
        """The number of transitions, and of outcomes of guards, that were seen."""
        return len(self.transitions) + self.holds.bit_count() + self.fails.bit_count()

    def guards(self, offered: Collection[str]) -> tuple[int, int, list[str]]:
        """Of the transitions offered: (outcomes seen, outcomes there are, those not seen)."""
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
