"""The evaluate reading agrees with a deliberately simple interpreter of the tree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from slotproof_model.evaluation.evaluate import (
    _define,
    compile_step,
    contributions,
    outcomes,
    source,
    state_check,
    step_check,
    steps,
)
from slotproof_model.evaluation.layout import INDEX, LAYOUT
from slotproof_model.spec import state
from slotproof_model.spec.expr import (
    App,
    Const,
    Expr,
    Op,
    Sort,
    Var,
    ceil_page,
    floor_page,
    ite,
    maximum,
    minimum,
)
from slotproof_model.spec.invariant import Kind, is_shown
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS

PAGES = (1, 4, 16)
BOOLEANS = {var.name for var in (*state.STATE, *state.CONFIG) if var.sort is Sort.BOOL}
Env = dict[str, int]


def value(expr: Expr, env: Env, page: int) -> int:
    """Return the meaning of the expression, one operator at a time."""
    if isinstance(expr, Const):
        return int(expr.value)
    if isinstance(expr, Var):
        return env[expr.name]
    assert isinstance(expr, App)
    args = [value(arg, env, page) for arg in expr.args]
    match expr.op:
        case Op.ADD:
            return args[0] + args[1]
        case Op.SUB:
            return args[0] - args[1]
        case Op.MIN:
            return min(args[1], args[0])
        case Op.MAX:
            return max(args[1], args[0])
        case Op.CEIL:
            return next(n for n in range(args[0], args[0] + page) if n % page == 0)
        case Op.FLOOR:
            return next(n for n in range(args[0], args[0] - page, -1) if n % page == 0)
        case Op.ITE:
            return args[1] if args[0] else args[2]
        case Op.EQ:
            return int(args[0] == args[1])
        case Op.LE:
            return int(args[0] <= args[1])
        case Op.LT:
            return int(args[0] < args[1])
        case Op.AND:
            return int(args[0] == 1 and args[1] == 1)
        case Op.OR:
            return int(args[0] == 1 or args[1] == 1)
        case Op.NOT:
            return 1 - args[0]


def entry(name: str) -> st.SearchStrategy[int]:
    if name in BOOLEANS:
        return st.integers(0, 1)
    if name.endswith(".row"):
        return st.integers(-1, 2)
    if name == "req.kind":
        return st.integers(0, 2)
    if name == "req.phase":
        return st.integers(0, 4)
    if name.startswith("frame"):
        return st.integers(0, 40)
    return st.one_of(st.integers(-3, 40), st.sampled_from([0, 4, 8, 16, 32]))


vectors = st.tuples(*map(entry, LAYOUT)).map(list)
numbers = st.one_of(st.integers(-2, 40), st.sampled_from([0, 1, 4, 8, 16, 32]))


def environment(vector: list[int], params: dict[str, int]) -> Env:
    env = dict(zip(LAYOUT, vector, strict=True))
    return env | {f"param.{name}": number for name, number in params.items()}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("id_", TRANSITIONS)
def test_guards_and_effects_mean_what_they_say(id_: str, page: int) -> None:
    """Conjuncts alone, the guard as a whole, and the effect agree, for every transition and every
    P."""
    transition, step = TRANSITIONS[id_], steps(page)[id_]
    names = transition.names
    alone = {
        name: compile_step(Transition(id_, "", "time", "run", {name: expr}), page)
        for name, expr in transition.full_guard.items()
    }

    @settings(max_examples=25, deadline=None, database=None, derandomize=True)
    @given(vectors, st.fixed_dictionaries(dict.fromkeys(names, numbers)))
    def check(vector: list[int], params: dict[str, int]) -> None:
        env = environment(vector, params)
        fails = [name for name, expr in transition.full_guard.items() if not value(expr, env, page)]
        for name, conjunct in alone.items():
            assert (conjunct.blocked(vector, params) == name) == (name in fails), name
        assert step.blocked(vector, params) == (fails[0] if fails else None)
        expected = env | {
            name: value(expr, env, page) for name, expr in transition.full_effect.items()
        }
        got = vector.copy()
        step.apply(got, params)
        assert environment(got, params) == expected

    check()


def _conjuncts(kind: Kind) -> dict[tuple[str, str], Expr]:
    """Return the conjuncts of state_check or step_check, without those that are only proved."""
    result = {}
    for invariant in INVARIANTS.values():
        for name, expr in invariant.conjuncts.items():
            if is_shown(expr) and invariant.kind is kind:
                result[invariant.id, name] = expr
    return result


@pytest.mark.parametrize("page", PAGES)
def test_invariants_mean_what_they_say(page: int) -> None:
    """state_check and step_check name exactly the failed conjuncts."""
    of_state, of_step = _conjuncts(Kind.STATE), _conjuncts(Kind.STEP)
    assert of_state and of_step

    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(vectors, vectors)
    def check(before: list[int], after: list[int]) -> None:
        env = environment(before, {})
        bad = [label for label, expr in of_state.items() if not value(expr, env, page)]
        assert state_check(page)(before) == bad
        both = env | {f"{name}'": number for name, number in environment(after, {}).items()}
        bad = [label for label, expr in of_step.items() if not value(expr, both, page)]
        assert step_check(page)(before, after) == bad
        shares = tuple(value(expr, env, page) for expr in state.CONTRIBUTIONS.values())
        assert contributions(page)(before) == shares
        table = outcomes(page)
        guards = [TRANSITIONS[id_].full_guard[name] for id_, name in table.names]
        bits = sum(value(expr, env, page) << bit for bit, expr in enumerate(guards))
        assert table.evaluate(before) == bits

    check()


@st.composite
def terms(draw: st.DrawFn, depth: int = 4) -> Expr:
    """Draw integer terms over two variables, of any shape."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from([Var("full.total"), Var("slot.A"), Const(3), Const(-5)]))
    first = draw(terms(depth - 1))
    match draw(st.integers(0, 6)):
        case 0:
            return ceil_page(first)
        case 1:
            return floor_page(first)
        case 2:
            return first + draw(terms(depth - 1))
        case 3:
            return first - draw(terms(depth - 1))
        case 4:
            return minimum(first, draw(terms(depth - 1)))
        case 5:
            return maximum(first, draw(terms(depth - 1)))
        case _:
            return ite(~(first <= 4) | (first == 2), draw(terms(depth - 1)), first)


@pytest.mark.parametrize("page", PAGES)
def test_source_of_any_term_is_right(page: int) -> None:
    """Brackets: an operator inside another operator preserves its meaning, also ⌈⌊x⌋⌉."""

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(terms(), st.integers(-40, 40), st.integers(-40, 40))
    def check(term: Expr, first: int, second: int) -> None:
        function = _define("term", "v", [f"return {source(term, page)}"])
        vector = [0] * len(LAYOUT)
        vector[INDEX["full.total"]], vector[INDEX["slot.A"]] = first, second
        env: dict[str, Any] = {"full.total": first, "slot.A": second}
        assert function(vector) == value(term, env, page)

    check()


def test_effects_are_simultaneous() -> None:
    """T-RETRACT moves the turn's KV to the slot and clears the turn: old values count."""
    vector = [0] * len(LAYOUT)
    for name, number in (
        ("req.prompt", 5),
        ("req.C", 5),
        ("req.A", 7),
        ("req.Q", 2),
        ("req.row", 1),
    ):
        vector[INDEX[name]] = number
    steps(1)["T-RETRACT"].apply(vector, {})
    assert [vector[INDEX[f"slot.{name}"]] for name in ("row", "C", "A", "Q")] == [1, 5, 7, 2]
    assert [vector[INDEX[f"req.{name}"]] for name in ("row", "C", "A", "Q")] == [-1, 0, 0, 0]


def test_compiled_once() -> None:
    assert steps(4) is steps(4)
    assert state_check(4) is state_check(4)
