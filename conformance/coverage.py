"""What a run has seen, and what it has not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from slotproof.model.evaluate import outcomes
from slotproof.model.world import World


@dataclass
class Coverage:
    """Transitions, guard outcomes and clauses, counted over a run."""

    transitions: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    """How often each invariant was evaluated on something it speaks of."""
    holds: int = 0
    fails: int = 0
    """A bit per guard conjunct without parameters: seen to hold, seen to fail."""
    commands: int = 0
    iterations: int = 0
    unexplained: int = 0
    """Iterations without events that no sequence of transitions was found for."""
    ambiguous: int = 0

    def saw_guards(self, world: World, key: str | None) -> None:
        table = outcomes(world.constants.page_size)
        bits = table.evaluate(world.vector(key))
        self.holds |= bits
        self.fails |= ~bits & ((1 << len(table.names)) - 1)

    def add(self, other: Coverage) -> None:
        self.transitions += other.transitions
        self.checked += other.checked
        self.holds |= other.holds
        self.fails |= other.fails
        self.commands += other.commands
        self.iterations += other.iterations
        self.unexplained += other.unexplained
        self.ambiguous += other.ambiguous

    def guards(self) -> tuple[int, int, list[str]]:
        """(outcomes seen, outcomes there are, those of which only one way was seen)."""
        names = outcomes(1).names
        one_way = [
            f"{transition}.{name} never {'held' if not self.holds >> bit & 1 else 'failed'}"
            for bit, (transition, name) in enumerate(names)
            if not (self.holds >> bit & 1 and self.fails >> bit & 1)
        ]
        seen = self.holds.bit_count() + self.fails.bit_count()
        return seen, 2 * len(names), one_way
