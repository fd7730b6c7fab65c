"""Systematic mutants: their changes, their installation in a process, and their report."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from types import FunctionType

import pytest

from slotproof.search.plan import Plan
from slotproof_engine.kernels import plain_memory
from slotproof_engine.kernels.plain_memory import new_pages
from slotproof_engine.mutants.answers import OneMoreRuns
from slotproof_engine.requests.req import Session
from slotproof_engine.scheduling.scheduler import Scheduler
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.transitions import TRANSITIONS
from tests.systematic import __main__ as runner
from tests.systematic.__main__ import EXCUSED, Fate, recorded, run, told
from tests.systematic.places import SystematicMutant, drawn, of_source, systematic

EVERY = {mutant.name: mutant for mutant in systematic()}


def changes(*lines: str) -> list[tuple[str, str]]:
    """Return the operators and changes of a function with these lines."""
    source = "\n".join(["def f(self, a, b):", *(f"    {line}" for line in lines), ""])
    return [
        (mutant.operator, mutant.name.removeprefix("m.f: ").partition(" in “")[0])
        for mutant in of_source("m", source)
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a < b", [("comparison", "a < b → a <= b"), ("comparison", "a < b → a >= b")]),
        ("a is b", [("comparison", "a is b → a is not b")]),
        ("a - b", [("arithmetic", "a - b → a + b"), ("operand", "a - b → a")]),
        ("a // b", [("rounding", "a // b → -(-a // b)")]),
        ("-a", [("condition", "-a → a")]),
        ("a and b", [("condition", "a and b → a or b"), ("conjunct", "a and b → b")]),
        ("self.f(3, x=True)", [("constant", "3 → 4"), ("constant", "3 → 2")]),
        ("self.f(3, x=True)", [("boolean", "True → False")]),
        ("f(a, b)", [("arguments", "f(a, b) → f(b, a)"), ("deletion", "f(a, b) → pass")]),
        ("max(a, b)", [("bound", "max(a, b) → b"), ("name", "max → min")]),
        ("range(a)", [("range", "range(a) → range(a + 1)"), ("range", "range(a) → range(a - 1)")]),
        ("a[b:]", [("slice", "b: → b + 1:"), ("slice", "b: → b - 1:")]),
        ("a.page", [("name", "a.page → a.swa_page")]),
        ("list(a)", [("copy", "list(a) → a")]),
        ("a = b", [("deletion", "a = b → pass")]),
        ("a += b", [("assignment", "a += b → a = b"), ("assignment", "a += b → a -= b")]),
        ("return a", [("deletion", "return a → pass")]),
        ("a if b else 2", [("condition", "a if b else 2 → a"), ("condition", "a if b else 2 → 2")]),
        ("[x for x in a if x]", [("condition", " for x in a if x → for x in a")]),
    ],
)
def test_operators(line: str, expected: list[tuple[str, str]]) -> None:
    actual = [(operator, text.strip()) for operator, text in changes(line)]
    assert [change for change in expected if (change[0], change[1].strip()) not in actual] == []


def test_conditions_of_statements() -> None:
    actual = changes("while a:", "    if b.c:", "        continue", "    break")
    assert ("condition", "while a: → while not a:") in actual
    assert ("condition", "if b.c: → if False:") in actual
    assert ("loop", "continue → break") in actual and ("loop", "break → pass") in actual


def test_what_is_left_alone() -> None:
    """Changes to a text, an assertion or an unknown name carry no information."""
    assert changes('"""Says."""', "assert a < b", "raise ValueError(1 + 1)", 'f"{1 + 1}"') == [
        ("deletion", "f'{1 + 1}' → pass")
    ]
    assert ("deletion", "c = a → pass") not in changes("c = a")


def test_a_name_stays_while_other_lines_change() -> None:
    before = {mutant.name for mutant in of_source("m", "def f(a):\n    return a + 1\n")}
    after = {mutant.name for mutant in of_source("m", "def f(a):\n    a.g()\n    return a + 1\n")}
    assert before < after
    assert len(EVERY) == sum(1 for _ in systematic()) > 2000


def test_drawing_is_by_name() -> None:
    """The same seed draws the same mutants, even if others come or go, with few exceptions."""
    every = list(EVERY.values())
    sample = drawn(every, 40, 0)
    rest = [mutant for mutant in every if mutant.name != sample[3].name]
    assert len({mutant.name for mutant in sample}) == 40
    assert [mutant.name for mutant in drawn(rest, 39, 0)] == [
        mutant.name for mutant in sample if mutant is not sample[3]
    ]
    assert {mutant.name for mutant in drawn(every, 40, 1)} != {mutant.name for mutant in sample}


@pytest.fixture
def undone() -> Iterator[None]:
    """Restore the functions changed by a test."""
    functions: list[FunctionType] = [
        plain_memory.new_pages,  # type: ignore[list-item]
        Session.accepts_turn.fget,  # type: ignore[attr-defined]
        Scheduler.step,  # type: ignore[list-item]
    ]
    before = [function.__code__ for function in functions]
    yield
    for function, code in zip(functions, before, strict=True):
        function.__code__ = code


def named(function: str, change: str) -> SystematicMutant:
    (mutant,) = [it for it in EVERY.values() if it.name.startswith(f"{function}: {change} in “")]
    return mutant


@pytest.mark.usefixtures("undone")
def test_a_mutant_is_where_its_function_is() -> None:
    """It also reaches importers by name, properties and subclasses."""
    assert new_pages([(0, 3, 5)], 4) == 1
    named("kernels.plain_memory.new_pages", "last - first → last + first").apply()
    assert new_pages([(0, 3, 5)], 4) == 3
    assert Session("s").accepts_turn
    named("req.Session.accepts_turn", "not self.closing → self.closing").apply()
    assert not Session("s").accepts_turn
    step = OneMoreRuns.step.__code__
    named("scheduler.Scheduler.step", "self.process_result(result) → pass").apply()
    assert OneMoreRuns.step.__code__ is not step


@pytest.mark.usefixtures("undone")
def test_a_raise_in_its_place() -> None:
    named("kernels.plain_memory.new_pages", "last - first → last + first").apply_raise()
    with pytest.raises(KeyError, match="reached"):
        plain_memory.new_pages([(0, 3, 5)], 4)


def test_every_mutant_compiles() -> None:
    """The mutants of the sample in `make test-all`, and a raise in their places."""
    for mutant in drawn(EVERY.values(), 40, 0):
        child = os.fork()
        if child == 0:
            try:
                mutant.apply_raise()
                mutant.apply()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0, mutant.name


# Records and reports ----------------------------------------------------------------------------


def test_what_is_recorded_exists() -> None:
    """A record needs an existing mutant. A policy names a clause or transition of the spec."""
    for name, (kind, reason) in recorded().items():
        assert name in EVERY, f"{name}: no such mutant. If its line changed, update the record"
        assert kind in (*EXCUSED, "open") and reason.endswith(".")
        if kind == "policy":
            assert any(clause in reason for clause in (*INVARIANTS, *TRANSITIONS)), name


def test_a_survivor_has_a_raise_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    mutants = drawn(EVERY.values(), 5, 0)
    killed, alone, never, stuck, died = (mutant.name for mutant in mutants)

    def pretend(mutant: SystematicMutant, plan: Plan, out: Connection, raises: bool) -> None:
        del plan
        if mutant.name == stuck:
            time.sleep(60)
        if mutant.name == died:
            os._exit(1)
        dies = mutant.name == killed or (raises and mutant.name == alone)
        out.send({"fate": "killed", "by": "INV-ONCE"} if dies else {"fate": "survives"})

    monkeypatch.setattr(runner, "_mutated", pretend)
    fates = {fate.name: fate for fate in run(mutants, Plan({}), 2, seconds=1.0)}
    assert {name: fate.fate for name, fate in fates.items()} == {
        killed: "killed",
        alone: "survives",
        never: "unreachable",
        stuck: "stuck",
        died: "died",
    }


def test_the_rate_is_of_those_that_are_not_excused() -> None:
    fates = [
        *[Fate("a", "bound", "killed", "INV-ONCE.reported")] * 6,
        *[Fate("b", "bound", "survives"), Fate("c", "bound", "inconclusive", "never: T-OOM")],
        *[Fate("d", "bound", "equivalent"), Fate("e", "bound", "policy")],
    ]
    assert list(told(fates)) == [
        "6 killed, 1 survives, 1 inconclusive, 1 equivalent, 1 policy",
        "killed by INV-ONCE 6",
        "6 of 8 killed (75.0 %). Excused: 1 equivalent, 0 unreachable, 1 policy (20.0 % of 10)",
    ]


@pytest.mark.slow
def test_one_by_hand() -> None:
    mutant = named("scheduler.Scheduler.step", "self.process_result(result) → pass")
    program = [sys.executable, "-m", "tests.systematic"]
    done = subprocess.run(
        [*program, "--name", mutant.name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "1 of 1 killed (100.0 %)" in done.stdout
