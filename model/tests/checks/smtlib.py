"""Obligations as SMT-LIB 2, for a reader who trusts neither Z3 nor slotproof.

A script covers one transition on one layer at one page size. It has the constants and the named
hypotheses. Each obligation follows between ``push`` and ``pop``, with its name and the negation of
its goal. Any solver of linear integer arithmetic must answer ``unsat`` once per obligation.
Obligations by framing are left out.

The reading is independent, from the tree to text: from ``symbolic`` it takes only the aligned
variables. ⌊x⌋ is ``(* P (div x P))``. With P a symbol, ⌊x⌋ is a constant with the facts of
``symbolic``. The same spec gives the same text on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from slotproof_model.proofs.obligations import INIT, Goal, Task, tasks
from slotproof_model.proofs.others import Pair, looks, touched
from slotproof_model.proofs.prove import OTHERS_AT, framed, variables_of
from slotproof_model.proofs.symbolic import aligned_variables
from slotproof_model.spec.expr import App, Const, Expr, Op, Sort, Var
from slotproof_model.spec.whole import Spec

LOGIC = "QF_LIA"
SHORT = 48
"""Characters of a term written out at every use. A longer term gets a definition."""
OPERATORS = {
    Op.ADD: "+", Op.SUB: "-", Op.ITE: "ite", Op.EQ: "=", Op.LE: "<=", Op.LT: "<",
    Op.AND: "and", Op.OR: "or", Op.NOT: "not",
}  # fmt: skip
_SORTS = {Sort.INT: "Int", Sort.BOOL: "Bool"}


@dataclass(frozen=True)
class Inside:
    """Content of a term: constants and definitions, also within definitions, floors, and terms that
    are multiples of P if P is a symbol."""

    names: frozenset[str] = frozenset()
    floors: frozenset[str] = frozenset()
    multiples: frozenset[str] = frozenset()

    def __or__(self, other: Inside) -> Inside:
        return Inside(
            self.names | other.names, self.floors | other.floors, self.multiples | other.multiples
        )


NOTHING = Inside()


class Text:
    """Terms of SMT-LIB for expressions over named variables, as ``symbolic.Symbols`` for Z3."""

    def __init__(self, page_size: int | None, multiples: frozenset[str] = frozenset()) -> None:
        self.page_size = page_size
        self.multiples = multiples
        self.page = str(page_size or "P")
        self.constants: dict[str, str] = {}
        """Sorts of the constants, by name."""
        self.definitions: dict[str, tuple[str, str]] = {}
        """Sort and text of the definitions, by name. A definition uses only earlier names."""
        self.inside: dict[str, Inside] = {}
        self.floors: dict[str, str] = {}
        """Argument of every floor, by name (P a symbol)."""
        self._known: dict[tuple[str, ...], str] = {}
        if page_size is None:
            self._constant("P", Sort.INT)

    def var(self, var: Var, whose: str = "") -> str:
        """Return the constant of a variable. ``whose`` picks one of several actors."""
        name = f"{var.name}.{whose}" if whose else var.name
        self._constant(name, var.sort)
        if self.page_size is None and var.sort is Sort.INT and var.name in self.multiples:
            self._multiple(name)
        return name

    def integer(self, name: str) -> str:
        return self._constant(name, Sort.INT)

    def term(self, expr: Expr, values: Mapping[str, str]) -> str:
        """Return the term of an expression, with its variables' values by name."""
        if isinstance(expr, Const):
            return self._number(expr.value)
        if isinstance(expr, Var):
            return values[expr.name]
        assert isinstance(expr, App)
        args = [self.term(arg, values) for arg in expr.args]
        key = (expr.op.value, *args)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._apply(expr, args)
            self._closed(expr.op, args, known)
        return known

    def _constant(self, name: str, sort: Sort) -> str:
        self.constants[name] = _SORTS[sort]
        self.inside.setdefault(name, Inside(frozenset([name])))
        return name

    def _number(self, value: int | bool) -> str:
        if isinstance(value, bool):
            text = str(value).lower()
        else:
            text = f"(- {-value})" if value < 0 else str(value)
        self.inside.setdefault(text, NOTHING)
        if value == 0 and self.page_size is None and not isinstance(value, bool):
            self._multiple(text)
        return text

    def _apply(self, expr: App, args: list[str]) -> str:
        a = args[0]
        match expr.op:
            case Op.MIN:
                return self._new(Sort.INT, f"(ite (<= {a} {args[1]}) {a} {args[1]})", args)
            case Op.MAX:
                return self._new(Sort.INT, f"(ite (<= {args[1]} {a}) {a} {args[1]})", args)
            case Op.FLOOR:
                return self._floor(a)
            case Op.CEIL:
                above = f"(- {self.page} 1)"
                return self._floor(a if self.page_size == 1 else self._up(a, above))
            case _:
                return self._new(expr.sort, f"({OPERATORS[expr.op]} {' '.join(args)})", args)

    def _up(self, a: str, above: str) -> str:
        if a in self.inside[a].multiples:  # ⌈x⌉ = x, like ⌊x⌋, if x is a multiple.
            return a
        self.inside.setdefault(above, self.inside["P"] if self.page_size is None else NOTHING)
        return self._new(Sort.INT, f"(+ {a} {above})", [a, above])

    def _new(self, sort: Sort, text: str, args: Iterable[str]) -> str:
        """Return a term, or its new name if the term is long."""
        within = reduce(Inside.__or__, (self.inside[arg] for arg in args), NOTHING)
        if len(text) > SHORT:
            name = f"t{len(self.definitions) + 1}"
            self.definitions[name] = (_SORTS[sort], text)
            text, within = name, within | Inside(frozenset([name]))
        self.inside.setdefault(text, within)
        return text

    def _floor(self, a: str) -> str:
        if self.page_size == 1 or a in self.inside[a].multiples:
            return a
        if self.page_size is not None:
            return self._new(Sort.INT, f"(* {self.page} (div {a} {self.page}))", [a])
        name = self._constant(f"floor{len(self.floors) + 1}", Sort.INT)
        self.floors[name] = a
        self.inside[name] |= self.inside[a] | Inside(floors=frozenset([name]))
        self._multiple(name)
        return name

    def _multiple(self, text: str) -> None:
        within = self.inside[text]
        self.inside[text] = within | Inside(multiples=frozenset([text]))

    def _closed(self, op: Op, args: list[str], text: str) -> None:
        """Record that sums, minima and choices of multiples are multiples."""
        parts = args if op in (Op.ADD, Op.SUB, Op.MIN, Op.MAX) else args[1:]
        closed = op in (Op.ADD, Op.SUB, Op.MIN, Op.MAX, Op.ITE)
        if closed and parts and all(part in self.inside[part].multiples for part in parts):
            self._multiple(text)

    def facts(self, inside: Inside) -> Iterator[str]:
        """Yield the facts about floors: their values, and two different multiples are P apart."""
        if self.page_size is not None:
            return
        yield "(<= 1 P)"
        floors = [name for name in self.floors if name in inside.floors]
        for name in floors:
            yield f"(and (<= {name} {self.floors[name]}) (< {self.floors[name]} (+ {name} P)))"
        for index, name in enumerate(floors):
            others = sorted(inside.multiples - {*floors[: index + 1]})
            for other in others:
                yield f"(or (<= (+ {name} P) {other}) (= {name} {other}) (<= (+ {other} P) {name}))"


@dataclass(frozen=True)
class Script:
    """All questions to a solver about one transition on one layer."""

    name: str
    """``T-RESTORE [full] / P=4``"""
    terms: Text
    hypotheses: Mapping[str, str]
    goals: Mapping[str, str]
    """Terms by clause."""
    where: str
    """``T-RESTORE [full]``"""

    @property
    def file(self) -> str:
        """Name of the script's file, ``T-CLOSE-others-full-Pany.smt2``."""
        words = "".join(char if char.isalnum() or char == "-" else " " for char in self.name)
        return "-".join(words.replace(" P ", " P").split()) + ".smt2"

    def obligation(self, clause: str) -> str:
        return f"{self.where} / {clause} / P={self.terms.page_size or 'any'}"

    def text(self, clauses: Iterable[str] | None = None, use: Iterable[str] | None = None) -> str:
        """Return the script, or a part with some goals and some hypotheses."""
        goals = {name: self.goals[name] for name in (self.goals if clauses is None else clauses)}
        known = {name: self.hypotheses[name] for name in (self.hypotheses if use is None else use)}
        return "\n".join(self._lines(known, goals)) + "\n"

    def _lines(self, known: Mapping[str, str], goals: Mapping[str, str]) -> Iterator[str]:
        terms = self.terms
        every = (*known.values(), *goals.values())
        inside = reduce(Inside.__or__, (terms.inside[term] for term in every), NOTHING)
        facts = list(terms.facts(inside))
        names = inside.names | {"P"}
        yield f"; {self.name}: obligations of slotproof, each to be unsat"
        yield f"(set-logic {LOGIC})"
        for name, sort in sorted(terms.constants.items()):
            if name in names:
                yield f"(declare-fun {name} () {sort})"
        for name, (sort, text) in terms.definitions.items():
            if name in names:
                yield f"(define-fun {name} () {sort} {text})"
        yield from (f"(assert {fact})" for fact in facts)
        for name, term in known.items():
            yield f"(assert {term}) ; {name}"
        for clause, term in goals.items():
            yield f'(push 1) (echo "{self.obligation(clause)}")'
            yield f"(assert (not {term}))"
            yield "(check-sat) (pop 1)"


def scripts(spec: Spec, transition: str, page_size: int | None) -> Iterator[Script]:
    """Yield all scripts of one transition (or ``INIT``) at one page size."""
    size = f"P={page_size or 'any'}"
    for task in tasks(spec, transition):
        asked = [goal for goal in task.goals if not framed(task, goal)]
        if asked:
            yield _script(task, asked, page_size, f"{task.name} / {size}")
    if transition != INIT and page_size in OTHERS_AT:
        pair = Pair(spec, spec.transitions[transition], lambda m: Text(page_size, m))
        for name, look in looks(pair):
            goals = pair.terms(touched(look), look.seen)
            if goals:
                known = {**pair.assumed, **look.assumed}
                yield Script(f"{name} / {size}", pair.symbols, known, goals, name)


def _script(task: Task, asked: list[Goal], page_size: int | None, name: str) -> Script:
    terms = Text(page_size, aligned_variables(task.hypotheses.values()))
    before = {var.name: terms.var(var) for var in variables_of(task)}
    values = dict(before)
    for variable, term in before.items():
        new = task.after.get(variable)
        values[f"{variable}'"] = term if new is None else terms.term(new, before)
    known = {hypothesis: terms.term(expr, before) for hypothesis, expr in task.hypotheses.items()}
    goals = {goal.clause: terms.term(goal.expr, values) for goal in asked}
    return Script(name, terms, known, goals, task.name)
