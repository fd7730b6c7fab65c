"""A second solver: cvc5 on the obligations as SMT-LIB (``smtlib``), all that a solver is asked.

First with the hypotheses that Z3's proofs of the clause used (``cores.json``): what follows from
some follows from all. Where that is not enough, with all of them, for 30 seconds.

``python -m slotproof_model.exports.second`` discharges every obligation at every page size. It ends
with status 1 if one is refuted, or more than one in a hundred is unknown.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import cvc5

from slotproof_model.exports.smtlib import Script, scripts
from slotproof_model.proofs import cores
from slotproof_model.proofs.obligations import INIT
from slotproof_model.proofs.pool import pool
from slotproof_model.proofs.prove import PAGE_SIZES
from slotproof_model.spec.whole import Spec

SOON, LIMIT = 3_000, 30_000
"""Milliseconds for a question with few hypotheses, and with all."""
SHARE = 0.01
"""Of the obligations, how many may stay unknown."""
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


def discharge(script: Script, needs: dict[str, set[str]]) -> Iterator[Discharged]:
    """Every obligation of a script. ``needs``: by invariant, the names of what proofs used."""
    for clause in script.goals:
        begin = time.perf_counter()
        few = relevant(script, clause, needs)
        answer = ask(script.text([clause], few), SOON)[0]
        enough = answer == "unsat"
        if not enough:
            answer = ask(script.text([clause]), LIMIT)[0]
        yield Discharged(script.obligation(clause), answer, time.perf_counter() - begin, enough)


def relevant(script: Script, clause: str, needs: dict[str, set[str]]) -> list[str]:
    """Hypotheses that a proof of the clause may need: the guard, the environment, the choices, the
    clause's own invariant, and what Z3's proofs of it used."""
    mine = clause.partition(".")[0]
    wanted = {mine, "guard", "environment", "choice", "allowance", *needs.get(mine, ())}
    return [name for name in script.hypotheses if name.partition(".")[0] in wanted]


def _needs(transition: str) -> dict[str, set[str]]:
    known = cores.load().needs.get(transition, {})
    return {
        id_: {name.partition(".")[0] for name in need.invariants} for id_, need in known.items()
    }


def _work(job: tuple[Spec, str, int | None]) -> list[Discharged]:
    spec, transition, page_size = job
    needs = _needs(transition)
    return [
        each for script in scripts(spec, transition, page_size) for each in discharge(script, needs)
    ]


def discharge_all(
    page_sizes: Iterable[int | None] = (*PAGE_SIZES, None), jobs: int | None = None
) -> Iterator[Discharged]:
    """Every obligation of the spec, as they come."""
    spec = Spec()
    names = [INIT, *spec.transitions]
    work = [(spec, name, size) for size in sorted(page_sizes, key=bool) for name in names]
    with pool(jobs) as processes:
        for found in processes.map(_work, work):
            yield from found


def summary(found: Iterable[Discharged]) -> tuple[list[str], int]:
    """What there is to say, and the exit status."""
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
    too_many = len(unknown) > SHARE * cores.load().needed
    return lines, int(bool(refuted) or too_many or not known)


def main() -> int:
    parser = argparse.ArgumentParser(prog="slotproof_model.exports.second", description=__doc__)
    parser.add_argument("--jobs", type=int, default=None)
    asked = parser.parse_args()
    lines, status = summary(discharge_all(jobs=asked.jobs))
    sys.stdout.write("\n".join(lines) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
