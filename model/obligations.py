"""What there is to prove, as data: named obligations over the expression tree.

For each transition: every conjunct of every state invariant is preserved, every
step invariant holds across it, one arbitrary page of each pool keeps exactly
one owner, only whole pages move, and nothing but the actor and the pools is
written. For the initial state: every state invariant. The frame (all other
actors) is arbitrary throughout: that is the induction step for any number of
sessions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from slotproof.model import pages, state
from slotproof.model.expr import Expr, Var, is_aligned, lift, substitute, variables, walk
from slotproof.model.invariant import Invariant, Kind
from slotproof.model.invariants import ENVIRONMENT, INVARIANTS
from slotproof.model.transition import Transition, given
from slotproof.model.transitions import TRANSITIONS

INIT = "INIT"
POOLS = ("full", "swa")
Status = Literal["proved", "refuted", "unknown"]
_PAGE = frozenset(var.name for var in state.PAGE)
_CONSTANTS = frozenset(var.name for var in state.CONFIG)
_WRITABLE = frozenset(var.name for var in state.STATE)


@dataclass(frozen=True)
class Spec:
    """What is proved: the spec itself, or one with something wrong in it."""

    transitions: Mapping[str, Transition] = field(default_factory=lambda: TRANSITIONS)
    invariants: Mapping[str, Invariant] = field(default_factory=lambda: INVARIANTS)
    name: str = "spec"

    @property
    def rewritten(self) -> list[str]:
        """Transitions that are not the spec's."""
        return [name for name, each in self.transitions.items() if each is not TRANSITIONS[name]]

    @property
    def unproved(self) -> list[str]:
        """Transitions about which ``slotproof prove`` says nothing: those rewritten; all of
        them, where invariants are not the spec's."""
        return self.rewritten if self.invariants is INVARIANTS else list(self.transitions)


@dataclass(frozen=True)
class Goal:
    """One conjunct to prove after a transition. ``expr`` is over values before and after."""

    clause: str
    expr: Expr


@dataclass(frozen=True)
class Task:
    """Everything about one transition on one layer: the same hypotheses, many goals."""

    transition: str
    layer: str
    """``counts``, ``allowed``, ``detached``, or the pool whose arbitrary page is looked at."""
    hypotheses: dict[str, Expr]
    """Over the state before and the parameters, by name: invariants, guard, environment."""
    after: dict[str, Expr]
    """New values of what is written."""
    goals: tuple[Goal, ...]
    detaches: bool = False
    """A request goes on alone: an effect that is not in this actor's variables."""

    @property
    def name(self) -> str:
        return self.transition if self.layer == "counts" else f"{self.transition} [{self.layer}]"


@dataclass(frozen=True)
class Result:
    """What became of one obligation: ``T-RESTORE / INV-ONCE.never_both / P=16``."""

    transition: str
    clause: str
    page_size: int | None
    status: Status
    core: tuple[str, ...] = ()
    """Hypotheses that the proof used; the clause alone where framing suffices."""
    model: dict[str, int] = field(default_factory=dict)
    """Where it is refuted: a state before, and parameters."""
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.transition} / {self.clause} / P={self.page_size or 'any'}"


def conjuncts(spec: Spec, kind: Kind, over_pages: str | None = None) -> dict[str, Expr]:
    """Formulas of one kind by clause; with a pool, those about a page of it."""
    result: dict[str, Expr] = {}
    for invariant in spec.invariants.values():
        for name, expr in invariant.conjuncts.items():
            names = variables(expr)
            about_page = bool(names & _PAGE)
            steps = any(each.endswith("'") for each in names)
            if steps != (kind is Kind.STEP) or about_page != (over_pages is not None):
                continue
            if about_page and name in POOLS and name != over_pages:
                continue
            result[f"{invariant.id}.{name}"] = expr
    return result


def tasks(spec: Spec, only: str | None = None) -> Iterator[Task]:
    """The initial state, then every transition, counts before pages."""
    invariant = conjuncts(spec, Kind.STATE)
    if only in (None, INIT):
        yield from _initial(spec, invariant)
    environment = {f"environment.{name}": expr for name, expr in ENVIRONMENT.items()}
    for transition in spec.transitions.values():
        if only not in (None, transition.id):
            continue
        guard = {f"guard.{name}": expr for name, expr in transition.full_guard.items()}
        after = transition.full_effect
        goals = [Goal(clause, primed(expr)) for clause, expr in invariant.items()]
        goals += [Goal(c, expr) for c, expr in conjuncts(spec, Kind.STEP).items()]
        goals += [Goal(f"INV-ALIGN.{name}", expr) for name, expr in pages.whole(transition).items()]
        goals += _means(transition)
        yield Task(
            transition.id,
            "counts",
            {**invariant, **environment, **guard},
            after,
            tuple(goals),
            transition.detaches is not None,
        )
        yield _allowed(transition, {**invariant, **environment})
        if transition.detaches is not None:
            yield _detached(spec, transition, guard)
        for pool in POOLS:
            mine = conjuncts(spec, Kind.STATE, pool)
            legal, moved = pages.effect(transition, pool)
            choices = {f"choice.{name}": expr for name, expr in legal.items()}
            if pool == "swa":
                choices["environment.pool"] = state.config.swa
            yield Task(
                transition.id,
                pool,
                {**invariant, **environment, **guard, **mine, **choices},
                {**after, **moved},
                (
                    *(Goal(clause, primed(expr)) for clause, expr in mine.items()),
                    *_means(transition, pool),
                ),
            )


def _means(transition: Transition, over_pages: str | None = None) -> list[Goal]:
    """What its event says; with a pool, what it says of a page of it."""
    return [
        Goal(f"MEANS.{name}", expr)
        for name, expr in transition.means.items()
        if bool(variables(expr) & _PAGE) == (over_pages is not None) and over_pages in (None, name)
    ]


def _allowed(transition: Transition, hypotheses: dict[str, Expr]) -> Task:
    """Where the environment asks for it, every conjunct of the guard holds."""
    allowance = transition.allows
    values: dict[str, Expr] = {var.name: given(var) for var in transition.params}
    values |= {f"param.{name}": expr for name, expr in allowance.params.items()}
    goals = tuple(
        Goal(f"ALLOWS.{name}", substitute(expr, values))
        for name, expr in transition.full_guard.items()
    )
    return Task(
        transition.id, "allowed", {**hypotheses, "allowance.when": allowance.when}, {}, goals
    )


def _detached(spec: Spec, transition: Transition, guard: dict[str, Expr]) -> Task:
    """The request that goes on alone is an actor of its own: what it must be holds of it.

    It holds nothing yet, so of the frame and the pools nothing changes.
    """
    prompt = next(var for var in transition.params if var.name == "param.prompt")
    alone = state.alone(prompt)
    own = {
        f"{each.id}.{name}": expr
        for each in spec.invariants.values()
        for name, expr in each.conjuncts.items()
        if each.kind is Kind.STATE and variables(expr) <= {*alone, *_CONSTANTS}
    }
    width = {"environment.width": ENVIRONMENT["width"]}
    goals = tuple(Goal(clause, primed(expr)) for clause, expr in own.items())
    return Task(transition.id, "detached", {**guard, **width}, alone, goals)


def _initial(spec: Spec, invariant: Mapping[str, Expr]) -> Iterator[Task]:
    """The initial state, and one arbitrary page in it."""
    sizes = {
        "totals": (state.full.total >= 0) & (state.swa.total >= 0) & (state.rows.total >= 0),
        "pages": is_aligned(state.full.total) & is_aligned(state.swa.total),
    }
    hypotheses = {f"environment.{name}": expr for name, expr in {**ENVIRONMENT, **sizes}.items()}
    goals = tuple(Goal(clause, primed(expr)) for clause, expr in invariant.items())
    nothing = {**state.INITIAL, **{var.name: lift(0) for var in state.FRAME}}
    yield Task(INIT, "counts", hypotheses, nothing, goals)
    page = state.page
    anywhere = {"choice.at": is_aligned(page.at) & (page.at >= 0)}
    for pool in POOLS:
        mine = conjuncts(spec, Kind.STATE, pool)
        goals = tuple(Goal(clause, primed(expr)) for clause, expr in mine.items())
        after = {**nothing, **state.INITIAL_PAGE}
        yield Task(INIT, pool, {**hypotheses, **anywhere}, after, goals)


def primed(expr: Expr) -> Expr:
    """The formula about the state after the transition."""
    names = {node.name: node for node in walk(expr) if isinstance(node, Var)}
    return substitute(expr, {name: Var(name + "'", node.of) for name, node in names.items()})


def framing(spec: Spec) -> list[str]:
    """Transitions that write what is not theirs: must be empty. Checked on the tree itself.

    Only the actor's variables are an effect's to write; figures of pools and rows change
    by memory moves alone, and totals never.
    """
    return [
        f"{transition.id} writes {name}"
        for transition in spec.transitions.values()
        for name in transition.full_effect
        if name not in _WRITABLE
        or name.endswith(".total")
        or (name in transition.effect and name.startswith(("full.", "swa.", "rows.")))
    ]
