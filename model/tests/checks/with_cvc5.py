"""A second solver: cvc5 on all obligations as SMT-LIB (``smtlib``).

The first try uses the hypotheses of Z3's proofs of the clause at one page size, because a
consequence of some hypotheses follows from all. The second try uses all, for 30 seconds.
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
"""Share of obligations that may stay unknown."""
CORES_AT = 4
"""Page size of the Z3 proofs that select hypotheses: the smallest at which rounding matters."""
Needs = dict[str, set[str]]
"""Names of the hypotheses in Z3's proofs, by invariant."""
Answer = Literal["unsat", "sat", "unknown"]


@dataclass(frozen=True)
class Discharged:
    """cvc5's answer to an obligation."""

    name: str
    answer: Answer
    seconds: float
    few: bool
    """The hypotheses of Z3's proof were enough."""


def ask(text: str, limit: int = LIMIT) -> list[Answer]:
    """Return cvc5's answers to the ``check-sat`` of a script. ``limit``: milliseconds for each."""
    solver = cvc5.Solver(cvc5.TermManager())
    solver.setOption("incremental", "true")
    solver.setOption("tlimit-per", str(limit))
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, text, "script")
    symbols = parser.getSymbolManager()
    answers: list[Answer] = []
    while not (command := parser.nextCommand()).isNull():
        said = str(command.invoke(solver, symbols)).strip()
        if said.startswith("(error"):
            raise ValueError(said)
        if command.getCommandName() == "check-sat":
            answers.append("unsat" if said == "unsat" else "sat" if said == "sat" else "unknown")
    return answers


def discharge(script: Script, needs: Needs) -> Iterator[Discharged]:
    """Discharge every obligation of a script."""
    for clause in script.goals:
        begin = time.perf_counter()
        few = relevant(script, clause, needs)
        answer = ask(script.text([clause], few), SOON)[0]
        enough = answer == "unsat"
        if not enough:
            answer = ask(script.text([clause]), LIMIT)[0]
        yield Discharged(script.obligation(clause), answer, time.perf_counter() - begin, enough)


def relevant(script: Script, clause: str, needs: Needs) -> list[str]:
    """Return the hypotheses for a proof of the clause: the guard, the environment, the choices, the
    clause's own invariant, and the hypotheses of Z3's proofs."""
    own = clause.partition(".")[0]
    wanted = {own, "guard", "environment", "choice", "allowance", *needs.get(own, ())}
    return [name for name in script.hypotheses if name.partition(".")[0] in wanted]


def _needs(transition: str) -> Needs:
    needs: Needs = {}
    for result in prove(page_sizes=[CORES_AT], jobs=1, only=[transition])[0]:
        used = {name.partition(".")[0] for name in result.core}
        needs.setdefault(result.clause.partition(".")[0], set()).update(used)
    return needs


def _work(job: tuple[str, int | None, Needs]) -> list[Discharged]:
    transition, page_size, needs = job
    candidates = scripts(Spec(), transition, page_size)
    return [answer for script in candidates for answer in discharge(script, needs)]


def discharge_all(jobs: int | None = None) -> Iterator[Discharged]:
    """Yield every obligation of the spec at every page size, in order of completion."""
    names = [INIT, *Spec().transitions]
    with pool(jobs) as processes:
        needs = dict(zip(names, processes.map(_needs, names), strict=True))
        work = [(name, size, needs[name]) for size in (None, *PAGE_SIZES) for name in names]
        for discharged in processes.map(_work, work):
            yield from discharged


def summary(discharged: Iterable[Discharged]) -> tuple[list[str], int]:
    """Return lines and a status: 1 for a refuted obligation, or more than 1 % unknown."""
    known = list(discharged)
    refuted = [result.name for result in known if result.answer == "sat"]
    unknown = [result.name for result in known if result.answer == "unknown"]
    few = sum(result.few for result in known)
    lines = [f"refuted by cvc5: {name}" for name in refuted]
    lines += [f"unknown to cvc5 after {LIMIT // 1000} s: {name}" for name in unknown]
    lines.append(
        f"cvc5 {cvc5.__version__}: {len(known) - len(refuted) - len(unknown)} of {len(known)} "
        f"obligations proved ({few} from what Z3's proofs used), {len(refuted)} refuted, "
        f"{len(unknown)} unknown"
    )
    too_many = len(unknown) > SHARE * len(known)
    return lines, int(bool(refuted) or too_many or not known)
