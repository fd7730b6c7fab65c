"""The TLA+ module says what the spec says: read back by a parser of TLA+ and evaluated.

The reader below knows TLA+ and nothing of the expression tree. Every guard conjunct,
every new value and every invariant of the module's text must agree with ``evaluate``
on random states; a module with one thing wrong must not.
"""

from __future__ import annotations

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
from slotproof_model.evaluation.layout import INDEX, LAYOUT
from slotproof_model.exports import tla
from slotproof_model.exports.tla_formula import identifier
from slotproof_model.proofs.obligations import INIT, tasks
from slotproof_model.spec import state
from slotproof_model.spec.expr import Const, Expr, Sort, substitute, variables
from slotproof_model.spec.invariant import Kind, pool_of
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec

Value = Any  # an integer, a boolean or a tuple of them
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


def _unchanged(item: Node) -> bool:
    symbol = item.child_by_field_name("symbol")
    return symbol is not None and symbol.type == "unchanged"


class Reader:
    """The fragment of TLA+ that the module is written in."""

    def __init__(self, text: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the grammar's binding
            language = Language(tree_sitter_tlaplus.language())
        root = Parser(language).parse(text.encode()).root_node
        assert not root.has_error, "not TLA+"
        module = next(child for child in root.children if child.type == "module")
        self.operators: dict[str, tuple[list[str], Node]] = {}
        self.comments: dict[str, list[Node]] = {}
        self.constants = self._declared(module, "constant_declaration")
        self.variables = self._declared(module, "variable_declaration")
        for node in module.children:
            if node.type == "operator_definition":
                name = node.child_by_field_name("name")
                body = node.child_by_field_name("definition")
                assert name and body
                params = [_text(each) for each in node.children_by_field_name("parameter")
                          if each.type == "identifier"]  # fmt: skip
                self.operators[_text(name)] = (params, body)
                self.comments[_text(name)] = [c for c in node.children if c.type == "comment"]

    @staticmethod
    def _declared(module: Node, kind: str) -> list[str]:
        declarations = [node for node in module.children if node.type == kind]
        return [_text(each) for node in declarations for each in node.named_children]

    def value(self, node: Node, now: Mapping[str, Value], then: Mapping[str, Value]) -> Value:
        """The value of an expression in a state, ``then`` being the next one."""

        def of(child: Node | None) -> Value:
            assert child is not None
            return self.value(child, now, then)

        match node.type:
            case "nat_number":
                return int(_text(node))
            case "boolean":
                return _text(node) == "TRUE"
            case "identifier_ref":
                name = _text(node)
                return now[name] if name in now else self.call(name, [], now, then)
            case "bound_op":
                operator_name, *args = _named(node)
                return self.call(_text(operator_name), [of(each) for each in args], now, then)
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
            case "bound_postfix_op":
                inner = node.child_by_field_name("lhs")
                assert inner
                return self.value(inner, {**now, **then}, {})
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

    def call(
        self, name: str, args: list[Value], now: Mapping[str, Value], then: Mapping[str, Value]
    ) -> Value:
        params, body = self.operators[name]
        return self.value(body, {**now, **dict(zip(params, args, strict=True))}, then)

    def guard(self, name: str) -> dict[str, list[Node]]:
        """The conjuncts of an action without primes, by the comment above them."""
        return {label: items for label, items in self._parts(name).items() if label != "effect"}

    def _parts(self, name: str) -> dict[str, list[Node]]:
        _, body = self.operators[name]
        nodes = [*self.comments[name], *body.children]
        found: dict[str, list[Node]] = {}
        label = ""
        for node in sorted(nodes, key=lambda each: each.start_byte):
            if node.type == "comment":
                label = _text(node).removeprefix("\\* ").removeprefix("guard: ")
            elif node.type == "conj_item":
                item = _named(node)[-1]
                where = "effect" if _unchanged(item) else label
                found.setdefault(where, []).append(item)
        return found

    def effect(self, name: str, now: Mapping[str, Value]) -> dict[str, Value]:
        """The next state: every variable is given a value, once."""
        result: dict[str, Value] = {}

        def give(variable: str, value: Value) -> None:
            assert variable not in result, f"{name} gives {variable} twice"
            result[variable] = value

        for item in self._parts(name)["effect"]:
            if _unchanged(item):
                for variable in self._names(_named(item)[-1]):
                    give(variable, now[variable])
                continue
            left, right = item.child_by_field_name("lhs"), item.child_by_field_name("rhs")
            assert left and right and left.type == "bound_postfix_op"
            give(_text(_named(left)[0]), self.value(right, now, {}))
        assert set(result) == set(self.variables), f"{name} says nothing of some variable"
        return result

    def _names(self, node: Node) -> Iterator[str]:
        """The variables in a tuple of variables and tuples."""
        if node.type == "tuple_literal":
            for child in _named(node):
                yield from self._names(child) if child.type != "langle_bracket" else ()
        elif node.type == "identifier_ref":
            name = _text(node)
            if name in self.variables:
                yield name
            else:
                yield from self._names(self.operators[name][1])


# Random states --------------------------------------------------------------------

_BOOLEANS = {
    var.name
    for var in (*state.STATE, *state.CONFIG, *state.PAGE, *state.FRAME)
    if var.sort is Sort.BOOL
}
_KINDS = {"req.kind": 3, "req.phase": 5}
_PAGE = tuple(var.name for var in (*state.PAGE, *state.LINE))


def _values(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Small numbers for all of them, from one draw."""

    def value(name: str, byte: int) -> Value:
        if name in _BOOLEANS:
            return bool(byte % 2)
        return byte % _KINDS[name] if name in _KINDS else byte % 11 - 1

    draw = st.binary(min_size=len(names), max_size=len(names))
    return draw.map(lambda data: {name: value(name, data[at]) for at, name in enumerate(names)})


STATES = _values(LAYOUT)
PAGES = _values(_PAGE)
PARAMS = st.lists(st.integers(-1, 9), min_size=6, max_size=6)


def seen(values: Mapping[str, Value], page_size: int) -> dict[str, Value]:
    """A state as the module names it."""
    return {"P": page_size, **{identifier(name): value for name, value in values.items()}}


def evaluated(expr: Expr, page_size: int, v: list[Any], w: list[Any], p: Mapping[str, int]) -> Any:
    """What ``evaluate`` makes of a formula."""
    return eval(_compiled(expr, page_size), {"v": v, "w": w, "p": p})


@cache
def _compiled(expr: Expr, page_size: int) -> CodeType:
    return compile(source(expr, page_size), "formula", "eval")


# What must agree ------------------------------------------------------------------


def agrees_on_transition(
    reader: Reader, id_: str, values: Mapping[str, Value], params: list[int], page_size: int
) -> None:
    """Each conjunct of the guard, and every variable afterwards."""
    transition = TRANSITIONS[id_]
    step = steps(page_size)[id_]
    name = identifier(id_)
    p = dict(zip(transition.names, params, strict=False))
    now = {**seen(values, page_size), **p}
    v = [values[each] for each in LAYOUT]
    guard = reader.guard(name)
    assert list(guard) == list(transition.full_guard)
    for label, items in guard.items():
        mine = all(reader.value(item, now, {}) for item in items)
        theirs = bool(evaluated(transition.full_guard[label], page_size, v, v, p))
        assert mine == theirs, f"{id_}: {label}"
    w = list(v)
    step.apply(w, p)
    theirs_after = seen({each: w[INDEX[each]] for each in LAYOUT}, page_size)
    for variable, value in reader.effect(name, now).items():
        assert value == theirs_after[variable], f"{id_}: {variable}"


def _over_pages(id_: str) -> bool:
    """Whether it speaks of an arbitrary page or row."""
    return any(variables(expr) & {*_PAGE} for expr in INVARIANTS[id_].conjuncts.values())


def agrees_on_invariant(
    reader: Reader,
    id_: str,
    values: Mapping[str, Value],
    later: Mapping[str, Value],
    page: Mapping[str, Value],
    page_size: int,
) -> None:
    """Each conjunct, and the invariant as a whole."""
    v = [values[each] for each in LAYOUT]
    w = [later[each] for each in LAYOUT]
    now = seen({**values, **page}, page_size)
    constants = {identifier(name) for name in LAYOUT} - set(reader.variables)
    then = {k: x for k, x in seen(later, page_size).items() if k not in {*constants, "P"}}
    fixed = {name: Const(value) for name, value in page.items()}
    results = {}
    over_pages = _over_pages(id_)
    w = [x if identifier(name) in then else values[name]
         for name, x in zip(LAYOUT, w, strict=True)]  # fmt: skip
    for name, expr in INVARIANTS[id_].conjuncts.items():
        operator = f"{identifier(id_)}_{name}"
        args, _ = reader.operators[operator]
        mine = reader.call(operator, [now[each] for each in args], now, then)
        plain = substitute(expr, dict(fixed)) if over_pages else expr
        theirs = bool(evaluated(plain, page_size, v, w, {}))
        assert mine == theirs, f"{id_}.{name}"
        results[name] = theirs
    if over_pages:
        for pool in ("",) if id_ == "INV-ROW" else ("full", "swa"):
            operator = identifier(id_) + (f"_of_{pool}" if pool else "")
            args, _ = reader.operators[operator]
            whole = reader.call(operator, [now[each] for each in args], now, then)
            assert whole == all(
                ok for name, ok in results.items() if not pool or pool_of(name) in (None, pool)
            )
    else:
        assert reader.call(identifier(id_), [], now, then) == all(results.values())


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader(tla.module())


WITH_FORMULA = [each.id for each in INVARIANTS.values() if each.conjuncts]


@pytest.mark.parametrize("id_", TRANSITIONS)
@settings(max_examples=60, **FAST)
@given(values=STATES, params=PARAMS, data=st.data())
def test_transition(
    reader: Reader, id_: str, values: dict[str, Any], params: list[int], data: st.DataObject
) -> None:
    agrees_on_transition(reader, id_, values, params, data.draw(st.sampled_from(SIZES)))


@pytest.mark.parametrize("id_", WITH_FORMULA)
@settings(max_examples=100, **FAST)
@given(values=STATES, later=STATES, page=PAGES, data=st.data())
def test_invariant(
    reader: Reader,
    id_: str,
    values: dict[str, Any],
    later: dict[str, Any],
    page: dict[str, Any],
    data: st.DataObject,
) -> None:
    agrees_on_invariant(reader, id_, values, later, page, data.draw(st.sampled_from(SIZES)))


def test_initial_state(reader: Reader) -> None:
    """``Init`` holds of the state in which the proofs begin, and of no other near it."""
    first = next(iter(tasks(Spec(), INIT))).after
    totals = {"full.total": 8, "swa.total": 4, "rows.total": 2}
    values = {name: False if name in _BOOLEANS else 0 for name in LAYOUT} | totals
    values |= {name: expr.value for name, expr in first.items() if isinstance(expr, Const)}
    values |= {"full.available": 8, "swa.available": 4, "rows.free": 2}
    assert reader.call("Init", [], seen(values, 4), {})
    for name in (var.name for var in state.STATE if identifier(var.name) in reader.variables):
        other = not values[name] if name in _BOOLEANS else values[name] + 1
        assert not reader.call("Init", [], seen({**values, name: other}, 4), {}), name


def test_every_transition_is_a_step() -> None:
    """``Next`` offers each, with all its parameters."""
    text = tla.module().partition("Next ==")[2].partition("Spec ==")[0]
    for transition in TRANSITIONS.values():
        names = ", ".join(identifier(each.name) for each in transition.params)
        call = identifier(transition.id) + (f"({names})" if names else "")
        assert f" {call}\n" in text
    assert text.count("\\/ ") == len(TRANSITIONS)


def test_configuration_names_what_there_is(reader: Reader) -> None:
    """The small model gives every constant a value and checks every state invariant."""
    lines = tla.configuration().splitlines()
    given_ = [line.split(" = ")[0].strip() for line in lines if " = " in line]
    assert sorted(given_) == sorted(reader.constants)
    checked = [line.split()[1] for line in lines if line.startswith("INVARIANT ")]
    states = [each.id for each in INVARIANTS.values() if each.kind is Kind.STATE and each.conjuncts]
    assert sorted(checked) == sorted(identifier(each) for each in states if not _over_pages(each))


WRONG = {
    "an effect forgotten": ("T-REFUSE", "  /\\ slot_lent' = FALSE\n", ""),
    "an effect turned": ("T-REFUSE", "slot_lent' = FALSE", "slot_lent' = TRUE"),
    "a guard loosened": ("T-SUBMIT", "1 <= session_history + new", "0 <= session_history + new"),
    "a guard that forgets": ("T-CLOSE", "/\\ ~session_inflight", "/\\ session_open"),
    "a rounding forgotten": ("T-DECODE", "Ceil(req_A + d) - Ceil(req_A)", "d"),
    "a definition changed": ("T-RESTORE", "Cut(n, E) == IF E <= n", "Cut(n, E) == IF E < n"),
    "a term changed": ("INV-COVER", "  req_prompt + req_output", "  req_prompt"),
    "an invariant loosened": ("INV-ORDER", "slot_C <= slot_A /\\ ", ""),
    "a conjunct left out": ("INV-ONCE", "  /\\ INV_ONCE_never_neither\n", ""),
    "a prime forgotten": ("INV-HISTORY", "session_history' <= Known", "session_history <= Known"),
}


@pytest.mark.parametrize("what", WRONG)
def test_it_can_fail(what: str) -> None:
    """A module with one thing wrong disagrees in some random state."""
    id_, right, wrong = WRONG[what]
    text = tla.module()
    start = text.index(f"{identifier(id_)}") if text.count(right) > 1 else 0
    assert right in text[start:]
    broken = Reader(text[:start] + text[start:].replace(right, wrong, 1))

    @settings(max_examples=500, **FAST)
    @given(STATES, STATES, PAGES, PARAMS)
    def agrees(values: Any, later: Any, page: Any, params: list[int]) -> None:
        if id_ in TRANSITIONS:
            agrees_on_transition(broken, id_, values, params, 4)
        else:
            agrees_on_invariant(broken, id_, values, later, page, 4)

    with pytest.raises(AssertionError, match=f"{id_}|{identifier(id_)}"):
        agrees()
