"""The obligations as SMT-LIB: they say what the spec says, and a second solver proves them.

All of them are discharged by `make cvc5`, a part of `make test-all`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import z3

from slotproof_model.proofs.obligations import INIT, Task, tasks
from slotproof_model.proofs.prove import PAGE_SIZES, Prover, framed, prove
from slotproof_model.proofs.symbolic import Symbols
from slotproof_model.spec import state
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec, conjuncts
from tests.checks.__main__ import main
from tests.checks.smtlib import Script, Text, scripts
from tests.checks.with_cvc5 import Discharged, ask, discharge, relevant, summary
from tests.checks.wrong import WRONG

SIZES = (*PAGE_SIZES, None)


def _script(spec: Spec, obligation: str, page_size: int | None = 4) -> tuple[Script, str]:
    """The script that has an obligation, ``T-SAVE / INV-LOCK.slot``, and its clause."""
    where, _, clause = obligation.partition(" / ")
    found = scripts(spec, where.partition(" ")[0], page_size)
    return next(each for each in found if each.where == where), clause


@pytest.mark.slow
@pytest.mark.parametrize("page_size", SIZES)
def test_cvc5_proves_a_transition(page_size: int | None) -> None:
    found = [
        each for script in scripts(Spec(), "T-PARK", page_size) for each in discharge(script, {})
    ]
    assert {each.answer for each in found} == {"unsat"}
    assert len(found) > 10


def test_the_same_is_asked_as_of_z3() -> None:
    """Every obligation that is not framing, the other actors' included, and none that Z3 is not
    asked. (Of some that are no framing the clause itself is all that is needed.)"""
    for name in (INIT, "T-CLOSE"):
        results, _ = prove(page_sizes=[4], jobs=1, only=[name])
        of_z3 = {each.name for each in results if each.core != (each.clause,)}
        written = {
            script.obligation(clause)
            for script in scripts(Spec(), name, 4)
            for clause in script.goals
        }
        assert of_z3 <= written <= {each.name for each in results}


@pytest.mark.slow
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("transition", ["T-RESTORE", "T-INSERT"])
def test_it_says_what_z3_was_given(transition: str, page_size: int) -> None:
    """Two readings of the tree, ⌊x⌋ written in two ways: Z3 proves them equal, term by term."""
    for task, script in _beside(transition, page_size):
        assert _differences(task, script.text(), page_size) == []


CORRUPTED = {
    "a hypothesis lost": ("(assert (= slot.locked slot.holding)) ; INV-LOCK.slot\n", ""),
    "a hypothesis turned": ("(= slot.locked slot.holding)", "(= slot.locked req.locked)"),
    "a comparison turned": ("(< ", "(<= "),
    "a rounding lost": ("(* 4 (div ", "(* 1 (div "),
    "a negation lost": ("(not ", "(or "),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", CORRUPTED)
def test_a_corrupted_script_is_noticed(what: str) -> None:
    right, wrong = CORRUPTED[what]
    task, script = _beside("T-RESTORE", 4)[0]
    assert right in script.text()
    assert _differences(task, script.text().replace(right, wrong, 1), 4) != []


def _beside(transition: str, page_size: int) -> list[tuple[Task, Script]]:
    written = {each.where: each for each in scripts(Spec(), transition, page_size)}
    return [
        (task, written[task.name]) for task in tasks(Spec(), transition) if task.name in written
    ]


def _differences(task: Task, text: str, page_size: int) -> list[str]:
    """Hypotheses and goals of which the text says something else than Z3 was given."""
    prover = Prover([task], page_size)
    symbols, before = prover.symbols, prover.before
    values = dict(before)
    for name, term in before.items():
        new = task.after.get(name)
        values[f"{name}'"] = term if new is None else symbols.term(new, before)
    ours = {name: symbols.term(expr, before) for name, expr in task.hypotheses.items()}
    ours |= {
        f"goal {goal.clause}": symbols.term(goal.expr, values)
        for goal in task.goals
        if not framed(task, goal)
    }
    symbols.settle(prover.solver)
    written = _parsed(text, symbols)
    found = [*(ours.keys() ^ written.keys())]
    both = [name for name in ours if name in written]
    if prover.solver.check(z3.Or(*(ours[name] != written[name] for name in both))) != z3.unsat:
        found.append("what is said")
    return found


def _parsed(text: str, symbols: Symbols) -> dict[str, Any]:
    """What the text of a script says, by Z3's own reader."""
    names = re.findall(r"^\(assert .*\) ; (.*)$", text, re.MULTILINE)
    names += [f"goal {each}" for each in re.findall(r'\(echo "[^/]* / ([^/]*) / P=', text)]
    plain = re.sub(r"^\(push 1\).*$|^\(check-sat\).*$", "", text, flags=re.MULTILINE)
    read = z3.parse_smt2_string(plain, ctx=symbols.context)
    terms = [
        z3.Not(each) if name.startswith("goal ") else each
        for name, each in zip(names, read, strict=True)
    ]
    return dict(zip(names, terms, strict=True))


def test_with_p_a_symbol_it_asks_for_no_more_than_is_true() -> None:
    """What is said of floors and multiples holds at P = 4, whatever the numbers are."""
    text = Text(None, frozenset(["slot.Q"]))
    values = {var.name: text.var(var) for var in state.SEEN}
    terms = [text.term(expr, values) for expr in conjuncts(Spec(), Kind.STATE).values()]
    inside = text.inside[terms[0]]
    for term in terms:
        inside |= text.inside[term]
    facts = list(text.facts(inside))
    assert len(facts) > 20
    lines = [f"(declare-fun {name} () {sort})" for name, sort in text.constants.items()]
    # Floors are floors, and what is called aligned is.
    lines += [f"(define-fun {name} () {sort} {said})" for name, (sort, said) in _ordered(text)]
    lines += ["(assert (= P 4))", "(assert (= slot.Q (* 4 (div slot.Q 4))))"]
    lines += [f"(assert (= {name} (* 4 (div {of} 4))))" for name, of in text.floors.items()]
    lines.append(f"(assert (not (and {' '.join(facts)})))")
    solver = z3.Solver()
    solver.from_string("\n".join(lines))
    assert solver.check() == z3.unsat


def _ordered(text: Text) -> list[tuple[str, tuple[str, str]]]:
    return list(text.definitions.items())


@pytest.mark.parametrize(
    "name",
    ["stub-clears-in-flight", "evict-pinned", "match-locks-part", "save-forgets-close",
     "match-without-window", "row-in-use", "page-at-two-positions", "unlock-if-none-is-shared"],
)  # fmt: skip
def test_a_wrong_spec_is_refuted_by_cvc5_too(name: str) -> None:
    """With all hypotheses; and what is right of it is not."""
    wrong = WRONG[name]
    script, clause = _script(wrong.spec, wrong.by)
    assert ask(script.text([clause])) == ["sat"]
    right, _ = _script(Spec(), wrong.by)
    assert clause not in right.goals or ask(right.text([clause])) == ["unsat"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", WRONG)
def test_every_wrong_spec_is_refuted_by_cvc5_too(name: str) -> None:
    script, clause = _script(WRONG[name].spec, WRONG[name].by)
    assert ask(script.text([clause])) == ["sat"]


def test_few_hypotheses_are_some_of_all() -> None:
    """So what follows from them follows from all; the rest of a goal is left alone."""
    script, clause = _script(Spec(), "T-RESTORE / INV-ORDER.req")
    few = relevant(script, clause, {"INV-ORDER": {"INV-COVER"}})
    assert set(few) < set(script.hypotheses)
    assert {"guard.prefix", "INV-ORDER.slot", "INV-COVER.req"} <= set(few)
    assert script.text([clause], few).count("(check-sat)") == 1


def test_a_script_that_is_no_smt_lib_is_an_error() -> None:
    with pytest.raises((ValueError, RuntimeError)):
        ask("(set-logic QF_LIA)\n(assert (= nobody 1))\n(check-sat)\n")


@pytest.mark.parametrize(
    ("answers", "status"),
    [(["unsat"] * 3, 0), (["unsat", "sat"], 1), (["unsat"] * 99 + ["unknown"], 0),
     (["unsat"] * 98 + ["unknown"], 1), ([], 1)],
)  # fmt: skip
def test_what_is_refuted_or_unknown_is_named(answers: list[Any], status: int) -> None:
    found = [Discharged(f"T-X / C{n} / P=4", each, 0.1, True) for n, each in enumerate(answers)]
    lines, code = summary(found)
    assert code == status
    named = [line for line in lines if line.startswith(("refuted", "unknown"))]
    assert len(named) == sum(each != "unsat" for each in answers)


@pytest.mark.slow
def test_the_same_text_every_time() -> None:
    one, two = ([each.text() for each in scripts(Spec(), "T-SAVE", None)] for _ in range(2))
    assert one == two
    files = [each.file for name in TRANSITIONS for each in scripts(Spec(), name, 4)]
    assert len(files) == len(set(files))


def test_replace_keeps_a_script() -> None:
    script, clause = _script(Spec(), "T-CLOSE / INV-LOCK.slot")
    assert replace(script, name="other / P=4").goals[clause] == script.goals[clause]


@pytest.mark.slow
def test_obligations_are_written_as_files(tmp_path: Path) -> None:
    assert main(["smtlib", "--out", str(tmp_path), "--transition", "T-PARK"]) == 0
    found = [script for size in SIZES for script in scripts(Spec(), "T-PARK", size)]
    assert {path.name for path in tmp_path.iterdir()} == {script.file for script in found}
    asked = sum(path.read_text().count("(check-sat)") for path in tmp_path.iterdir())
    assert asked == sum(len(script.goals) for script in found)
