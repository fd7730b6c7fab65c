"""Actors at rest: when one actor moves, the invariants of every other actor still hold.

An induction step looks at one actor, the *mover*, and sums up all others in the mover's frame. The
frame of an actor at rest includes the mover, and the mover's step changes the pools. The proof
therefore has two actors and an arbitrary frame of all further actors. ``state.ONE_MORE`` adds the
mover to the frame of the actor at rest. The environment's facts about the frame are goals too, so
that later states need not assume them.

A second proof is about one arbitrary page or row (``[others, full]``). In this proof, the actor at
rest counts the mover's pages and locks among other actors' pages and locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

import z3

from slotproof_model.proofs.obligations import Result, Status, anywhere, without_slack
from slotproof_model.proofs.symbolic import Symbols, Term, aligned_variables
from slotproof_model.spec import pages, state
from slotproof_model.spec.expr import Expr, Var, ite, variables
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.invariants import ENVIRONMENT
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.whole import LAYERS, ROWS, Spec, conjuncts

_FRAME = frozenset(var.name for var in state.FRAME)
_SHARED = (*state.POOLS, *state.CONFIG)
_page, _line = state.page, state.line
_SEEN_BY_ALL = {
    "page": (_page.free, _page.tree, _page.beside, _page.number),
    "line": (_line.number, _line.free),
}
"""Variables of a page or row that have the same value in every actor's view."""
_OWN = {"page": (_page.own, _page.here, _page.at, _page.pin, _page.place, _page.entry), "line": ()}
_REST: dict[str, dict[str, Expr]] = {
    "page": {
        _page.rest.name: _page.rest + _page.own,
        _page.pins.name: _page.pins + ite(_page.pin, 1, 0),
    },
    "line": {_line.rest.name: _line.rest + state.owns_row},
}
"""Other actors' share of a page or row, after one more actor is added to them."""
_REST_OF = {"page": (_page.rest, _page.pins), "line": (_line.rest,)}


class Reading(Protocol):
    """Builder of Z3 terms (``symbolic.Symbols``), or of text (``smtlib.Text``)."""

    def var(self, var: Var, whose: str = "") -> Term: ...
    def integer(self, name: str) -> Term: ...
    def term(self, expr: Expr, values: Mapping[str, Term]) -> Term: ...


R = TypeVar("R", bound=Reading)


@dataclass(frozen=True)
class Look:
    """Goals after the step, and the values seen by the actor at rest."""

    goals: dict[str, Expr]
    seen: dict[str, Term]
    moved: frozenset[str]
    """Variables whose values may have changed for the actor at rest."""
    assumed: dict[str, Term] = field(default_factory=dict)
    """Assumptions by name, in addition to those about counts."""


class Pair(Generic[R]):
    """The mover, an actor at rest, and the frame of both, before and after the step.

    ``read`` builds a reading from the names of all variables that are multiples of P.
    """

    def __init__(
        self, spec: Spec, transition: Transition, read: Callable[[frozenset[str]], R]
    ) -> None:
        self.spec, self.transition = spec, transition
        self.invariants = {
            **conjuncts(spec, Kind.STATE),
            **{f"environment.{name}": expr for name, expr in ENVIRONMENT.items()},
        }
        # A guard about the mover's counts says nothing about the other actor's counts.
        chosen = aligned_variables(transition.full_guard.values())
        chosen &= {var.name for var in transition.params}
        multiples = aligned_variables(self.invariants.values()) | chosen
        self.symbols = read(multiples)
        self.assumed: dict[str, Term] = {}
        """Facts before the step, by name."""
        shared = {var.name: self.symbols.var(var, "all") for var in _SHARED}
        mover = {**shared, **self._of("mover")}
        other = {**shared, **self._of("other")}
        rest = {var.name: self.symbols.integer(f"{var.name}.rest") for var in state.FRAME}
        params = {var.name: self.symbols.var(var) for var in transition.params}
        self.before = {**mover, **self._one_more(rest, other), **params}
        self.other = {**other, **self._one_more(rest, mover)}
        guard = without_slack(
            {f"guard.{name}": expr for name, expr in transition.full_guard.items()}
        )
        self.assumed |= self.terms(guard, self.before)
        for whose, seen in (("mover", self.before), ("other", self.other)):
            terms = self.terms(self.invariants, seen)
            self.assumed |= {f"{name} ({whose})": term for name, term in terms.items()}
        alone = {name: ENVIRONMENT[name] for name in ("frame", "locks")}
        terms = self.terms(alone, {**shared, **rest})
        self.assumed |= {f"environment.{name} (rest)": term for name, term in terms.items()}
        effect = self.terms(transition.full_effect, self.before)
        self.after = {**self.before, **effect}
        pools = {var.name: self.after[var.name] for var in state.POOLS}
        self.seen = {**other, **pools, **self._one_more(rest, self.after)}

    def _of(self, whose: str) -> dict[str, Term]:
        return {var.name: self.symbols.var(var, whose) for var in state.ACTOR}

    def terms(self, formulas: Mapping[str, Expr], values: Mapping[str, Term]) -> dict[str, Term]:
        return {name: self.symbols.term(expr, values) for name, expr in formulas.items()}

    def _one_more(self, rest: Mapping[str, Term], of: Mapping[str, Term]) -> dict[str, Term]:
        """Return the frame ``rest`` with the actor ``of`` added."""
        return self.terms(state.ONE_MORE, {**of, **rest})

    def layer(self, layer: str) -> Look:
        """Return goals and values for one arbitrary page or row, as both actors see it."""
        what = "line" if layer == ROWS else "page"
        goals = conjuncts(self.spec, Kind.STATE, layer)
        rules, moved = self.spec.choices(self.transition, layer)
        shared = {var.name: self.symbols.var(var, "all") for var in _SEEN_BY_ALL[what]}
        own = {
            whose: {var.name: self.symbols.var(var, whose) for var in _OWN[what]}
            for whose in ("mover", "other")
        }
        rest = {var.name: self.symbols.integer(f"{var.name}.rest") for var in _REST_OF[what]}
        choices = {var.name: self.symbols.var(var) for var in pages.CHOICES}
        values = {whose: {**shared, **variables_of} for whose, variables_of in own.items()}
        actors = {"mover": self.before, "other": self.other}
        both = {
            whose: {
                **actors[whose],
                **values[whose],
                **self.terms(_REST[what], {**rest, **actors[by], **values[by]}),
            }
            for whose, by in (("mover", "other"), ("other", "mover"))
        }
        mover = {**both["mover"], **choices}
        natural = {f"{var.name} (rest)": var >= 0 for var in _REST_OF[what]}
        kept = {f"choice.{name}": expr for name, expr in rules.items()}
        assumed = {**self.terms(kept, mover), **self.terms(natural, rest)}
        for whose, seen in both.items():
            terms = self.terms({**goals, **anywhere(layer)}, seen)
            assumed |= {f"{name} ({whose})": term for name, term in terms.items()}
        new = self.terms(moved, mover)
        then = {**mover, **self.after, **new}
        seen = {
            **self.seen,
            **values["other"],
            **{var.name: then[var.name] for var in _SEEN_BY_ALL[what]},
            **self.terms(_REST[what], {**then, **rest}),
        }
        return Look(goals, seen, frozenset((*moved, *_REST[what])), assumed)


def results(spec: Spec, transition: Transition, page_size: int | None) -> Iterator[Result]:
    """Yield one result per conjunct and per fact of the environment, all about an actor at rest.

    Check all conjuncts together first, because nearly all hold.
    """
    pair = Pair(spec, transition, lambda names: Symbols(page_size, z3.Context(), names))
    solver = pair.symbols.solver()
    solver.add(*pair.assumed.values())
    for name, look in looks(pair):
        yield from _judged(pair, solver, name, look, page_size)


def looks(pair: Pair[R]) -> Iterator[tuple[str, Look]]:
    """Yield (name, look) for the counts, then for each layer."""
    id_ = pair.transition.id
    figures = {var.name for var in state.POOLS}
    moved = frozenset(pair.transition.full_effect) & figures | _FRAME
    yield f"{id_} [others]", Look(pair.invariants, pair.seen, moved)
    for layer in LAYERS:
        look = pair.layer(layer)
        yield f"{id_} [others, {layer}]", replace(look, moved=look.moved | moved)


def touched(look: Look) -> dict[str, Expr]:
    """Return the goals with a changed variable. All unchanged goals were assumed, and stay true."""
    return {c: e for c, e in look.goals.items() if variables(e) & look.moved}


def _alone(pair: Pair[Symbols], assumed: list[z3.BoolRef]) -> z3.CheckSatResult:
    """Check the assumptions with a fresh solver, because a used solver may not find a model."""
    solver = pair.symbols.solver()
    solver.add(*pair.assumed.values(), *assumed)
    pair.symbols.settle(solver)
    return solver.check()


def _judged(
    pair: Pair[Symbols], solver: z3.Solver, name: str, look: Look, page_size: int | None
) -> Iterator[Result]:
    terms = pair.terms(touched(look), look.seen)
    pair.symbols.settle(solver)
    assumed = list(look.assumed.values())
    if solver.check(*assumed) != z3.sat and _alone(pair, assumed) != z3.sat:
        yield Result(name, "possible", page_size, "unknown")
        return
    framed = (clause for clause in look.goals if clause not in terms)
    yield from (Result(name, clause, page_size, "proved", (clause,)) for clause in framed)
    if not terms:
        return
    if solver.check(*assumed, z3.Not(z3.And(*terms.values()))) == z3.unsat:
        yield from (Result(name, clause, page_size, "proved") for clause in terms)
        return
    for clause, term in terms.items():
        answer = solver.check(*assumed, z3.Not(term))
        status: Status = "refuted" if answer == z3.sat else "unknown"
        yield Result(name, clause, page_size, "proved" if answer == z3.unsat else status)
