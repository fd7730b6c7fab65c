"""Proof obligations as data: named obligations over the expression trees.

Every transition preserves all conjuncts of state invariants, and satisfies all step invariants. One
arbitrary page of each pool has exactly one owner, and only whole pages move. A transition writes
only the actor and the pools. The initial state satisfies every state invariant. The frame of all
other actors is arbitrary, so the induction step covers any number of sessions.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Literal

from slotproof_model.spec import lines, pages, state
from slotproof_model.spec.expr import (
    App,
    Expr,
    Op,
    Var,
    is_aligned,
    lift,
    substitute,
    variables,
    walk,
)
from slotproof_model.spec.invariant import Kind, about
from slotproof_model.spec.invariants import DERIVED, ENVIRONMENT
from slotproof_model.spec.transition import Transition, given
from slotproof_model.spec.whole import LAYERS, ROWS, Spec, conjuncts

INIT = "INIT"
Status = Literal["proved", "refuted", "unknown"]
Reason = Literal["inductive", "effect", "framing", "excluded"]
"""Reason for which an obligation holds.

``framing``: the step writes no variable of the clause. ``effect``: guard and effect suffice.
``inductive``: without the invariants of the state before, the obligation has a counterexample.
``excluded``: guard and effect make every premise of the clause false, so the obligation cannot
fail, and does not count as proved.
"""
_CONSTANTS = frozenset(var.name for var in state.CONFIG)
_WRITABLE = frozenset(var.name for var in state.STATE)


@dataclass(frozen=True)
class Goal:
    """One conjunct to prove after a transition. ``expr`` relates the values before and after."""

    clause: str
    expr: Expr


@dataclass(frozen=True)
class Task:
    """All goals of one transition on one layer, with their shared hypotheses."""

    transition: str
    layer: str
    """``counts``, ``allowed``, ``unlock``, ``detached``, ``frame``, the pool of the arbitrary page,
    or ``rows``."""
    hypotheses: dict[str, Expr]
    """Assumed formulas by name, about the state before the step and the parameters."""
    after: dict[str, Expr]
    """New values of the written variables."""
    goals: tuple[Goal, ...]
    detaches: bool = False
    """True if the transition detaches a request, which becomes another actor."""

    @property
    def name(self) -> str:
        return self.transition if self.layer == "counts" else f"{self.transition} [{self.layer}]"


@dataclass(frozen=True)
class Result:
    """Result of one obligation: ``T-RESTORE / INV-ONCE.never_both / P=16``."""

    transition: str
    clause: str
    page_size: int | None
    status: Status
    core: tuple[str, ...] = ()
    """Unsat core: hypotheses used by the proof, or only the clause if framing suffices."""
    model: dict[str, int] = field(default_factory=dict)
    """Counterexample of a refuted obligation: the state before the step, and the parameters."""
    seconds: float = 0.0
    reason: Reason | None = None
    """Reason for which the obligation holds. ``None`` if it fails, or if no reason was asked."""

    @property
    def name(self) -> str:
        return f"{self.transition} / {self.clause} / P={self.page_size or 'any'}"


def tasks(spec: Spec, only: str | None = None) -> Iterator[Task]:
    """Yield the tasks of the initial state, then every transition's tasks, counts before pages."""
    invariant = conjuncts(spec, Kind.STATE)
    if only in (None, INIT):
        yield from _initial(spec, invariant)
        yield _frame(spec)
    environment = {f"environment.{name}": expr for name, expr in ENVIRONMENT.items()}
    for transition in spec.transitions.values():
        if only not in (None, transition.id):
            continue
        guard = {f"guard.{name}": expr for name, expr in transition.full_guard.items()}
        after = transition.full_effect
        goals = [Goal(clause, primed(expr)) for clause, expr in invariant.items()]
        steps = conjuncts(spec, Kind.STEP).items()
        goals += [Goal(clause, substitute(expr, transition.this_step)) for clause, expr in steps]
        goals += [Goal(f"INV-ALIGN.{name}", expr) for name, expr in pages.whole(transition).items()]
        goals += _means(transition)
        known = {**invariant, **environment, **guard}
        detaches = transition.detaches is not None
        yield Task(transition.id, "counts", known, after, tuple(goals), detaches)
        yield _allowed(transition, {**invariant, **environment})
        if transition.allows.always:
            aligned = {"environment.aligned": DERIVED["aligned"]}  # costly where P is a symbol
            yield _exists(transition, {**invariant, **environment, **aligned})
        if detaches:
            yield _detached(spec, transition, guard)
        known = without_slack(known)
        for layer in LAYERS:
            layer_facts = conjuncts(spec, Kind.STATE, layer)
            rules, moved = spec.choices(transition, layer)
            goals = [Goal(clause, primed(expr)) for clause, expr in layer_facts.items()]
            goals += _means(transition, layer)
            chosen = {f"choice.{name}": expr for name, expr in rules.items()}
            assumed = {**known, **layer_facts, **chosen, **anywhere(layer)}
            yield Task(transition.id, layer, assumed, {**after, **moved}, tuple(goals))
            if layer != ROWS and rules:
                yield _choosable(transition, layer, {**known, **layer_facts, **anywhere(layer)})


def _choosable(transition: Transition, pool: str, hypotheses: dict[str, Expr]) -> Task:
    """Return the task: in every state, some choice about the page obeys the rules."""
    goals = (Goal(f"EXISTS.{n}", rule) for n, rule in pages.some_choice(transition, pool).items())
    return Task(transition.id, f"choices, {pool}", hypotheses, {}, tuple(goals))


def anywhere(layer: str) -> dict[str, Expr]:
    """Return the assumptions about the arbitrary page or row, and about its pool."""
    if layer == ROWS:
        return lines.ANYWHERE
    return {**pages.ANYWHERE, **({"environment.pool": state.config.swa} if layer == "swa" else {})}


def _means(transition: Transition, layer: str | None = None) -> list[Goal]:
    """Return the goals in ``means`` about ``layer``'s page, or without ``layer`` about no page."""
    return [
        Goal(f"MEANS.{name}", expr)
        for name, expr in transition.means.items()
        if (name == layer if about(expr) else layer is None)
    ]


def _allowed(transition: Transition, hypotheses: dict[str, Expr]) -> Task:
    """Return the task: where the allowance holds, every conjunct of the guard holds."""
    allowance = transition.allows
    values: dict[str, Expr] = {var.name: given(var) for var in transition.params}
    values |= {f"param.{name}": expr for name, expr in allowance.params.items()}
    goals = tuple(
        Goal(f"ALLOWS.{name}", substitute(expr, values))
        for name, expr in transition.full_guard.items()
    )
    assumed = {**hypotheses, "allowance.when": allowance.when}
    return Task(transition.id, "allowed", assumed, {}, goals)


def _exists(transition: Transition, hypotheses: dict[str, Expr]) -> Task:
    """Return the task: where all other guard conjuncts hold, the parameters have legal values."""
    values = {f"param.{name}": expr for name, expr in transition.allows.always.items()}
    open_ = {n: e for n, e in transition.full_guard.items() if variables(e) & values.keys()}
    rest = {f"guard.{n}": e for n, e in transition.full_guard.items() if n not in open_}
    goals = tuple(Goal(f"EXISTS.{name}", substitute(e, values)) for name, e in open_.items())
    return Task(transition.id, "unlock", {**hypotheses, **rest}, {}, goals)


def own_facts(spec: Spec, names: Iterable[str]) -> dict[str, Expr]:
    """Return the state conjuncts that use only the named variables and the configuration."""
    allowed = {*names, *_CONSTANTS}
    return {
        f"{invariant.id}.{name}": expr
        for invariant in spec.invariants.values()
        for name, expr in invariant.conjuncts.items()
        if invariant.kind is Kind.STATE and variables(expr) <= allowed
    }


def _frame(spec: Spec) -> Task:
    """Return the task: facts about the frame stay true when one more actor joins the frame.

    The facts hold initially. Hypotheses about the new actor involve no frame and no pool.
    """
    own = own_facts(spec, (var.name for var in state.ACTOR))
    known = {**ENVIRONMENT, **DERIVED}
    environment = {f"environment.{name}": expr for name, expr in known.items()}
    goals = [
        Goal(f"CONTRIBUTES.{name.partition('.')[2]}", share >= 0)
        for name, share in state.CONTRIBUTIONS.items()
    ]
    goals += [Goal(f"environment.{name}", primed(expr)) for name, expr in DERIVED.items()]
    return Task(INIT, "frame", {**own, **environment}, dict(state.ONE_MORE), tuple(goals))


def _detached(spec: Spec, transition: Transition, guard: dict[str, Expr]) -> Task:
    """Return the task: a detached request is an actor of its own, and satisfies the invariants.

    The request has no memory, so frame and pools do not change.
    """
    prompt = next(var for var in transition.params if var.name == "param.prompt")
    alone = state.alone(prompt)
    own = own_facts(spec, alone)
    width = {"environment.width": ENVIRONMENT["width"]}
    goals = tuple(Goal(clause, primed(expr)) for clause, expr in own.items())
    return Task(transition.id, "detached", {**guard, **width}, alone, goals)


def _initial(spec: Spec, invariant: Mapping[str, Expr]) -> Iterator[Task]:
    """Yield the initial state's tasks: for the counts, then for one arbitrary page or row."""
    sizes = {
        "totals": (state.full.total >= 0) & (state.swa.total >= 0) & (state.rows.total >= 0),
        "pages": is_aligned(state.full.total) & is_aligned(state.swa.total),
    }
    assumed = {n: e for n, e in {**ENVIRONMENT, **sizes}.items() if n not in DERIVED}
    hypotheses = {f"environment.{name}": expr for name, expr in assumed.items()}
    facts = {f"environment.{name}": expr for name, expr in DERIVED.items()}
    begins = {**invariant, **facts}
    goals = tuple(Goal(clause, primed(expr)) for clause, expr in begins.items())
    nothing = {**state.INITIAL, **{var.name: lift(0) for var in state.FRAME}}
    yield Task(INIT, "counts", hypotheses, nothing, goals)
    page = state.page
    where = {"choice.at": is_aligned(page.at) & (page.at >= 0)}
    for layer in LAYERS:
        layer_facts = conjuncts(spec, Kind.STATE, layer)
        goals = tuple(Goal(clause, primed(expr)) for clause, expr in layer_facts.items())
        after = {**nothing, **state.INITIAL_PAGE, **state.INITIAL_LINE}
        any_ = {**hypotheses, **pages.ANYWHERE, **lines.ANYWHERE, **where}
        yield Task(INIT, layer, any_, after, goals)


def without_slack(hypotheses: Mapping[str, Expr]) -> dict[str, Expr]:
    """Return the hypotheses that do not bound slack. No proof about one page or about another actor
    needs such a bound, and for a symbolic P some proofs would take minutes with it."""
    slack = state.config.slack.name
    return {name: expr for name, expr in hypotheses.items() if slack not in variables(expr)}


def primed(expr: Expr) -> Expr:
    """Return the formula about the state after the transition."""
    names = {node.name: node for node in walk(expr) if isinstance(node, Var)}
    return substitute(expr, {name: Var(name + "'", node.of) for name, node in names.items()})


def premise(expr: Expr) -> Expr | None:
    """Return the condition under which a premise of the clause holds. Return ``None`` if a part of
    the clause has no premise.

    The parts are implications, written as a disjunction whose first operand is a negation. If no
    premise holds, the clause is true for any conclusions.

    >>> from slotproof_model.spec.expr import implies, show
    >>> x, y = Var("x"), Var("y")
    >>> both = implies(x < 1, y == 0) & implies(x < 2, implies(y < 3, x == y))
    >>> show(premise(both)), premise(both & (x == 0))
    ('x < 1 ∨ x < 2 ∧ y < 3', None)
    """
    if not isinstance(expr, App):
        return None
    if expr.op is Op.AND:
        parts = [part for part in map(premise, expr.args) if part is not None]
        return reduce(operator.or_, parts) if len(parts) == len(expr.args) else None
    first = expr.args[0]
    if expr.op is not Op.OR or not isinstance(first, App) or first.op is not Op.NOT:
        return None
    assumed, (conclusion,) = first.args[0], expr.args[1:]
    inner = premise(conclusion)
    return assumed if inner is None else assumed & inner


def framing(spec: Spec) -> list[str]:
    """Return every write that a transition may not make. The list must be empty.

    An effect may write the actor's variables only. Only memory moves change the counts of pools and
    rows. Totals never change.
    """
    return [
        f"{transition.id} writes {name}"
        for transition in spec.transitions.values()
        for name in transition.full_effect
        if name not in _WRITABLE
        or name.endswith(".total")
        or (name in transition.effect and name.startswith(("full.", "swa.", "rows.")))
    ]
