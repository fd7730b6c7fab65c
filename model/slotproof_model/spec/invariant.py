"""What an invariant is: a clause of the spec, in named conjuncts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from slotproof_model.spec.expr import Expr, variables


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

    @property
    def on_engines(self) -> bool:
        """Whether the suite checks any of it: not, what is said of an arbitrary page or row."""
        return bool(self.observed) or not all(map(about, self.conjuncts.values()))


def about(expr: Expr) -> str:
    """The arbitrary thing that a formula is about, ``page`` or ``line``; empty: none.

    >>> from slotproof_model.spec.state import full, page
    >>> about(page.free + full.total), about(full.total)
    ('page', '')
    """
    names = {name.rstrip("'").partition(".")[0] for name in variables(expr)}
    return "page" if "page" in names else "line" if "line" in names else ""


def state(
    id: str, sentence: str, observed: dict[str, str] | None = None, **parts: Expr
) -> Invariant:
    return Invariant(id, Kind.STATE, sentence, parts, observed or {})


def step(id: str, sentence: str, **parts: Expr) -> Invariant:
    return Invariant(id, Kind.STEP, sentence, parts)


def harness(id: str, sentence: str, **observed: str) -> Invariant:
    return Invariant(id, Kind.HARNESS, sentence, {}, observed)


def pool_of(conjunct: str) -> str | None:
    """The pool that a conjunct about a page is about, where it is about one alone.

    >>> pool_of("swa_covers"), pool_of("full"), pool_of("counted")
    ('swa', 'full', None)
    """
    first = conjunct.partition("_")[0]
    return first if first in ("full", "swa") else None
