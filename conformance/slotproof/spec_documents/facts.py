"""Relations between known bugs, transitions and invariants, and the bounds with their reasons."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from slotproof.engines.methods import methods_of, newest
from slotproof.engines.mutants import MutantRecord, mutant_records
from slotproof.environments.families import FAMILIES
from slotproof.support import bounds
from slotproof_model.bugs.museum import EXHIBITS, Exhibit
from slotproof_model.spec.expr import variables
from slotproof_model.spec.invariant import Invariant, Kind, about
from slotproof_model.spec.invariants import DERIVED, ENVIRONMENT, INVARIANTS
from slotproof_model.spec.profiles import CHOICES
from slotproof_model.spec.transition import Stage, Transition
from slotproof_model.spec.transitions import TRANSITIONS


@dataclass(frozen=True)
class Bug:
    """A known bug: in the reference engine, in the spec, or in both."""

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
        """Transitions that are wrong in the spec's version of it."""
        return self.exhibit.spec.rewritten if self.exhibit else []

    @property
    def clauses(self) -> tuple[str, ...]:
        """Invariants that a finding on the engine names one of."""
        return self.mutant.breaks if self.mutant else ()


@cache
def bugs() -> dict[str, Bug]:
    """Every known bug by name, in the museum's order.

    >>> bugs()["22753-sticky-active"].lives
    ['T-REFUSE']
    """
    names = dict.fromkeys([*mutant_records(), *EXHIBITS])
    return {name: Bug(name, mutant_records().get(name), EXHIBITS.get(name)) for name in names}


def of_stage(stage: Stage | None) -> list[str]:
    """Transitions that belong to one stage of a request's or session's life.

    >>> of_stage("finish")
    ['T-SAVE', 'T-PLAIN-FINISH']
    """
    return [each.id for each in TRANSITIONS.values() if each.stage == stage]


def made_in(transitions: Sequence[str]) -> dict[str, list[str]]:
    """By engine that makes them, their methods: of each family its newest release that is known.

    >>> made_in(["T-REFUSE"])
    {'SGLang 0.5.23': ['PrefillAdder.add_one_req'], 'the reference engine': ['SessionCache.refuse']}
    >>> {"SGLang 0.5.23", "vLLM 0.33.0", "the reference engine"} <= made_in(["T-MATCH"]).keys()
    True
    """
    engines = {
        f"{each.title} {newest(name)}": f"{name} {newest(name)}" for name, each in FAMILIES.items()
    }
    made = {}
    for title, engine in {**engines, "the reference engine": "reference"}.items():
        table = methods_of(engine)
        made[title] = list(dict.fromkeys(it for id_ in transitions for it in table.get(id_, ())))
    return {engine: methods for engine, methods in made.items() if methods}


def bugs_of(*transitions: str) -> list[Bug]:
    """Known bugs in which one of these transitions is what is wrong."""
    return [bug for bug in bugs().values() if set(bug.lives) & set(transitions)]


def bugs_found_by(invariant: Invariant) -> list[Bug]:
    """Known bugs of which a finding on the engine names this invariant."""
    return [bug for bug in bugs().values() if invariant.id in bug.clauses]


def touches(transition: Transition, invariant: Invariant) -> bool:
    """Whether the transition writes a variable that the invariant speaks of.

    >>> touches(TRANSITIONS["T-PARK"], INVARIANTS["INV-SUM-FULL"])
    True
    """
    formulas = invariant.conjuncts.values()
    names = {name.removesuffix("'") for expr in formulas for name in variables(expr)}
    of_layer = any(map(about, formulas))
    return bool(names & transition.full_effect.keys()) or (of_layer and bool(transition.memory))


def touched(transition: Transition) -> dict[bool, list[str]]:
    """Invariants that have formulas, by whether the transition touches them.

    >>> touched(TRANSITIONS["T-OPEN"])[True][:2]
    ['INV-INFLIGHT', 'INV-COVER']
    """
    proved = [inv for inv in INVARIANTS.values() if inv.conjuncts and inv.kind is not Kind.HARNESS]
    return {
        says: [inv.id for inv in proved if touches(transition, inv) is says]
        for says in (True, False)
    }


def readers(choice: str) -> list[str]:
    """Transitions that read a choice of the profile.

    >>> readers("loan")
    []
    """

    def reads(each: Transition) -> bool:
        exprs = (*each.full_guard.values(), *each.full_effect.values())
        return any(f"config.{choice}" in variables(expr) for expr in exprs)

    return [each.id for each in TRANSITIONS.values() if reads(each)]


def deciding_choice(transition: Transition) -> str | None:
    """The choice of the profile that decides whether the transition exists at all."""
    for name, value in transition.choices.items():
        choice = name.removeprefix("config.")
        if choice in CHOICES:
            return choice if value else f"¬{choice}"
    return None


STANDINGS: dict[str, str] = {
    "both": "proved of the spec, and the same formula is evaluated on engines",
    "proved": "of one arbitrary page or row, or of all other actors summed up: proved of the spec; "
    "on engines every page and row is looked at, by the clauses that are only observed",
    "observed": "the spec does not model it, or not so closely: checked on engines only",
    "neither": "assumed of the configuration",
}


@dataclass(frozen=True)
class Clause:
    """One line of the table of all clauses."""

    name: str
    invariant: str
    """Whose conjunct it is; empty for an assumption."""
    kind: str
    standing: str
    observed: str
    """What it is judged on, where it is judged on engines."""


def clauses() -> list[Clause]:
    """Every conjunct of every invariant, and every assumption.

    >>> {each.name: each.standing for each in clauses()}["INV-OWNER.lost"]
    'observed'
    """
    table = []
    for id_, invariant in INVARIANTS.items():
        for conjunct, expr in invariant.conjuncts.items():
            name = f"{id_}.{conjunct}"
            standing = "proved" if about(expr) else "both"
            how = {Kind.STATE: "every snapshot", Kind.STEP: "every step that events tell"}
            seen = "" if about(expr) else how[invariant.kind]
            table.append(Clause(name, id_, invariant.kind.value, standing, seen))
        for conjunct, says in invariant.observed.items():
            table.append(Clause(f"{id_}.{conjunct}", id_, "engine", "observed", says))
    for name in {**ENVIRONMENT, **DERIVED}:
        standing = "proved" if name in DERIVED else "neither"
        table.append(Clause(f"ENVIRONMENT.{name}", "", "environment", standing, ""))
    return table


def limits() -> Iterator[tuple[str, str, str]]:
    """Yield name, value and reason of every bound, in the order of ``bounds.py``.

    >>> next(limits())[:2]
    ('LINE_BYTES', '8 388 608')
    """
    body = ast.parse(inspect.getsource(bounds)).body
    for statement, below in pairwise(body):
        if isinstance(statement, ast.Assign) and isinstance(below, ast.Expr):
            names = [
                node.id for node in ast.walk(statement.targets[0]) if isinstance(node, ast.Name)
            ]
            values = [f"{getattr(bounds, name):,}".replace(",", " ") for name in names]
            reason = " ".join(str(ast.literal_eval(below.value)).split()).replace("``", "`")
            yield "`, `".join(names), ", ".join(values), reason
