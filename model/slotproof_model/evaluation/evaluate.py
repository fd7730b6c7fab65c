"""The evaluate reading: the spec compiled to Python functions on integers, once per page size.

A state is a vector ``v`` (see ``layout``). Parameters are a dictionary ``p``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import CodeType
from typing import Any

from slotproof_model.evaluation.layout import INDEX, Vector
from slotproof_model.spec import state
from slotproof_model.spec.expr import App, Const, Expr, Op, Var, variables
from slotproof_model.spec.invariant import Kind, is_shown
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec, conjuncts

Params = Mapping[str, int]


@lru_cache(1 << 16)
def source(expr: Expr, page_size: int) -> str:
    """Return the expression as Python source that reads the variables ``v`` and ``p``.

    >>> source(state.private(state.slot), 4) == (
    ...     f"(-(-v[{INDEX['slot.A']}] // 4) * 4 - v[{INDEX['slot.Q']}])")
    True
    """
    if isinstance(expr, Const):
        return str(expr.value)
    if isinstance(expr, Var):
        if expr.name.startswith("param."):
            return f"p[{expr.name.removeprefix('param.')!r}]"
        if expr.name.endswith("'"):
            return f"w[{INDEX[expr.name[:-1]]}]"
        return f"v[{INDEX[expr.name]}]"
    assert isinstance(expr, App)
    args = [source(arg, page_size) for arg in expr.args]
    return _template(expr.op, page_size).format(*args)


def _template(op: Op, page_size: int) -> str:
    if op in (Op.CEIL, Op.FLOOR) and page_size == 1:
        return "{0}"
    return {
        Op.ADD: "({0} + {1})", Op.SUB: "({0} - {1})",
        Op.MIN: "min({0}, {1})", Op.MAX: "max({0}, {1})",
        Op.CEIL: f"-(-{{0}} // {page_size}) * {page_size}",
        Op.FLOOR: f"({{0}} // {page_size} * {page_size})",
        Op.ITE: "({1} if {0} else {2})",
        Op.EQ: "({0} == {1})", Op.LE: "({0} <= {1})", Op.LT: "({0} < {1})",
        Op.AND: "({0} and {1})", Op.OR: "({0} or {1})", Op.NOT: "(not {0})",
    }[op]  # fmt: skip


def _define(name: str, args: str, lines: Iterable[str]) -> Callable[..., Any]:
    text = f"def {name}({args}):\n" + "".join(f"    {line}\n" for line in lines)
    code: CodeType = compile(text, f"<slotproof {name}>", "exec")
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102  # source written by source() from our own tree
    function: Callable[..., Any] = names[name]
    return function


def compiled(expr: Expr, page_size: int, args: str = "v, p") -> Callable[..., int]:
    """Compile one formula. ``args`` is ``v, w`` for a formula over the states before and after.

    >>> compiled(state.has_kv, 1)([0] * len(INDEX), {})
    False
    """
    return _define("value", args, [f"return {source(expr, page_size)}"])


@dataclass(frozen=True)
class Step:
    """A transition, compiled for one page size."""

    transition: Transition
    blocked: Callable[[Vector, Params], str | None]
    """Function that returns the name of the first guard conjunct that fails, or ``None``."""
    apply: Callable[[Vector, Params], None]
    """Function that performs the effect on the vector in place, whether or not the guard holds."""


@cache
def steps(page_size: int) -> dict[str, Step]:
    """Return every transition by ID, compiled.

    >>> empty = [0] * len(INDEX)
    >>> steps(4)["T-RESTORE"].blocked(empty, {})
    'turn'
    >>> steps(4)["T-OPEN"].apply(empty, {})
    >>> empty[INDEX["session.open"]]
    1
    """
    return {id_: compile_step(transition, page_size) for id_, transition in TRANSITIONS.items()}


def compile_step(transition: Transition, page_size: int, like: Step | None = None) -> Step:
    """Compile guard and effect of any transition, including mutants.

    ``like``: a compiled transition whose functions are reused for an identical guard or effect.

    >>> compile_step(TRANSITIONS["T-OPEN"], 1).blocked([0] * len(INDEX), {})
    """
    same_memory = like is not None and transition.memory is like.transition.memory
    if like is not None and same_memory and transition.guard is like.transition.guard:
        blocked = like.blocked
    else:
        guard = [
            f"if not {source(expr, page_size)}: return {name!r}"
            for name, expr in transition.full_guard.items()
        ]
        blocked = _define("blocked", "v, p", [*guard, "return None"])
    if like is not None and same_memory and transition.effect is like.transition.effect:
        return Step(transition, blocked, like.apply)
    effect = transition.full_effect
    targets = ", ".join(f"v[{INDEX[name]}]" for name in effect)
    values = ", ".join(source(expr, page_size) for expr in effect.values())
    body = [f"{targets}, = {values},"] if effect else ["pass"]
    return Step(transition, blocked, _define("apply", "v, p", body))


StateCheck = Callable[[Vector], list[tuple[str, str]]]
StepCheck = Callable[[Vector, Vector], list[tuple[str, str]]]


def _check(kind: Kind, args: str, page_size: int) -> Callable[..., Any]:
    lines = [
        f"if not {source(expr, page_size)}: bad.append({tuple(clause.split('.'))!r})"
        for clause, expr in conjuncts(Spec(), kind).items()
        if is_shown(expr)  # The guards say the same about an event's parameters.
    ]
    return _define("check", args, ["bad = []", *lines, "return bad"])


@cache
def state_check(page_size: int) -> StateCheck:
    """Return a function that returns (invariant, conjunct) for every failed state conjunct.

    Conjuncts over an arbitrary page are left to the page oracle, which looks at all pages.

    >>> state = [0] * len(INDEX)
    >>> state[INDEX["full.available"]] = 1  # of a pool of none
    >>> ("INV-SUM-FULL", "equation") in state_check(1)(state)
    True
    """
    return _check(Kind.STATE, "v", page_size)


@cache
def step_check(page_size: int) -> StepCheck:
    """Return a function that checks all step conjuncts on the states before (v) and after (w).

    >>> before, after = [0] * len(INDEX), [0] * len(INDEX)
    >>> before[INDEX["session.open"]] = after[INDEX["session.open"]] = 1
    >>> after[INDEX["session.history"]] = 5  # and no turn finished
    >>> ("INV-HISTORY", "only_at_finish") in step_check(1)(before, after)
    True
    """
    return _check(Kind.STEP, "v, w", page_size)


@cache
def contributions(page_size: int) -> Callable[[Vector], tuple[int, ...]]:
    """Return a function that computes an actor's contributions to other actors' frames."""
    values = ", ".join(source(expr, page_size) for expr in state.CONTRIBUTIONS.values())
    return _define("contributions", "v", [f"return ({values})"])


@dataclass(frozen=True)
class Outcomes:
    """Guard conjuncts without parameters, to count which outcomes (true, false) were seen."""

    names: tuple[tuple[str, str], ...]
    evaluate: Callable[[Vector], int]
    """Function that returns an integer with bit i set where conjunct i of ``names`` holds."""


@cache
def outcomes(page_size: int) -> Outcomes:
    """Return all guard conjuncts without parameters, compiled to one function."""
    names: list[tuple[str, str]] = []
    terms: Counter[str] = Counter()  # Bits per term, because many transitions share a conjunct.
    for transition in TRANSITIONS.values():
        for name, expr in transition.full_guard.items():
            if not any(var.startswith("param.") for var in variables(expr)):
                terms[source(expr, page_size)] += 1 << len(names)
                names.append((transition.id, name))
    bits = " | ".join(f"({bits} if {text} else 0)" for text, bits in terms.items())
    return Outcomes(tuple(names), _define("evaluate", "v", [f"return {bits}"]))
