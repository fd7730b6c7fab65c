"""The render reading: as few parentheses as the meaning allows, and the words of the field.

``test_tla`` checks the shapes against the tree, because TLA+ is written from the same shapes. Here
the text itself is read back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import Phase, given, settings, strategies as st

from slotproof_model.evaluation.evaluate import source
from slotproof_model.evaluation.layout import LAYOUT
from slotproof_model.spec.expr import (
    FALSE,
    Const,
    Expr,
    Sort,
    Var,
    ceil_page,
    conj,
    floor_page,
    iff,
    implies,
    is_aligned,
    ite,
    maximum,
    substitute,
    variables,
)
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.state import (
    CONFIG,
    FRAME,
    LINE,
    PAGE,
    STATE,
    config,
    req,
    slot,
    this_step,
)
from slotproof_model.spec.transitions import T_RESTORE, TRANSITIONS
from slotproof_model.text.idioms import KINDS, PHASES
from slotproof_model.text.lifecycle import lifecycles
from slotproof_model.text.named import named
from slotproof_model.text.render import WIDTH, block, formula, guard, moves, symbol, text
from slotproof_model.text.words import WORDS

x, y, z = Var("x"), Var("y"), Var("z")
a, b, c = (Var(name, Sort.BOOL) for name in "abc")

SHOWN: dict[str, Expr] = {
    "x + y − z": x + y - z,
    "x − (y + z)": x - (y + z),
    "x + y − z ": x + (y - z),
    "−x": 0 - x,
    "x ≥ 0": x >= 0,
    "0 ≤ x ≤ y < z": (x >= 0) & (x <= y) & (y < z),
    "0 ≤ x ≤ y ∧ P ∣ x": (x >= 0) & is_aligned(x) & (x <= y),
    "x = y = 0": (x == 0) & (y == 0),
    "x ≠ y": x != y,
    "y < x": ~(x <= y),
    "a ∧ b ⇒ c": implies(a & b, c),
    "(a ⇒ b) ⇒ c": implies(implies(a, b), c),
    "a ∨ (b ∧ c)": a | (b & c),
    "(a ∨ b) ∧ c": (a | b) & c,
    "¬(a ∧ b)": ~(a & b),
    "a ⇔ ¬b": iff(a, ~b),
    "⌈x⌉ − ⌊y⌋": ceil_page(x) - floor_page(y),
    "x = P": x == ceil_page(1),
    "max(x, if a then y else z)": maximum(x, ite(a, y, z)),
    "x ≤ (if a then y else 0)": x <= ite(a, y, 0),
    "y": ite(FALSE, x, y),
    "cut(y, x)": ite(y >= x, y, floor_page(y)),
    "req.phase = waiting": req.phase == 1,
    "req.row ≠ no_row": req.row != -1,
    "known ≤ W": req.prompt + req.output <= config.window,
    "private(slot) = 0": ceil_page(slot.A) - slot.Q == 0,
    "slot.lent ∧ slot.C = 0": conj(slot.lent, slot.C == 0),
}


@pytest.mark.parametrize("shown", SHOWN)
def test_text(shown: str) -> None:
    assert formula(SHOWN[shown]) == shown.strip()


# Read back ----------------------------------------------------------------------------

_WORDS = {name: number for words in (KINDS, PHASES) for number, name in words.items()}
_WORDS |= {"no_row": -1, "none": 0, "true": 1, "false": 0}
_TOKEN = re.compile(r"\s*([A-Za-z_][\w.]*(?:\((?:slot|req)\))?'?|\d+|[^\s\w])")
_LEVELS = (("⇔",), ("⇒",), ("∨",), ("∧",))
_COMPARE = ("≤", "<", "≥", ">", "=", "≠", "∣")


class Text:
    """A reader of formulas, by the rules of the page on state and words."""

    def __init__(self, formula: str, values: Mapping[str, Any], page_size: int) -> None:
        self.tokens = _TOKEN.findall(formula)
        self.at = 0
        self.values, self.page_size = values, page_size

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        token = self.peek()
        assert not wanted or token in wanted, (token, self.tokens)
        self.at += 1
        return token

    def all(self) -> Any:
        value = self.value(0)
        assert not self.peek(), self.tokens[self.at :]
        return value

    def value(self, level: int) -> Any:
        if self.peek() == "if":
            self.take("if")
            test = self.value(0)
            self.take("then")
            then = self.value(0)
            self.take("else")
            other = self.value(0)
            return then if test else other
        if level == len(_LEVELS):
            return self.comparison()
        value = self.value(level + 1)
        while self.peek() in _LEVELS[level]:
            sign = self.take()
            right = self.value(level if sign == "⇒" else level + 1)
            value = {
                "⇔": bool(value) == bool(right),
                "⇒": not value or right,
                "∨": value or right,
                "∧": value and right,
            }[sign]
        return value

    def comparison(self) -> Any:
        sides, signs = [self.sum()], []
        while self.peek() in _COMPARE:
            signs.append(self.take())
            sides.append(self.sum())
        if not signs:
            return sides[0]
        return all(
            {"≤": a <= b, "<": a < b, "≥": a >= b, ">": a > b, "=": a == b, "≠": a != b,
             "∣": sign == "∣" and b % a == 0}[sign]
            for a, sign, b in zip(sides, signs, sides[1:], strict=False)
        )  # fmt: skip

    def sum(self) -> Any:
        value = -self.atom() if self.peek() == "−" and self.take() else self.atom()
        while self.peek() in ("+", "−"):
            value = value + self.atom() if self.take() == "+" else value - self.atom()
        return value

    def atom(self) -> Any:
        token = self.take()
        if token == "¬":
            return not self.atom()
        if token in "(⌈⌊":
            value = self.value(0)
            self.take(*{"(": ")", "⌈": "⌉", "⌊": "⌋"}[token])
            if token == "(":
                return value
            low = value // self.page_size * self.page_size
            return low if token == "⌊" or low == value else low + self.page_size
        if token in ("min", "max", "cut"):
            self.take("(")
            first = self.value(0)
            self.take(",")
            second = self.value(0)
            self.take(")")
            if token == "cut":
                return first if second <= first else first // self.page_size * self.page_size
            return (min if token == "min" else max)(first, second)
        if token.isdigit():
            return int(token)
        if token == "P":
            return self.page_size
        return self.values[token] if token in self.values else _WORDS[token]


FORMULAS = {
    **{f"{i.id}.{n}": expr for i in INVARIANTS.values() for n, expr in i.conjuncts.items()},
    **{f"{t.id} {n}": expr for t in TRANSITIONS.values() for n, expr in t.full_guard.items()},
    **{f"{t.id} {n}'": expr for t in TRANSITIONS.values() for n, expr in t.effect.items()},
    **{term.name: term.expr for term in named()},
}
_PARAMS = sorted({var.name for transition in TRANSITIONS.values() for var in transition.params})
_BOOLEANS = {var.name for var in (*STATE, *CONFIG, *PAGE, *this_step) if var.sort is Sort.BOOL}


def _drawn(names: tuple[str, ...], data: bytes) -> dict[str, Any]:
    return {
        name: bool(byte % 2) if name in _BOOLEANS else byte % 11 - 1
        for name, byte in zip(names, data, strict=True)
    }


_PAGE = frozenset(var.name for var in (*PAGE, *LINE))


def over_pages(expr: Expr) -> bool:
    """Return True if the formula is about an arbitrary page."""
    return not _PAGE.isdisjoint(name.rstrip("'") for name in variables(expr))


_NAMES = (*LAYOUT, *_PARAMS, *sorted(_PAGE), *(var.name for var in this_step))


@settings(max_examples=25, derandomize=True, deadline=None, phases=[Phase.generate])
@given(
    st.binary(min_size=len(_NAMES), max_size=len(_NAMES)),
    st.binary(min_size=len(LAYOUT), max_size=len(LAYOUT)),
    st.sampled_from([1, 4]),
)
def test_every_formula_reads_back(now: bytes, later: bytes, page_size: int) -> None:
    """The text, read with its precedences, has the value computed by ``evaluate``."""
    before, after = _drawn(_NAMES, now), _drawn(LAYOUT, later)
    after |= {var.name: before[var.name] for var in CONFIG}
    v = [before[name] for name in LAYOUT]
    w = [after[name] for name in LAYOUT]
    p = {name.removeprefix("param."): before[name] for name in _PARAMS}
    values = {symbol(name): value for name, value in before.items()}
    values |= {symbol(name) + "'": value for name, value in after.items()}
    scope = {"v": v, "w": w, "p": p}
    # Evaluate has no pages and no step, so their variables get these values.
    of_page = {var.name: Const(before[var.name]) for var in (*PAGE, *LINE, *this_step)}
    for term in named():
        plain = source(substitute(term.expr, dict(of_page)), page_size)
        values[term.name] = eval(plain, dict(scope))
        values[term.name + "'"] = eval(plain, {"v": w, "p": p})
    for name, formula_ in FORMULAS.items():
        expr = substitute(formula_, dict(of_page))
        if over_pages(formula_) and any(name.endswith("'") for name in variables(formula_)):
            continue  # Across a step: no page afterwards.
        shown = formula(formula_, written_out=name in values)
        text = Text(shown, values, page_size).all()
        assert text == eval(source(expr, page_size), dict(scope)), f"{name}: {shown}"


# The spec's own ------------------------------------------------------------------------


def test_broken_lines_say_the_same() -> None:
    """Joined lines of a long formula are the formula, except for aligning parentheses."""
    for expr in FORMULAS.values():
        joined = re.sub(r"[\s()]", "", "".join(block(expr, 40)))
        assert joined == re.sub(r"[\s()]", "", formula(expr))


def test_transition_says_everything() -> None:
    """Every conjunct, move and variable of a transition is in its text, short enough to print."""
    for transition in TRANSITIONS.values():
        shown = text(transition)
        assert all(f"{symbol(name)}'" in shown for name in transition.effect)
        assert all(move.name in shown for move in moves(transition))
        assert len(guard(transition)) == len(transition.full_guard)
        assert max(map(len, shown.splitlines())) <= WIDTH + 8
    assert "where  end = cut(reusable, slot.E)" in text(T_RESTORE)


def test_every_variable_has_words() -> None:
    names = {var.name for var in (*STATE, *FRAME, *PAGE, *LINE, *CONFIG, *this_step)}
    assert set(WORDS) == names


def test_lives_name_every_transition() -> None:
    """Every transition is in a lifecycle, except the tree's and T-REJECT."""
    lives = lifecycles().values()
    parts = [ids for life in lives for ids in (*life.moves.values(), *life.stays.values())]
    seen = {id_ for ids in parts for id_ in ids}
    assert set(TRANSITIONS) - seen == {"T-EVICT", "T-REJECT"}
