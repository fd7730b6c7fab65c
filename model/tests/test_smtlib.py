"""The obligations as SMT-LIB: they match the spec, and a second solver proves them.

`make cvc5`, a part of `make test-all`, discharges all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    """Return the script with an obligation, ``T-SAVE / INV-LOCK.slot``, and the clause."""
    where, _, clause = obligation.partition(" / ")
    candidates = scripts(spec, where.partition(" ")[0], page_size)
    return next(script for script in candidates if script.where == where), clause


@pytest.mark.slow
@pytest.mark.parametrize("page_size", SIZES)
def test_cvc5_proves_a_transition(page_size: int | None) -> None:
    results = [
        goal for script in scripts(Spec(), "T-PARK", page_size) for goal in discharge(script, {})
    ]
    assert {result.answer for result in results} == {"unsat"}
    assert len(results) > 10


def test_the_same_is_asked_as_of_z3() -> None:
    """The scripts ask exactly Z3's questions: every obligation except framing, also of actors at
    rest. Some clauses need only themselves, without framing."""
    for name in (INIT, "T-CLOSE"):
        results, _ = prove(page_sizes=[4], jobs=1, only=[name])
        of_z3 = {result.name for result in results if result.core != (result.clause,)}
        written = {
            script.obligation(clause)
            for script in scripts(Spec(), name, 4)
            for clause in script.goals
        }
        assert of_z3 <= written <= {result.name for result in results}


@pytest.mark.slow
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("transition", ["T-RESTORE", "T-INSERT"])
def test_it_says_what_z3_was_given(transition: str, page_size: int) -> None:
    """The two readings write ⌊x⌋ in different ways: Z3 proves them equal, term by term."""
    for task, script in _beside(transition, page_size):
        assert list(_differences(task, script.text(), page_size)) == []


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
    assert any(_differences(task, script.text().replace(right, wrong, 1), 4))


def _beside(transition: str, page_size: int) -> list[tuple[Task, Script]]:
    written = {script.where: script for script in scripts(Spec(), transition, page_size)}
    return [
        (task, written[task.name]) for task in tasks(Spec(), transition) if task.name in written
    ]


def _differences(task: Task, text: str, page_size: int) -> Iterator[str]:
    """Yield the hypotheses and goals whose text differs from Z3's term."""
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
    yield from ours.keys() ^ written.keys()
    for name in sorted(ours.keys() & written.keys()):
        if prover.solver.check(ours[name] != written[name]) != z3.unsat:
            yield name


def _parsed(text: str, symbols: Symbols) -> dict[str, Any]:
    """Parse the text of a script with Z3's own reader."""
    names = re.findall(r"^\(assert .*\) ; (.*)$", text, re.MULTILINE)
    names += [f"goal {goal}" for goal in re.findall(r'\(echo "[^/]* / ([^/]*) / P=', text)]
    plain = re.sub(r"^\(push 1\).*$|^\(check-sat\).*$", "", text, flags=re.MULTILINE)
    read = z3.parse_smt2_string(plain, ctx=symbols.context)
    terms = [
        z3.Not(formula) if name.startswith("goal ") else formula
        for name, formula in zip(names, read, strict=True)
    ]
    return dict(zip(names, terms, strict=True))


def test_with_p_a_symbol_it_asks_for_no_more_than_is_true() -> None:
    """The facts about floors and multiples hold at P = 4, for any numbers."""
    text = Text(None, frozenset(["slot.Q"]))
    values = {var.name: text.var(var) for var in state.SEEN}
    terms = [text.term(expr, values) for expr in conjuncts(Spec(), Kind.STATE).values()]
    inside = text.inside[terms[0]]
    for term in terms:
        inside |= text.inside[term]
    facts = list(text.facts(inside))
    assert len(facts) > 20
    lines = [f"(declare-fun {name} () {sort})" for name, sort in text.constants.items()]
    # Floors are floors, and aligned terms are aligned.
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
    """With all hypotheses. The correct obligations are not refuted."""
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
    """A consequence of some hypotheses follows from all. The rest of a goal stays out."""
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
    goals = [Discharged(f"T-X / C{n} / P=4", said, 0.1, True) for n, said in enumerate(answers)]
    lines, code = summary(goals)
    assert code == status
    named = [line for line in lines if line.startswith(("refuted", "unknown"))]
    assert len(named) == sum(answer != "unsat" for answer in answers)


@pytest.mark.slow
def test_the_same_text_every_time() -> None:
    one, two = ([script.text() for script in scripts(Spec(), "T-SAVE", None)] for _ in range(2))
    assert one == two
    files = [script.file for name in TRANSITIONS for script in scripts(Spec(), name, 4)]
    assert len(files) == len(set(files))


def test_replace_keeps_a_script() -> None:
    script, clause = _script(Spec(), "T-CLOSE / INV-LOCK.slot")
    assert replace(script, name="other / P=4").goals[clause] == script.goals[clause]


@pytest.mark.slow
def test_obligations_are_written_as_files(tmp_path: Path) -> None:
    assert main(["smtlib", "--out", str(tmp_path), "--transition", "T-PARK"]) == 0
    written = [script for size in SIZES for script in scripts(Spec(), "T-PARK", size)]
    assert {path.name for path in tmp_path.iterdir()} == {script.file for script in written}
    asked = sum(path.read_text().count("(check-sat)") for path in tmp_path.iterdir())
    assert asked == sum(len(script.goals) for script in written)
