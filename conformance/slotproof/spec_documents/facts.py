"""Relations between known bugs, transitions, invariants, and what their proofs used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from slotproof.engines.methods import methods_of, newest
from slotproof.engines.mutants import MutantRecord, mutant_records
from slotproof.environments.families import FAMILIES
from slotproof_model.bugs.museum import EXHIBITS, Exhibit
from slotproof_model.proofs import cores
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

    @property
    def refuted(self) -> list[str]:
        """Invariants of which an obligation fails with it."""
        obligations = proofs().museum.get(self.name, ())
        failed = {line.partition(" / ")[2].partition(".")[0] for line in obligations}
        return [id_ for id_ in INVARIANTS if id_ in failed]

    @property
    def killers(self) -> list[str]:
        """Invariants that find it, in their order."""
        return [id_ for id_ in INVARIANTS if id_ in {*self.clauses, *self.refuted}]


@cache
def proofs() -> cores.Cores:
    return cores.load()


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
    """Known bugs that this invariant finds, by proof or on the engine."""
    return [bug for bug in bugs().values() if invariant.id in bug.killers]


def touches(transition: Transition, invariant: Invariant) -> bool:
    """Whether the transition writes a variable that the invariant speaks of.

    >>> touches(TRANSITIONS["T-PARK"], INVARIANTS["INV-SUM-FULL"])
    True
    """
    formulas = invariant.conjuncts.values()
    names = {name.removesuffix("'") for expr in formulas for name in variables(expr)}
    of_layer = any(map(about, formulas))
    return bool(names & transition.full_effect.keys()) or (of_layer and bool(transition.memory))


@dataclass(frozen=True)
class Preservation:
    """Reasons why the invariants that have formulas survive a transition."""

    needs: dict[str, cores.Need]
    """Those whose proofs used more than the effect, and what."""
    alone: list[str]
    """By the effect alone."""
    untouched: list[str]
    """It writes none of their variables."""

    def needing(self, conjunct: str) -> list[str]:
        """Invariants whose proofs used that conjunct of the guard."""
        return [id_ for id_, need in self.needs.items() if conjunct in need.guard]


def proof_of(transition: Transition) -> Preservation:
    """From the committed proofs.

    >>> "INV-LOCK" in proof_of(TRANSITIONS["T-REFUSE"]).needing("u_others")
    True
    """
    proved = [inv for inv in INVARIANTS.values() if inv.conjuncts and inv.kind is not Kind.HARNESS]
    touched = [inv.id for inv in proved if touches(transition, inv)]
    used = proofs().needs[transition.id]
    needs = {id_: used[id_] for id_ in touched if id_ in used and used[id_] != cores.Need((), ())}
    return Preservation(
        needs,
        [id_ for id_ in touched if id_ not in needs],
        [inv.id for inv in proved if inv.id not in touched],
    )


def used_for(invariant: Invariant) -> dict[str, list[str]]:
    """By other invariant whose preservation needs this one: the transitions where it does."""
    found: dict[str, list[str]] = {}
    for transition, per in proofs().needs.items():
        for other, need in per.items():
            if other != invariant.id and invariant.id in need.invariants:
                found.setdefault(other, []).append(transition)
    return {id_: found[id_] for id_ in INVARIANTS if id_ in found}


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


def unproved(invariant: Invariant) -> list[str]:
    """Obligations of the invariant without a proof; empty where all is proved."""
    return [name for name in proofs().unproved if f"/ {invariant.id}." in name]


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
        failed = {line.partition(" / ")[2].partition(" / ")[0] for line in unproved(invariant)}
        for conjunct, expr in invariant.conjuncts.items():
            name = f"{id_}.{conjunct}"
            standing = "observed" if name in failed else "proved" if about(expr) else "both"
            how = {Kind.STATE: "every snapshot", Kind.STEP: "every step that events tell"}
            seen = "" if about(expr) else how[invariant.kind]
            table.append(Clause(name, id_, invariant.kind.value, standing, seen))
        for conjunct, says in invariant.observed.items():
            table.append(Clause(f"{id_}.{conjunct}", id_, "engine", "observed", says))
    for name in {**ENVIRONMENT, **DERIVED}:
        standing = "proved" if name in DERIVED else "neither"
        table.append(Clause(f"ENVIRONMENT.{name}", "", "environment", standing, ""))
    return table
