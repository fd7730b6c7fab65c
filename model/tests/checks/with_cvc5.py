"""A second solver: cvc5 on the obligations as SMT-LIB (``smtlib``), all that a solver is asked.

First with the hypotheses that Z3's proofs of the clause used, at one page size: what follows from
some follows from all. Where that is not enough, with all of them, for 30 seconds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import cvc5

from slotproof_model.proofs.obligations import INIT
from slotproof_model.proofs.pool import pool
from slotproof_model.proofs.prove import PAGE_SIZES, prove
from slotproof_model.spec.whole import Spec
from tests.checks.smtlib import Script, scripts

SOON, LIMIT = 3_000, 30_000
"""Milliseconds for a question with few hypotheses, and with all."""
SHARE = 0.01
"""Of the obligations, how many may stay unknown."""
CORES_AT = 4
"""The page size whose proofs by Z3 tell what is needed: the smallest at which rounding matters."""
Needs = dict[str, set[str]]
"""By invariant, the names of what Z3's proofs of it used."""
Answer = Literal["unsat", "sat", "unknown"]


@dataclass(frozen=True)
class Discharged:
    """What cvc5 says of an obligation."""

    name: str
    answer: Answer
    seconds: float
    few: bool
    """The hypotheses that Z3 used were enough."""


def ask(text: str, limit: int = LIMIT) -> list[Answer]:
    """cvc5's answer to each ``check-sat`` of a script, each within so many milliseconds."""
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("incremental", "true")
    solver.setOption("tlimit-per", str(limit))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "script")
    symbols = parser.getSymbolManager()
    found: list[Answer] = []
    while not (command := parser.nextCommand()).isNull():
        said = str(command.invoke(solver, symbols)).strip()
        if said.startswith("(error"):
            raise ValueError(said)
        if command.getCommandName() == "check-sat":
            found.append("unsat" if said == "unsat" else "sat" if said == "sat" else "unknown")
    return found


def discharge(script: Script, needs: Needs) -> Iterator[Discharged]:
    """Every obligation of a script."""
    for clause in script.goals:
        begin = time.perf_counter()
        few = relevant(script, clause, needs)
        answer = ask(script.text([clause], few), SOON)[0]
        enough = answer == "unsat"
        if not enough:
            answer = ask(script.text([clause]), LIMIT)[0]
        yield Discharged(script.obligation(clause), answer, time.perf_counter() - begin, enough)


def relevant(script: Script, clause: str, needs: Needs) -> list[str]:
    """Hypotheses that a proof of the clause may need: the guard, the environment, the choices, the
    clause's own invariant, and what Z3's proofs of it used."""
    mine = clause.partition(".")[0]
    wanted = {mine, "guard", "environment", "choice", "allowance", *needs.get(mine, ())}
    return [name for name in script.hypotheses if name.partition(".")[0] in wanted]


def _needs(transition: str) -> Needs:
    found: Needs = {}
    for result in prove(page_sizes=[CORES_AT], jobs=1, only=[transition])[0]:
        used = {name.partition(".")[0] for name in result.core}
        found.setdefault(result.clause.partition(".")[0], set()).update(used)
    return found


def _work(job: tuple[str, int | None, Needs]) -> list[Discharged]:
    transition, page_size, needs = job
    found = scripts(Spec(), transition, page_size)
    return [each for script in found for each in discharge(script, needs)]


def discharge_all(jobs: int | None = None) -> Iterator[Discharged]:
    """Every obligation of the spec at every page size, as they come."""
    names = [INIT, *Spec().transitions]
    with pool(jobs) as processes:
        needs = dict(zip(names, processes.map(_needs, names), strict=True))
        work = [(name, size, needs[name]) for size in (None, *PAGE_SIZES) for name in names]
        for found in processes.map(_work, work):
            yield from found


def summary(found: Iterable[Discharged]) -> tuple[list[str], int]:
    """What there is to say; status 1 if one is refuted, or more than one in a hundred unknown."""
    known = list(found)
    refuted = [each.name for each in known if each.answer == "sat"]
    unknown = [each.name for each in known if each.answer == "unknown"]
    few = sum(each.few for each in known)
    lines = [f"refuted by cvc5: {name}" for name in refuted]
    lines += [f"unknown to cvc5 after {LIMIT // 1000} s: {name}" for name in unknown]
    lines.append(
        f"cvc5 {cvc5.__version__}: {len(known) - len(refuted) - len(unknown)} of {len(known)} "
        f"obligations proved ({few} from what Z3's proofs used), {len(refuted)} refuted, "
        f"{len(unknown)} unknown"
    )
    too_many = len(unknown) > SHARE * len(known)
    return lines, int(bool(refuted) or too_many or not known)
