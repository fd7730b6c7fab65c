"""Relations of known bugs, transitions and invariants, and the bounds with their reasons."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from slotproof.engines.methods import methods_of, newest
from slotproof.engines.mutants import MutantRecord, mutant_records
from slotproof.environments.families import FAMILIES
from slotproof.support import bounds
from slotproof_model.bugs.museum import EXHIBITS, Exhibit
from slotproof_model.spec import pages
from slotproof_model.spec.allowances import GIVEN
from slotproof_model.spec.expr import App, Const, Expr, Op, variables
from slotproof_model.spec.invariant import Invariant, Kind, about, is_shown
from slotproof_model.spec.invariants import DERIVED, ENVIRONMENT, INVARIANTS
from slotproof_model.spec.profiles import CHOICES
from slotproof_model.spec.transition import Stage, Transition
from slotproof_model.spec.transitions import TRANSITIONS


@dataclass(frozen=True)
class Bug:
    """A known bug, planted in the reference engine, in the spec, or in both."""

    name: str
    mutant: MutantRecord | None
    exhibit: Exhibit | None

    @property
    def sentence(self) -> str:
        known = self.mutant or self.exhibit
        assert known is not None
        return known.sentence

    @property
    def lives(self) -> list[str]:
        """Transitions that the bug changes in the spec."""
        return self.exhibit.spec.rewritten if self.exhibit else []

    @property
    def clauses(self) -> tuple[str, ...]:
        """Invariants that the bug can violate on the engine. A search reports one of them."""
        return self.mutant.breaks if self.mutant else ()


@cache
def bugs() -> dict[str, Bug]:
    """Return every known bug by name: first the engine's mutants, then bugs that only the spec has.

    >>> bugs()["22753-sticky-active"].lives
    ['T-REFUSE']
    """
    names = dict.fromkeys([*mutant_records(), *EXHIBITS])
    return {name: Bug(name, mutant_records().get(name), EXHIBITS.get(name)) for name in names}


def of_stage(stage: Stage | None) -> list[str]:
    """Return the transitions of one stage in the life of a request or session.

    >>> of_stage("finish")
    ['T-SAVE', 'T-LATE-FINISH', 'T-PLAIN-FINISH']
    """
    return [transition.id for transition in TRANSITIONS.values() if transition.stage == stage]


def made_in(transitions: Sequence[str]) -> dict[str, list[str]]:
    """Return the methods that carry out these transitions in each family's newest release.

    >>> made_in(["T-REFUSE"])
    {'SGLang 0.5.23': ['PrefillAdder.add_one_req'], 'the reference engine': ['SessionCache.refuse']}
    >>> {"SGLang 0.5.23", "vLLM 0.33.0", "the reference engine"} <= made_in(["T-MATCH"]).keys()
    True
    """
    engines = {f"{of.title} {newest(id_)}": f"{id_} {newest(id_)}" for id_, of in FAMILIES.items()}
    made = {}
    for title, engine in {**engines, "the reference engine": "reference"}.items():
        table = methods_of(engine)
        made[title] = list(dict.fromkeys(it for id_ in transitions for it in table.get(id_, ())))
    return {engine: methods for engine, methods in made.items() if methods}


def bugs_of(*transitions: str) -> list[Bug]:
    """Return the known bugs that change at least one of these transitions in the spec."""
    return [bug for bug in bugs().values() if set(bug.lives) & set(transitions)]


def bugs_found_by(invariant: Invariant) -> list[Bug]:
    """Return the known bugs that violate this invariant on the engine."""
    return [bug for bug in bugs().values() if invariant.id in bug.clauses]


def touches(transition: Transition, invariant: Invariant) -> bool:
    """Return True if the transition writes a variable that the invariant reads.

    >>> touches(TRANSITIONS["T-PARK"], INVARIANTS["INV-SUM-FULL"])
    True
    """
    formulas = invariant.conjuncts.values()
    names = {name.removesuffix("'") for expr in formulas for name in variables(expr)}
    of_layer = any(map(about, formulas))
    return bool(names & transition.full_effect.keys()) or (of_layer and bool(transition.memory))


def touched(transition: Transition) -> dict[bool, list[str]]:
    """Return the names of all invariants with formulas, grouped by the result of :func:`touches`.

    >>> touched(TRANSITIONS["T-OPEN"])[True][:2]
    ['INV-INFLIGHT', 'INV-COVER']
    """
    proved = [inv for inv in INVARIANTS.values() if inv.conjuncts and inv.kind is not Kind.HARNESS]
    return {
        says: [inv.id for inv in proved if touches(transition, inv) is says]
        for says in (True, False)
    }


def readers(choice: str) -> list[str]:
    """Return the transitions whose guard or effect reads this choice of the profile.

    >>> readers("loan")
    []
    """

    def reads(transition: Transition) -> bool:
        exprs = (*transition.full_guard.values(), *transition.full_effect.values())
        return any(f"config.{choice}" in variables(expr) for expr in exprs)

    return [transition.id for transition in TRANSITIONS.values() if reads(transition)]


def deciding_choice(transition: Transition) -> str | None:
    """Return the profile's choice that enables the transition, or None if no choice decides."""
    for name, value in transition.choices.items():
        if (choice := name.removeprefix("config.")) in CHOICES:
            return choice if value else f"¬{choice}"
    return None


STANDINGS: dict[str, str] = {
    "both": "proved for the spec, and the same formula is evaluated on engines",
    "proved": "proved in the spec for one arbitrary page or row, or for the sum of all other "
    "actors; on engines the observed clauses check every page and row",
    "observed": "modelled by the spec in less detail or not at all: checked on engines only",
    "neither": "an assumption about the configuration",
}


@dataclass(frozen=True)
class Clause:
    """A row in the table of all clauses."""

    name: str
    invariant: str
    """Invariant of the clause, or "" for an assumption."""
    kind: str
    standing: str
    observed: str
    """Observations by which the clause is checked, or "" if the clause is only proved."""


def clauses() -> list[Clause]:
    """Return a row for every conjunct of every invariant, and for every assumption.

    >>> {each.name: each.standing for each in clauses()}["INV-OWNER.lost"]
    'observed'
    """
    table = []
    for id_, invariant in INVARIANTS.items():
        for conjunct, expr in invariant.conjuncts.items():
            name = f"{id_}.{conjunct}"
            standing = "both" if is_shown(expr) else "proved"
            how = {Kind.STATE: "every snapshot", Kind.STEP: "every step reported by events"}
            seen = how[invariant.kind] if is_shown(expr) else ""
            table.append(Clause(name, id_, invariant.kind.value, standing, seen))
        for conjunct, says in invariant.observed.items():
            table.append(Clause(f"{id_}.{conjunct}", id_, "engine", "observed", says))
    for name in {**ENVIRONMENT, **DERIVED}:
        standing = "proved" if name in DERIVED else "neither"
        table.append(Clause(f"ENVIRONMENT.{name}", "", "environment", standing, ""))
    return table


def limits() -> Iterator[tuple[str, str, str]]:
    """Yield the name, value and reason of every bound, in the order of ``bounds.py``.

    >>> next(limits())[:2]
    ('LINE_BYTES', '8 388 608')
    """
    for statement, below in pairwise(ast.parse(inspect.getsource(bounds)).body):
        if isinstance(statement, ast.Assign) and isinstance(below, ast.Expr):
            names = [at.id for at in ast.walk(statement.targets[0]) if isinstance(at, ast.Name)]
            values = [f"{getattr(bounds, name):,}".replace(",", " ") for name in names]
            reason = " ".join(str(ast.literal_eval(below.value)).split()).replace("``", "`")
            yield "`, `".join(names), ", ".join(values), reason


@cache
def examples() -> Any:
    """Return a worked example of each transition, by transition: see ``tests/spec_examples.py``.

    >>> examples()["T-EVICT"]["params"]
    {'n': 2}
    """
    return json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))


def given(transition: Transition) -> dict[str, str]:
    """Return the meaning of each environment choice that is not a parameter of the transition.

    >>> given(TRANSITIONS["T-REAP"])["others"]
    "full-pool tokens of the tree that other actors' locks cover"
    """
    formulas = (transition.allows.when, *transition.allows.params.values())
    names = {name for formula in formulas for name in variables(formula)}
    chosen = [name.removeprefix("given.") for name in sorted(names) if name.startswith("given.")]
    return {name: GIVEN[name] for name in chosen if name not in transition.names}


def page_rules(transition: Transition) -> dict[str, tuple[str, Expr, bool]]:
    """Return each rule for the choice of KV pages: (sentence, formula, True if only for ``swa``).

    >>> page_rules(TRANSITIONS["T-EVICT"])["evicted"][0]
    'Only a page of the tree is evicted.'
    """
    full, swa = (pages.effect(transition, pool)[0] for pool in ("full", "swa"))
    every = {**swa, **full}.items()
    return {name: (pages.RULES[name], _folded(of), name not in full) for name, of in every}


def _folded(expr: Expr) -> Expr:
    """Return the formula without the constants *true* and *false* inside it."""
    if not isinstance(expr, App):
        return expr
    args = tuple(_folded(arg) for arg in expr.args)
    if expr.op is Op.NOT and isinstance(args[0], Const):
        return Const(not args[0].value)
    if expr.op in (Op.AND, Op.OR):
        for first, second in (args, args[::-1]):
            if isinstance(first, Const):  # true ∧ x = x, false ∨ x = x, else the constant
                return second if bool(first.value) is (expr.op is Op.AND) else first
    return App(expr.op, args)
