"""Systematic mutants: what is changed, how it comes into a process, what is said of it."""

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

EVERY = {each.name: each for each in systematic()}


def changes(*lines: str) -> list[tuple[str, str]]:
    """Operators and changes of a function of these lines."""
    source = "\n".join(["def f(self, a, b):", *(f"    {line}" for line in lines), ""])
    return [
        (each.operator, each.name.removeprefix("m.f: ").partition(" in “")[0])
        for each in of_source("m", source)
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
    found = [(operator, text.strip()) for operator, text in changes(line)]
    assert [each for each in expected if (each[0], each[1].strip()) not in found] == []


def test_conditions_of_statements() -> None:
    found = changes("while a:", "    if b.c:", "        continue", "    break")
    assert ("condition", "while a: → while not a:") in found
    assert ("condition", "if b.c: → if False:") in found
    assert ("loop", "continue → break") in found and ("loop", "break → pass") in found


def test_what_is_left_alone() -> None:
    """A text, an assertion, an unknown name: none of them would tell anything."""
    assert changes('"""Says."""', "assert a < b", "raise ValueError(1 + 1)", 'f"{1 + 1}"') == [
        ("deletion", "f'{1 + 1}' → pass")
    ]
    assert ("deletion", "c = a → pass") not in changes("c = a")


def test_a_name_stays_while_other_lines_change() -> None:
    before = {each.name for each in of_source("m", "def f(a):\n    return a + 1\n")}
    after = {each.name for each in of_source("m", "def f(a):\n    a.g()\n    return a + 1\n")}
    assert before < after
    assert len(EVERY) == sum(1 for _ in systematic()) > 2000


def test_drawing_is_by_name() -> None:
    """The same seed draws the same ones, with few exceptions where others come or go."""
    every = list(EVERY.values())
    sample = drawn(every, 40, 0)
    rest = [each for each in every if each.name != sample[3].name]
    assert len({each.name for each in sample}) == 40
    assert [each.name for each in drawn(rest, 39, 0)] == [
        each.name for each in sample if each is not sample[3]
    ]
    assert {each.name for each in drawn(every, 40, 1)} != {each.name for each in sample}


@pytest.fixture
def undone() -> Iterator[None]:
    """The functions that are changed here are what they were."""
    functions: list[FunctionType] = [
        plain_memory.new_pages,  # type: ignore[list-item]
        Session.accepts_turn.fget,  # type: ignore[attr-defined]
        Scheduler.step,  # type: ignore[list-item]
    ]
    before = [each.__code__ for each in functions]
    yield
    for each, code in zip(functions, before, strict=True):
        each.__code__ = code


def named(function: str, change: str) -> SystematicMutant:
    (mutant,) = [
        each for each in EVERY.values() if each.name.startswith(f"{function}: {change} in “")
    ]
    return mutant


@pytest.mark.usefixtures("undone")
def test_a_mutant_is_where_its_function_is() -> None:
    """Also where it was imported by name, is a property, or is inherited."""
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
    """Those of the sample that `make test-all` has, and a raise in their places."""
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


# What is said -----------------------------------------------------------------------------------


def test_what_is_recorded_exists() -> None:
    """A mutant that is no more has no reason; a policy is a sentence of the spec."""
    for name, (kind, reason) in recorded().items():
        assert name in EVERY, f"{name}: no such mutant: has its line changed?"
        assert kind in (*EXCUSED, "open") and reason.endswith(".")
        if kind == "policy":
            assert any(clause in reason for clause in (*INVARIANTS, *TRANSITIONS)), name


def test_a_survivor_has_a_raise_in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    mutants = drawn(EVERY.values(), 5, 0)
    killed, alone, never, stuck, died = (each.name for each in mutants)

    def pretend(mutant: SystematicMutant, plan: Plan, out: Connection, raises: bool) -> None:
        del plan
        if mutant.name == stuck:
            time.sleep(60)
        if mutant.name == died:
            os._exit(1)
        dies = mutant.name == killed or (raises and mutant.name == alone)
        out.send({"fate": "killed", "by": "INV-ONCE"} if dies else {"fate": "survives"})

    monkeypatch.setattr(runner, "_mutated", pretend)
    fates = {each.name: each for each in run(mutants, Plan({}), 2, seconds=1.0)}
    assert {name: each.fate for name, each in fates.items()} == {
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
        "6 of 8 killed (75.0 %); besides 1 equivalent, 0 unreachable, 1 policy (20.0 % of 10)",
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
