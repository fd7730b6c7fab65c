"""The TLA+ module matches the spec: read back by a TLA+ parser and evaluated.

The reader below knows TLA+ and nothing of the expression tree. Every guard conjunct, every new
value and every invariant of figures must agree with ``evaluate`` on random states. A module with an
error must not agree. TLC explores the parts about named pages.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import CodeType
from typing import Any

import pytest
import tree_sitter_tlaplus
from hypothesis import Phase, given, settings, strategies as st
from tree_sitter import Language, Node, Parser

from slotproof_model.evaluation.evaluate import source, steps
from slotproof_model.evaluation.layout import EMPTY_ACTOR, LAYOUT, alone
from slotproof_model.exports import tla
from slotproof_model.exports.tla_formula import identifier
from slotproof_model.spec import places, state
from slotproof_model.spec.expr import Expr, Sort, lift, substitute
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.transitions import TRANSITIONS

Value = Any  # an integer, a boolean or a record
Values = Mapping[str, Any]
SIZES = (1, 4)
FAST: Any = {"derandomize": True, "deadline": None, "database": None, "phases": [Phase.generate]}

_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "plus": lambda a, b: a + b,
    "minus": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b,
    "eq": lambda a, b: a == b,
    "neq": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "leq": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "geq": lambda a, b: a >= b,
    "land": lambda a, b: a and b,
    "lor": lambda a, b: a or b,
    "implies": lambda a, b: not a or b,
    "iff": lambda a, b: a == b,
}


def _text(node: Node) -> str:
    assert node.text is not None
    return str(node.text, "utf-8")


def _named(node: Node) -> list[Node]:
    return [child for child in node.named_children if "comment" not in child.type]


class Reader:
    """The fragment of TLA+ used by the module."""

    def __init__(self, text: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the grammar's binding
            language = Language(tree_sitter_tlaplus.language())
        root = Parser(language).parse(text.encode()).root_node
        assert not root.has_error, "not TLA+"
        module = next(child for child in root.children if child.type == "module")
        self.operators: dict[str, tuple[list[str], Node]] = {}
        self.definitions: dict[str, Node] = {}
        for node in module.children:
            if node.type == "operator_definition":
                name = node.child_by_field_name("name")
                body = node.child_by_field_name("definition")
                assert name and body
                params = [_text(child) for child in node.children_by_field_name("parameter")
                          if child.type == "identifier"]  # fmt: skip
                self.operators[_text(name)] = (params, body)
                self.definitions[_text(name)] = node

    def value(self, node: Node, now: Values) -> Value:
        """Return the value of an expression, with records and numbers by name."""

        def of(child: Node | None) -> Value:
            assert child is not None
            return self.value(child, now)

        match node.type:
            case "nat_number":
                return int(_text(node))
            case "boolean":
                return _text(node) == "TRUE"
            case "identifier_ref":
                name = _text(node)
                return now[name] if name in now else self.call(name, [], now)
            case "bound_op":
                operator_name, *args = _named(node)
                return self.call(_text(operator_name), [of(arg) for arg in args], now)
            case "bound_infix_op":
                symbol = node.child_by_field_name("symbol")
                assert symbol
                operator = _BINARY[symbol.type]
                left, right = node.child_by_field_name("lhs"), node.child_by_field_name("rhs")
                return operator(of(left), of(right))
            case "bound_prefix_op":
                symbol, inner = node.child_by_field_name("symbol"), node.child_by_field_name("rhs")
                assert symbol and symbol.type in ("lnot", "negative")
                return not of(inner) if symbol.type == "lnot" else -of(inner)
            case "record_value":
                whole, field = _named(node)
                return of(whole)[_text(field)]
            case "record_literal":
                parts = [part for part in _named(node) if part.type != "all_map_to"]
                return {_text(k): of(v) for k, v in zip(parts[::2], parts[1::2], strict=True)}
            case "except":
                record = dict(of(node.child_by_field_name("expr_to_update")))
                for update in (part for part in _named(node) if part.type == "except_update"):
                    specifier, new = _named(update)[0], update.child_by_field_name("new_val")
                    record[_text(specifier).removeprefix(".")] = of(new)
                return record
            case "if_then_else":
                test = of(node.child_by_field_name("if"))
                return of(node.child_by_field_name("then" if test else "else"))
            case "conj_list":
                return all(of(_named(item)[-1]) for item in _named(node))
            case "disj_list":
                return any(of(_named(item)[-1]) for item in _named(node))
            case "parentheses":
                return of(_named(node)[0])
        raise AssertionError(f"outside the fragment: {node.type}: {_text(node)}")

    def call(self, name: str, args: list[Value], now: Values) -> Value:
        params, body = self.operators[name]
        return self.value(body, {**now, **dict(zip(params, args, strict=True))})

    def conjuncts(self, name: str) -> dict[str, list[Node]]:
        """Return the parts of a conjunction by the comment above, also those within a choice."""
        conjuncts: dict[str, list[Node]] = {}
        label = ""
        parts = [*self._parts(self.definitions[name]), *self._comments(self.definitions[name])]
        for node in sorted(parts, key=lambda part: part.start_byte):
            if node.type == "comment":
                label = _text(node).removeprefix("\\* ")
            else:
                conjuncts.setdefault("then" if node.type == "let_in" else label, []).append(node)
        return conjuncts

    def _parts(self, node: Node) -> Iterator[Node]:
        for child in node.children:
            if child.type in ("conj_list", "bounded_quantification"):
                yield from self._parts(child)
            elif child.type == "conj_item":
                part = _named(child)[-1]
                inside = part.type == "bounded_quantification"
                yield from self._parts(part) if inside else [part]

    def _comments(self, node: Node) -> Iterator[Node]:
        """Yield comments, also within lists, to which an indented comment after a list belongs."""
        for child in node.children:
            yield from [child] if child.type == "comment" else self._comments(child)

    def after(self, name: str, now: Values) -> dict[str, Value]:
        """Return the record ``y`` of an action: the actor's view afterwards."""
        (let,) = self.conjuncts(name)["then"]
        definition = next(child for child in _named(let) if child.type == "operator_definition")
        body = definition.child_by_field_name("definition")
        assert body is not None and _text(_named(definition)[0]) == "y"
        record: dict[str, Value] = self.value(body, now)
        return record

    def facts(self, name: str, now: Values) -> dict[str, Value]:
        """Return the record ``z`` of an action: the facts about the step."""
        (facts,) = self._arguments(self.definitions[name], "StepHolds", 2)
        record: dict[str, Value] = self.value(facts, now)
        return record

    def _arguments(self, node: Node, operator: str, index: int) -> Iterator[Node]:
        """Yield an argument of every call of the operator within the node."""
        if node.type == "bound_op" and _text(_named(node)[0]) == operator:
            yield _named(node)[1 + index]
        for child in node.children:
            yield from self._arguments(child, operator, index)


# Random states --------------------------------------------------------------------

_BOOLEANS = {
    var.name
    for var in (*state.STATE, *state.CONFIG, *state.FRAME, *state.this_step)
    if var.sort is Sort.BOOL
}
_KINDS = {"req.kind": 3, "req.phase": 5}


def _values(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Draw small numbers for all names at once."""

    def value(name: str, byte: int) -> Value:
        if name in _BOOLEANS:
            return bool(byte % 2)
        return byte % _KINDS[name] if name in _KINDS else byte % 11 - 1

    draw = st.binary(min_size=len(names), max_size=len(names))
    return draw.map(lambda data: {name: value(name, data[at]) for at, name in enumerate(names)})


FACTS = tuple(var.name for var in state.this_step)
STATES = _values((*LAYOUT, *FACTS))
PARAMS = st.lists(st.integers(-1, 9), min_size=6, max_size=6)
CONSTANTS = {var.name for var in (*state.CONFIG, *state.TOTALS)}


def constants(values: Values, page_size: int) -> dict[str, Value]:
    return {"P": page_size, **{identifier(name): values[name] for name in CONSTANTS}}


def record(values: Values) -> dict[str, Value]:
    """Return an actor's view, by the module's names."""
    return {identifier(name): values[name] for name in LAYOUT if name not in CONSTANTS}


def evaluated(expr: Expr, page_size: int, v: list[Any], w: list[Any], p: Mapping[str, int]) -> Any:
    """Evaluate a formula with ``evaluate``."""
    return eval(_compiled(expr, page_size), {"v": v, "w": w, "p": p})


@cache
def _compiled(expr: Expr, page_size: int) -> CodeType:
    return compile(source(expr, page_size), "formula", "eval")


# Agreement ------------------------------------------------------------------------


def agrees_on_transition(
    reader: Reader, id_: str, values: Values, params: list[int], page_size: int
) -> None:
    """Assert agreement on every guard conjunct, on the actor's view afterwards, and on the facts
    about the step."""
    transition = TRANSITIONS[id_]
    name = identifier(id_)
    p = dict(zip(transition.names, params, strict=False))
    now = {**constants(values, page_size), "x": record(values), **p}
    v = [values[name] for name in LAYOUT]
    guard = {label: items for label, items in reader.conjuncts(name).items() if label != "then"}
    assert sorted(guard) == sorted(transition.full_guard)
    for label, items in guard.items():
        read = all(reader.value(item, now) for item in items)
        theirs = bool(evaluated(transition.full_guard[label], page_size, v, v, p))
        assert read == theirs, f"{id_}: {label}"
    w = list(v)
    steps(page_size)[id_].apply(w, p)
    assert reader.after(name, now) == record(dict(zip(LAYOUT, w, strict=True))), id_
    facts = {n: evaluated(e, page_size, v, v, p) for n, e in transition.this_step.items()}
    assert reader.facts(name, now) == {identifier(n): f for n, f in facts.items()}, f"{id_}: facts"


def agrees_on_invariant(
    reader: Reader, id_: str, values: Values, later: Values, page_size: int
) -> None:
    """Assert agreement on every conjunct of figures, and on the invariant as a whole. ``later`` has
    the facts about the step, too."""
    facts = {name: later[name] for name in FACTS}
    later = {**later, **{name: values[name] for name in CONSTANTS}}
    now = {**constants(values, page_size), "x": record(values), "y": record(later)}
    now["z"] = {identifier(name): value for name, value in facts.items()}
    v, w = ([state[name] for name in LAYOUT] for state in (values, later))
    of_step = {name: lift(value) for name, value in facts.items()}
    parts_of = tla.in_module(INVARIANTS[id_]).items()
    formulas = {name: substitute(expr, of_step) for name, expr in parts_of}
    parts = reader.conjuncts(identifier(id_))
    assert list(parts) == list(formulas)
    results = []
    for name, expr in formulas.items():
        results.append(bool(evaluated(expr, page_size, v, w, {})))
        read = all(reader.value(item, now) for item in parts[name])
        assert read == results[-1], f"{id_}.{name}"
    args = [now[name] for name in tla.arguments(INVARIANTS[id_])]
    assert reader.call(identifier(id_), args, now) == all(results), id_


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader(tla.module())


OF_FIGURES = [
    invariant.id
    for invariant in INVARIANTS.values()
    if invariant.kind is not Kind.HARNESS and tla.in_module(invariant)
]


@pytest.mark.parametrize("id_", TRANSITIONS)
@settings(max_examples=60, **FAST)
@given(values=STATES, params=PARAMS, data=st.data())
def test_transition(
    reader: Reader, id_: str, values: dict[str, Any], params: list[int], data: st.DataObject
) -> None:
    agrees_on_transition(reader, id_, values, params, data.draw(st.sampled_from(SIZES)))


@pytest.mark.parametrize("id_", OF_FIGURES)
@settings(max_examples=100, **FAST)
@given(values=STATES, later=STATES, data=st.data())
def test_invariant(
    reader: Reader, id_: str, values: dict[str, Any], later: dict[str, Any], data: st.DataObject
) -> None:
    agrees_on_invariant(reader, id_, values, later, data.draw(st.sampled_from(SIZES)))


@settings(max_examples=100, **FAST)
@given(values=STATES, data=st.data())
def test_what_an_actor_needs_and_adds(
    reader: Reader, values: dict[str, Any], data: st.DataObject
) -> None:
    """Positions whose pages an actor needs or owns, an actor's share of the frame, and absent
    actors."""
    size, place = data.draw(st.sampled_from(SIZES)), data.draw(st.integers(-1, 9))
    now, x = constants(values, size), record(values)
    v = [values[name] for name in LAYOUT]
    for pool in ("full", "swa"):
        for name, make in (("InTree", places.in_tree), ("InOwn", places.in_own)):
            theirs = bool(evaluated(make(lift(place), pool), size, v, v, {}))
            assert reader.call(f"{name}_{pool}", [x, place], now) == theirs, (name, pool)
    assert reader.call("HasLock", [x], now) == bool(evaluated(places.has_lock, size, v, v, {}))
    for name, share in reader.call("Share", [x], now).items():
        expr = state.CONTRIBUTIONS[f"frame.{name}"]
        assert share == evaluated(expr, size, v, v, {}), name
    own = [identifier(var.name) for var in state.ACTOR]
    assert reader.call("Nobody", [], now) == dict(zip(own, EMPTY_ACTOR, strict=True))
    assert reader.call("Alone", [place], now) == dict(zip(own, alone(place), strict=True))


def test_every_transition_is_a_step_and_every_invariant_is_checked() -> None:
    text = tla.module()
    assert text == tla.module()
    behaviour = text.partition("Next ==")[2]
    for id_ in TRANSITIONS:
        assert re.search(rf'"{id_}" \\in Steps\s+/\\ {identifier(id_)}\(', behaviour), id_
    for id_ in OF_FIGURES:
        assert f'\\/ Not("{id_}")' in text
    assert all(f'"{rule}"' in text for rule in tla.RULES)


WRONG = {
    "an effect forgotten": ("T-REFUSE", ", !.slot_lent = FALSE", ""),
    "an effect turned": ("T-REFUSE", "!.slot_lent = FALSE", "!.slot_lent = TRUE"),
    "a guard loosened": (
        "T-SUBMIT",
        "1 <= x.session_history + new",
        "0 <= x.session_history + new",
    ),
    "a guard with a missing conjunct": ("T-CLOSE", "/\\ ~x.session_inflight", "/\\ x.session_open"),
    "a rounding forgotten": ("T-DECODE", "Ceil(x.req_A + d) - Ceil(x.req_A)", "d"),
    "a definition changed": ("T-RESTORE", "Cut(n, E) == IF E <= n", "Cut(n, E) == IF E < n"),
    "a term changed": ("INV-COVER", "  x.req_prompt + x.req_output", "  x.req_prompt"),
    "an invariant loosened": ("INV-ORDER", "x.slot_C <= x.slot_A /\\ ", ""),
    "a part left out": ("INV-ONCE", "  /\\ (x.slot_lent => OnLoan(x))\n", ""),
    "a prime forgotten": (
        "INV-HISTORY",
        "y.session_history = Answered",
        "x.session_history = Answered",
    ),
    "a fact about the step left out": ("T-DECODE", "step_at |-> at", "step_at |-> -1"),
    "a fact about the step ignored": ("INV-TOLD-STEP", "z.step_at = Known(x)", "TRUE"),
}


@pytest.mark.parametrize("what", WRONG)
def test_it_can_fail(what: str) -> None:
    """A module with one error disagrees in some random state."""
    id_, right, wrong = WRONG[what]
    text = tla.module()
    start = text.index(f"\n{identifier(id_)}(") if text.count(right) > 1 else 0
    assert right in text[start:]
    broken = Reader(text[:start] + text[start:].replace(right, wrong, 1))

    @settings(max_examples=500, **FAST)
    @given(STATES, STATES, PARAMS)
    def agrees(values: Any, later: Any, params: list[int]) -> None:
        if id_ in TRANSITIONS:
            agrees_on_transition(broken, id_, values, params, 4)
        else:
            agrees_on_invariant(broken, id_, values, later, 4)

    with pytest.raises(AssertionError, match=f"{id_}|{identifier(id_)}"):
        agrees()
