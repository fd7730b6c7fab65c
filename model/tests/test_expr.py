"""The expression tree: construction, errors, display and changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slotproof_model.spec.expr import (
    FALSE,
    TRUE,
    App,
    Const,
    Expr,
    Op,
    Sort,
    Var,
    ceil_page,
    conj,
    floor_page,
    iff,
    implies,
    is_aligned,
    ite,
    lift,
    maximum,
    minimum,
    same,
    show,
    substitute,
    variables,
    walk,
)

x, y = Var("x"), Var("y")
a, b = Var("a", Sort.BOOL), Var("b", Sort.BOOL)

SHOWN = {
    "x + y": x + y,
    "x + 1": x + 1,
    "1 + x": 1 + x,
    "x - 1": x - 1,
    "1 - x": 1 - x,
    "x - (y - 1)": x - (y - 1),
    "x - y - 1": x - y - 1,
    "x - (y + 1)": x - (y + 1),
    "x ≤ y": x <= y,
    "x < y": x < y,
    "y ≤ x": x >= y,
    "y < x": x > y,
    "2 ≤ x": x >= 2,
    "x = y": x == y,
    "x = 3": x == 3,
    "x ≠ y": x != y,
    "a ∧ b": a & b,
    "a ∨ b": a | b,
    "(a ∨ b) ∧ a": (a | b) & a,
    "a ∨ b ∧ a": a | (b & a),
    "¬a": ~a,
    "¬(a ∧ b)": ~(a & b),
    "¬a ∨ b": implies(a, b),
    "a = b": iff(a, b),
    "a = (x ≤ y)": iff(a, x <= y),
    "a ∧ true": a & True,
    "min(x, 0)": minimum(x, 0),
    "max(x, y) + 1": maximum(x, y) + 1,
    "⌈x + 1⌉": ceil_page(x + 1),
    "⌊x⌋ = x": is_aligned(x),
    "ite(a, x, 0)": ite(a, x, 0),
    "true": conj(),
    "a ∧ b ∧ a": conj(a, b, a),
}


@pytest.mark.parametrize("text", SHOWN)
def test_operators_build_the_formula_that_is_shown(text: str) -> None:
    assert show(SHOWN[text]) == text


def test_sorts_of_results() -> None:
    ints = [x + y, x - 1, minimum(x, y), ceil_page(x), floor_page(x), ite(a, x, y)]
    bools = [x == y, x <= y, x < y, a & b, a | b, ~a, ite(a, b, a), TRUE, FALSE]
    assert [expr.sort for expr in ints] == [Sort.INT] * len(ints)
    assert [expr.sort for expr in bools] == [Sort.BOOL] * len(bools)
    assert Const(1).sort is Sort.INT
    assert Const(True).sort is Sort.BOOL


@pytest.mark.parametrize(
    "build",
    [
        lambda: x + a,
        lambda: x & y,
        lambda: a <= b,
        lambda: ~x,
        lambda: x == a,
        lambda: x == True,  # noqa: E712  # a formula
        lambda: x & 1,
        lambda: minimum(x, a),
        lambda: ceil_page(a),
        lambda: ite(x, 1, 2),
        lambda: ite(a, 1, b),
    ],
)
def test_sorts_are_checked_when_a_formula_is_built(build: Callable[[], Expr]) -> None:
    with pytest.raises(TypeError, match="does not take"):
        build()


@pytest.mark.parametrize("value", ["1", None, 1.5, [x]])
def test_only_integers_and_booleans_are_literals(value: object) -> None:
    with pytest.raises(TypeError, match="is no expression, integer or boolean"):
        lift(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "use",
    [
        lambda: bool(x),
        lambda: x == y and a,
        lambda: not a,
        lambda: 0 <= x <= 1,
        lambda: 1 if a else 2,
        lambda: x in (y, x),
        lambda: min(x, y),
    ],
)
def test_a_formula_has_no_truth_value(use: Callable[[], object]) -> None:
    """Ordinary if, and, min on formulas would silently do the wrong thing."""
    with pytest.raises(TypeError, match="has no truth value"):
        use()


def test_the_base_class_has_no_sort() -> None:
    with pytest.raises(TypeError, match="has no sort"):
        _ = Expr().sort


def test_expressions_are_frozen_and_hashed_by_identity() -> None:
    assert len({x, Var("x")}) == 2
    with pytest.raises(AttributeError):
        x.name = "z"  # type: ignore[misc]  # that is what is tested


def test_walk_is_top_down_and_complete() -> None:
    formula = ite(a, x + 1, y) <= x
    names = [node.op if isinstance(node, App) else show(node) for node in walk(formula)]
    assert names == [Op.LE, Op.ITE, "a", Op.ADD, "x", "1", "y", "x"]
    assert variables(formula) == {"a", "x", "y"}


def test_substitute_replaces_all_at_once() -> None:
    swapped = substitute(x - y + ite(a, x, 0), {"x": y, "y": x})
    assert show(swapped) == "y - x + ite(a, y, 0)"
    assert substitute(x, {"y": x}) is x
    assert show(substitute(x + 1, {"x": lift(2)})) == "2 + 1"


def test_substitute_checks_sorts() -> None:
    with pytest.raises(TypeError, match="does not take"):
        substitute(x + 1, {"x": a})


def test_same_is_structural_equality() -> None:
    assert same(x + 1 <= y, Var("x") + 1 <= Var("y"))
    assert not same(x + 1, 1 + x)
    assert not same(x, y)
    assert not same(x, a)
    assert not same(Var("x"), Var("x", Sort.BOOL))
    assert not same(lift(1), lift(True))
    assert same(lift(1000), lift(1000))
    assert not same(minimum(x, y), maximum(x, y))
    assert not same(x, x + 0)
