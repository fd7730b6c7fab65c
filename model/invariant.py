"""What an invariant is: a clause of the spec, in named conjuncts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from slotproof.model.expr import Expr


class Kind(Enum):
    """Of a state, of a step from one to the next, or of what only the suite can see."""

    STATE = "state"
    STEP = "step"
    HARNESS = "harness"


@dataclass(frozen=True)
class Invariant:
    """A clause of the spec, cited by its ID; violations name the conjunct too."""

    id: str
    kind: Kind
    sentence: str
    conjuncts: dict[str, Expr] = field(default_factory=dict)
    observed: dict[str, str] = field(default_factory=dict)
    """Conjuncts that only the suite can check: name and sentence."""


def state(
    id: str, sentence: str, observed: dict[str, str] | None = None, **parts: Expr
) -> Invariant:
    return Invariant(id, Kind.STATE, sentence, parts, observed or {})


def step(id: str, sentence: str, **parts: Expr) -> Invariant:
    return Invariant(id, Kind.STEP, sentence, parts)


def harness(id: str, sentence: str, **observed: str) -> Invariant:
    return Invariant(id, Kind.HARNESS, sentence, {}, observed)
