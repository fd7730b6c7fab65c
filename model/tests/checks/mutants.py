"""Obligations that kill mutants of the spec, or proofs that no obligation can.

An unrefuted mutant is compared with the spec at the same page sizes. It is *equivalent* if it
allows the same steps: the same new values of fields and counts, and the same owners of one
arbitrary page of each pool and of one arbitrary row. A step that changes nothing, or that another
transition of the spec allows, counts as allowed, because it can break nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import z3

from slotproof_model.bugs.museum import EXHIBITS
from slotproof_model.bugs.mutate import Mutant, of_transition
from slotproof_model.proofs.obligations import anywhere, tasks
from slotproof_model.proofs.pool import pool
from slotproof_model.proofs.prove import Prover
from slotproof_model.proofs.symbolic import Symbols, Term
from slotproof_model.spec import pages, state
from slotproof_model.spec.expr import Expr, Sort, Var, variables
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.invariants import ENVIRONMENT
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import LAYERS, POOLS, ROWS, Spec, conjuncts
from tests.checks.wrong import WRONG

Fate = Literal["killed", "equivalent", "survives"]
MUSEUM = "museum"
"""Prefix of a known bug's name, in place of a systematic mutant's transition …"""
BY_HAND = "wrong"
"""… and of a wrong spec's name."""
SYSTEMATIC = "systematic"

_OF_PAGE = (*state.PAGE, *pages.CHOICES)


@dataclass(frozen=True)
class Verdict:
    """Fate of a mutant."""

    mutant: str
    fate: Fate
    by: str = ""
    """The refuted obligation. For an equivalent mutant, the reason."""


def systematic() -> Iterator[Mutant]:
    """Yield every systematic mutant, in a fixed order."""
    for transition in TRANSITIONS.values():
        yield from of_transition(transition)


def judge(mutant: Mutant, page_sizes: Iterable[int] = (4, 1)) -> Verdict:
    """Prove the mutated transition. If all proofs succeed, compare it with the right transition."""
    spec = Spec(transitions={**TRANSITIONS, mutant.id: mutant.transition}, name=mutant.name)
    verdict = refuted(spec, page_sizes)
    if verdict is not None:
        return verdict
    reasons = [Comparison(mutant, page_size).reason() for page_size in page_sizes]
    if "" in reasons:
        return Verdict(mutant.name, "survives")
    return Verdict(mutant.name, "equivalent", max(reasons, key=len))


def refuted(spec: Spec, page_sizes: Iterable[int] = (4, 1)) -> Verdict | None:
    """Return the first failed obligation about the changed transitions, or ``None``."""
    for page_size in page_sizes:
        for name in spec.unproved:
            prover = Prover(tasks(spec, name), page_size)
            for task in prover.tasks:
                problem = prover.vacuity(task).problem
                if problem:
                    fate: Fate = "survives" if problem == "unknown" else "killed"
                    return Verdict(spec.name, fate, f"{task.name} / {problem} / P={page_size}")
                for result in prover.results(task):
                    if result.status == "unknown":
                        return Verdict(spec.name, "survives", f"unknown: {result.name}")
                    if result.status == "refuted":
                        return Verdict(spec.name, "killed", result.name)
    return None


def refutes(spec: Spec, obligation: str, page_size: int = 4) -> bool:
    """Return True if this obligation, ``T-SAVE / INV-LOCK.slot``, is refuted."""
    transition, _, clause = obligation.partition(" / ")
    name = transition.partition(" ")[0]
    (task,) = (task for task in tasks(spec, name) if task.name == transition)
    goals = tuple(goal for goal in task.goals if goal.clause == clause)
    results = Prover([replace(task, goals=goals)], page_size)
    return any(result.status == "refuted" for result in results.results(results.tasks[0]))


def judge_wrong(name: str) -> Verdict:
    """Judge a wrong spec by name: only the clause made for it counts."""
    wrong = WRONG[name]
    killed = refutes(wrong.spec, wrong.by)
    return Verdict(f"{BY_HAND}/{name}", "killed" if killed else "survives", wrong.by)


def judge_exhibit(name: str) -> Verdict:
    """Judge a known bug by name: only an obligation counts."""
    spec = replace(EXHIBITS[name].spec, name=f"{MUSEUM}/{name}")
    return refuted(spec) or Verdict(spec.name, "survives")


class Comparison:
    """A mutant beside the spec, in all states within the invariants."""

    def __init__(self, mutant: Mutant, page_size: int) -> None:
        self.context = z3.Context()
        self.symbols = Symbols(page_size, self.context)
        self.right, self.wrong = TRANSITIONS[mutant.id], mutant.transition
        both = (self.wrong, *TRANSITIONS.values())
        params = [var for transition in both for var in transition.params]
        self.values = self._named((*state.SEEN, *params))
        self.of_page = {
            which: self._named(state.LINE if which == ROWS else _OF_PAGE, which) for which in LAYERS
        }
        """An arbitrary page of each pool, and an arbitrary row."""
        for which in POOLS:
            self.of_page[which] |= self._not_chosen(which)
        self.in_swa = self._term(state.config.swa)
        self.solver = self.symbols.solver()
        invariants = {**conjuncts(Spec(), Kind.STATE), **ENVIRONMENT}
        self.solver.add(*(self._term(expr) for expr in invariants.values()))
        for which in LAYERS:
            known = {**self.values, **self.of_page[which]}
            for expr in (*conjuncts(Spec(), Kind.STATE, which).values(), *anywhere(which).values()):
                self.solver.add(self._if_there(which, self.symbols.term(expr, known)))

    def _not_chosen(self, which: str) -> dict[str, Term]:
        """Return zero for every choice that neither transition has, as for parameters."""
        chosen: set[str] = set()
        for transition in (self.right, self.wrong):
            for formulas in Spec().choices(transition, which):
                chosen = chosen.union(*map(variables, formulas.values()))
        false, zero = z3.BoolVal(False, self.context), z3.IntVal(0, self.context)
        idle = (var for var in pages.CHOICES if var.name not in chosen)
        return {var.name: false if var.sort is Sort.BOOL else zero for var in idle}

    def reason(self) -> str:
        """Return the reason why the mutant allows the same steps, or an empty string."""
        if self.right.detaches != self.wrong.detaches:
            return ""
        guard_right, guard_wrong = self._guard(self.right), self._guard(self.wrong)
        same = self._same(self.right, self.wrong)
        if self._never((guard_right != guard_wrong) | (guard_right & ~same)):
            return "same steps"
        if not self._never(guard_right & ~(guard_wrong & same)):
            return ""
        more = guard_wrong & ~(guard_right & same)
        idle = self._same(self.wrong, None) & (self.wrong.detaches is None)
        if self._never(more & ~idle):
            return "more steps, which change nothing"
        others = [
            other
            for other in TRANSITIONS.values()
            if other is not self.right and other.detaches == self.wrong.detaches
        ]
        allowed = [self._guard(other) & self._same(self.wrong, other) for other in others]
        if self._never(more & ~idle & ~_any(allowed, self.context)):
            return "more steps, which other transitions allow"
        return ""

    def _never(self, condition: z3.BoolRef) -> bool:
        self.symbols.settle(self.solver)
        return bool(self.solver.check(condition) == z3.unsat)

    def _named(self, variables: Iterable[Var], whose: str = "") -> dict[str, Term]:
        return {var.name: self.symbols.var(var, whose) for var in variables}

    def _term(self, expr: Expr) -> Term:
        return self.symbols.term(expr, self.values)

    def _if_there(self, which: str, term: Term) -> Term:
        """Restrict a term about a page of the second pool to engines with a second pool."""
        return z3.Implies(self.in_swa, term) if which == "swa" else term

    def _known(self, transition: Transition) -> dict[str, Term]:
        """Return the values, with zero for parameters absent from the mutated transition."""
        own = {var.name for var in (*self.wrong.params, *self.right.params)}
        foreign = [var.name for var in transition.params if var.name not in own]
        return {**self.values, **dict.fromkeys(foreign, z3.IntVal(0, self.context))}

    def _guard(self, transition: Transition) -> z3.BoolRef:
        """Return the formula: the transition is enabled with these choices of pages."""
        values = self._known(transition)
        terms = [self.symbols.term(expr, values) for expr in transition.full_guard.values()]
        for which in LAYERS:
            legal, _ = Spec().choices(transition, which)
            known = {**values, **self.of_page[which]}
            terms += [
                self._if_there(which, self.symbols.term(expr, known)) for expr in legal.values()
            ]
        return z3.And(*terms, z3.BoolVal(True, self.context))

    def _same(self, first: Transition, second: Transition | None) -> z3.BoolRef:
        """Return the formula: both lead to the same state. ``second`` ``None``: nothing changes."""
        terms = _equal(self._after(first), self._after(second), self.values)
        for which in LAYERS:
            one, other = self._page_after(first, which), self._page_after(second, which)
            same = _equal(one, other, self.of_page[which])
            terms.append(self._if_there(which, z3.And(*same, z3.BoolVal(True, self.context))))
        return z3.And(*terms)

    def _after(self, transition: Transition | None) -> dict[str, Term]:
        if transition is None:
            return {}
        values = self._known(transition)
        effect = transition.full_effect
        return {name: self.symbols.term(expr, values) for name, expr in effect.items()}

    def _page_after(self, transition: Transition | None, which: str) -> dict[str, Term]:
        if transition is None:
            return {}
        values = {**self._known(transition), **self.of_page[which]}
        _, effect = Spec().choices(transition, which)
        return {name: self.symbols.term(expr, values) for name, expr in effect.items()}


def _equal(
    one: Mapping[str, Term], other: Mapping[str, Term], before: Mapping[str, Term]
) -> list[Term]:
    return [
        one.get(name, before[name]) == other.get(name, before[name])
        for name in sorted(one.keys() | other.keys())
    ]


def _any(terms: list[z3.BoolRef], context: z3.Context) -> z3.BoolRef:
    return z3.Or(*terms, z3.BoolVal(False, context))


def judge_all(kinds: Iterable[str], jobs: int | None = None) -> Iterator[Verdict]:
    """Yield the fates of known bugs, wrong specs and systematic mutants, in this order."""
    with pool(jobs) as processes:
        if MUSEUM in kinds:
            yield from processes.map(judge_exhibit, EXHIBITS)
        if BY_HAND in kinds:
            yield from processes.map(judge_wrong, WRONG)
        if SYSTEMATIC in kinds:
            yield from processes.map(judge, systematic(), chunksize=8)


def table(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield Markdown: transitions by fates, clauses by kills, reasons, and survivors."""
    fates: dict[str, Counter[str]] = {}
    for verdict in verdicts:
        for name in (verdict.mutant.partition("/")[0], "all"):
            fates.setdefault(name, Counter())[verdict.fate] += 1
    fates["all"] = fates.pop("all", Counter())
    yield "| transition | mutants | killed | equivalent | survive |"
    yield "|---|---|---|---|---|"
    for name, of in fates.items():
        counts = (of.total(), of["killed"], of["equivalent"], of["survives"])
        yield f"| {name} | {' | '.join(map(str, counts))} |"
    killed = [verdict.by.split(" / ")[1] for verdict in verdicts if verdict.fate == "killed"]
    why = [verdict.by for verdict in verdicts if verdict.fate == "equivalent"]
    for title, names in (
        ("killed by", (clause.partition(".")[0] for clause in killed)),
        ("equivalent, proved: it allows", why),
    ):
        yield from ("", f"| {title} | mutants |", "|---|---|")
        yield from (f"| {name} | {number} |" for name, number in Counter(names).most_common())
    yield from (f"survives: {verdict.mutant}" for verdict in verdicts if verdict.fate == "survives")
