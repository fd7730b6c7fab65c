"""An invariant: a clause of the spec, split into named conjuncts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from slotproof_model.spec.expr import Expr, variables

UNSHOWN = frozenset(("req.told", "req.rounds"))
"""Variables that no snapshot shows."""


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
        """True if the suite checks some conjunct. Other conjuncts are only proved."""
        return bool(self.observed) or any(map(is_shown, self.conjuncts.values()))


def about(expr: Expr) -> str:
    """Return ``page``, ``line`` or ``step`` if the formula is about a page, a row or the step
    itself, else an empty string.

    >>> from slotproof_model.spec.state import full, page
    >>> about(page.free + full.total), about(full.total)
    ('page', '')
    """
    names = {name.rstrip("'").partition(".")[0] for name in variables(expr)}
    return next((what for what in ("page", "line", "step") if what in names), "")


def of_step(expr: Expr) -> bool:
    """Return True if the formula reads a value after the step, or a fact about the step."""
    return any(name.endswith("'") or name.startswith("step.") for name in variables(expr))


def is_shown(expr: Expr) -> bool:
    """Return True if the suite evaluates the formula: in each snapshot, or in each step.

    Formulas about a page, a row or a fact of a step are only proved. So are formulas about a state
    that read ``told`` or ``rounds``, because no snapshot shows them.
    """
    return not about(expr) and (of_step(expr) or not UNSHOWN & variables(expr))


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
