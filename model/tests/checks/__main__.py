"""The model's checks of itself, as commands with the names of ``make`` targets.

Status 1 means an error in the spec. Status 2 means that TLC cannot run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from slotproof_model.proofs.obligations import INIT
from slotproof_model.proofs.prove import PAGE_SIZES
from slotproof_model.spec.whole import Spec

SIZES = ("sessions", "pages", "page_size")


def explore(asked: argparse.Namespace) -> int:
    """Explore every state of small worlds, and the default worlds with named pages."""
    from tests.checks.explore import default, explore as explored, report
    from tests.checks.pages import PAGED, count_pages

    sizes = {name: getattr(asked, name) for name in SIZES}
    results = [explored(bounds, depth=asked.depth) for bounds in default(**sizes)]
    print(*report(results), sep="\n")
    wrong = any(result.broken for result in results)
    for bounds in () if any([*sizes.values(), asked.depth]) else PAGED:
        seen = count_pages(bounds)
        wrong = wrong or seen.mismatch is not None
        print(f"{bounds.name}: {seen.states} states, {seen.mismatch or 'the figures count pages'}")
    return int(wrong)


def wrong_specs(asked: argparse.Namespace) -> int:
    """Refute every wrong spec by the clause made for it."""
    return _judged({"wrong"}, asked.jobs)


def spec_mutants(asked: argparse.Namespace) -> int:
    """Prove mutants of the spec, wrong specs and known bugs: refuted, or harmless."""
    return _judged({"museum", "wrong", "systematic"}, asked.jobs)


def _judged(kinds: set[str], jobs: int | None) -> int:
    from tests.checks.mutants import judge_all, table

    verdicts = list(judge_all(kinds, jobs))
    print(*table(verdicts), sep="\n")
    return int(any(verdict.fate == "survives" for verdict in verdicts))


def cvc5(asked: argparse.Namespace) -> int:
    """Discharge every obligation with cvc5."""
    from tests.checks.with_cvc5 import discharge_all, summary

    lines, status = summary(discharge_all(asked.jobs))
    print(*lines, sep="\n")
    return status


def smtlib(asked: argparse.Namespace) -> int:
    """Write the obligations as SMT-LIB 2: one file per transition, layer and page size."""
    from tests.checks.smtlib import scripts

    asked.out.mkdir(parents=True, exist_ok=True)
    for size in (*PAGE_SIZES, None):
        for name in asked.transition or (INIT, *Spec().transitions):
            for script in scripts(Spec(), name, size):
                (asked.out / script.file).write_text(script.text(), encoding="utf-8")
    print(f"{asked.out}: a solver says `unsat` to each, `cvc5 --incremental FILE` or `z3 FILE`")
    return 0


def tlc(asked: argparse.Namespace) -> int:
    """Explore the spec with several actors, and reopen closed holes, with TLC."""
    from tests.checks.tlc import run

    return run(asked.workers)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.checks", description=__doc__)
    checks = parser.add_subparsers(required=True, metavar="CHECK")

    def add(does: Callable[[argparse.Namespace], int], *numbers: str) -> argparse.ArgumentParser:
        name = does.__name__.replace("_", "-")
        check = checks.add_parser(name, help=does.__doc__, description=does.__doc__)
        check.set_defaults(does=does)
        for number in numbers:
            check.add_argument(f"--{number.replace('_', '-')}", type=int, metavar="N")
        return check

    add(explore, *SIZES, "depth")
    add(wrong_specs, "jobs")
    add(spec_mutants, "jobs")
    add(cvc5, "jobs")
    add(tlc, "workers")
    written = add(smtlib)
    written.add_argument("--out", type=Path, default=Path("build/smtlib"), metavar="DIR")
    written.add_argument("--transition", action="append", metavar="TRANSITION")
    asked = parser.parse_args(argv)
    return int(asked.does(asked))


if __name__ == "__main__":
    sys.exit(main())
