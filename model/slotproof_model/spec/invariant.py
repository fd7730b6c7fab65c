"""An invariant: a clause of the spec, split into named conjuncts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from slotproof_model.spec.expr import Expr, variables


class Kind(Enum):
    """Scope of an invariant: every state, every step, or observations of the suite only."""

    STATE = "state"
    STEP = "step"
    HARNESS = "harness"


@dataclass(frozen=True)
class Invariant:
    """A clause of the spec, cited by its ID. Violations name clause and conjunct."""

    id: str
    kind: Kind
    sentence: str
    conjuncts: dict[str, Expr] = field(default_factory=dict)
    observed: dict[str, str] = field(default_factory=dict)
    """Sentences of conjuncts that only the suite can check, by the conjunct's name."""

    @property
    def on_engines(self) -> bool:
        """True if the suite checks some conjunct. Formulas about a page, a row or the step itself
        are only proved."""
        return bool(self.observed) or not all(map(about, self.conjuncts.values()))


def about(expr: Expr) -> str:
    """Return ``page``, ``line`` or ``step`` if the formula is about a page, a row or the step
    itself, else an empty string.

    >>> from slotproof_model.spec.state import full, page
    >>> about(page.free + full.total), about(full.total)
    ('page', '')
    """
    names = {name.rstrip("'").partition(".")[0] for name in variables(expr)}
    return next((what for what in ("page", "line", "step") if what in names), "")


def state(
    id: str, sentence: str, observed: dict[str, str] | None = None, **parts: Expr
) -> Invariant:
    return Invariant(id, Kind.STATE, sentence, parts, observed or {})


def step(id: str, sentence: str, **parts: Expr) -> Invariant:
    return Invariant(id, Kind.STEP, sentence, parts)


def harness(id: str, sentence: str, **observed: str) -> Invariant:
    return Invariant(id, Kind.HARNESS, sentence, {}, observed)


def pool_of(conjunct: str) -> str | None:
    """Return the pool with which a conjunct's name begins, or ``None`` for any other name.

    >>> pool_of("swa_covers"), pool_of("full"), pool_of("counted")
    ('swa', 'full', None)
    """
    first = conjunct.partition("_")[0]
    return first if first in ("full", "swa") else None
