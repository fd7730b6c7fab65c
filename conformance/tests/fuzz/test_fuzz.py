"""Untrusted files and drivers: an error message or a verdict, never a traceback.

The inputs are those of `make fuzz`, a few hundred of each kind. Hypothesis draws them here, and
simplifies a failing input.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.fuzz import batches, figures, judging, seeds, smaller
from tests.fuzz.batches import Tally
from tests.fuzz.given import FILE, Input
from tests.fuzz.inputs import KINDS, make, untouched
from tests.fuzz.judging import Failed, examine, prepared
from tests.fuzz.odd import BAIT


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with prepared(tmp_path):
        yield tmp_path


COUNTS = {"traces": 150, "logs": 300, "baselines": 150, "journals": 150, "messages": 200}


@pytest.mark.slow
@pytest.mark.parametrize("kind", COUNTS)
def test_inputs_of_chance(kind: str, folder: Path) -> None:
    """Never a traceback, never an unbounded answer, never "conforms" for a figure off by one."""

    @settings(
        max_examples=COUNTS[kind],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def judge(rng: Random) -> None:
        examine(make(kind, rng), folder)

    judge()


@pytest.mark.slow
def test_drivers_that_turn_on_us(folder: Path) -> None:
    """Drivers in their own processes die, hang and flood. No process survives."""
    for number in (0, 3, 5, 8):  # changed lines, a flood, a death
        examine(make("drivers", batches.source("drivers", 0, number)), folder)


def test_the_corpus_is_judged_as_what_it_is(folder: Path) -> None:
    """Unchanged: every log and every driver conforms, and every file is read."""
    verdicts = [examine(unchanged, folder) for unchanged in untouched()]
    assert len(verdicts) > 150 and "refused" not in verdicts


@pytest.mark.slow
@pytest.mark.parametrize("name", ["queue.jsonl", "page-16-window.jsonl"])
def test_each_figure_of_a_log_off_by_one(name: str, folder: Path) -> None:
    """A wrong page, row or length of any kind never conforms, in any iteration."""
    lines = seeds.files("logs")[name].splitlines(keepends=True)
    config = json.loads(lines[0])["config"]
    passed: list[str] = []
    for index, line in enumerate(lines):
        snapshot = json.loads(line).get("snapshot", {})
        for change in _one_of_each(figures.changes(snapshot, config)):
            other = json.loads(line)
            change.make(other["snapshot"])
            data = b"".join(
                [*lines[:index], json.dumps(other).encode(), b"\n", *lines[index + 1 :]]
            )
            try:
                examine(Input("logs", data, ("validate", FILE), wrong=str(change)), folder)
            except Failed:
                passed.append(f"line {index + 1}: {change}")
    assert passed == []


def _one_of_each(changes: Iterator[figures.Change]) -> Iterator[figures.Change]:
    """Yield every change of the first item of each list, and of every figure outside of lists."""
    seen: set[tuple[object, ...]] = set()
    for change in changes:
        step = change.value if change.value in figures.FAR else change.value - change.was
        kind = (*("*" if isinstance(key, int) else key for key in change.path), step)
        if kind not in seen:
            seen.add(kind)
            yield change


# The checks themselves --------------------------------------------------------------------------

Status = Callable[[list[str]], int]
LOG = Input("logs", b"{}", ("validate", FILE))


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Callable[[Status], str]:
    """``instead(status)``: the cause reported if ``status`` replaces the command line."""

    def cause(status: Status, given: Input = LOG) -> str:
        monkeypatch.setattr(judging, "status", status)
        with pytest.raises(Failed) as failed:
            examine(given, folder)
        return failed.value.cause

    return cause


def says(text: str, code: int, on: int = 1) -> Status:
    def status(_: list[str]) -> int:
        (sys.stdout if on == 1 else sys.stderr).write(text)
        return code

    return status


def raises(error: BaseException) -> Status:
    def status(_: list[str]) -> int:
        raise error

    return status


def writes_beside(argv: list[str]) -> int:
    return Path(argv[1]).with_name("of-its-own").write_text("")


def test_what_must_not_happen_is_noticed(instead: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule has a case that breaks it."""
    assert instead(raises(KeyError("row"))) == "KeyError at no line of slotproof"
    long = "the error message of validate is not one short line"
    assert instead(says("slotproof: a\nslotproof: b\n", 2, on=2)) == long
    assert instead(says("slotproof: " + "x" * 3000, 2, on=2)) == long
    assert instead(says("", 70)).startswith("internal error of validate")
    assert instead(says("Traceback (most recent call last):", 1, on=2)).startswith("internal")
    for text in ("\x1b[1m", "\x07", "\x9b1m", "\u202e", "\u2066", "a\rb"):
        assert instead(says(text, 0)) == "control character on standard output of validate"
    wrong = Input("logs", b"{}", ("validate", FILE), wrong="line 3: rows/free/0: 1 becomes 2")
    assert instead(says("", 0), wrong) == "judged conforming: rows/free/*"
    assert instead(says("", 3), wrong) == "judged conforming: rows/free/*"
    right = Input("logs", b"{}", ("validate", FILE), right=True)
    assert instead(says("", 1), right) == "an unchanged input of logs does not conform"
    assert instead(writes_beside) == "validate wrote a file not named on its command line"
    monkeypatch.setattr(judging, "SECONDS", 0.2)
    assert instead(lambda _: sum(1 for _ in iter(int, 1))) == "too slow: validate"


def test_code_of_a_files_choice_is_noticed(folder: Path) -> None:
    """The engine is a function of a module, or a program."""
    document = json.loads(seeds.files("traces")["two-turns.itf.json"])
    for spec in (BAIT, "cmd:true"):
        document["#meta"]["slotproof"]["spec"] = spec
        argv = ("replay", FILE, "--engine", spec)  # named by the user, so it runs
        with pytest.raises(Failed, match=r"^ran: "):
            examine(Input("traces", json.dumps(document).encode(), argv), folder)
        assert (
            examine(Input("traces", json.dumps(document).encode(), argv[:2]), folder) == "refused"
        )


def work(tally: Tally, examine: Callable[[Input, Path], str], count: int = 3) -> list[str]:
    batches.go(tally, 0, iter(range(count)), examine=examine, stuck=1.0)
    return [f"{failure.number}: {failure.cause}" for failure in tally.failures]


def test_a_process_that_does_not_come_back_costs_one_input() -> None:
    """A stuck, dead or oversized process is recorded, and the next inputs are examined."""

    def stuck(given: Input, _: Path) -> str:
        if given == second:
            time.sleep(60)
        return "refused"

    def dead(given: Input, _: Path) -> str:
        if given == second:
            os.abort()
        return "refused"

    second = make("logs", batches.source("logs", 0, 1))
    for what, cause in ((stuck, "no answer"), (dead, "the process died: SIGABRT")):
        tally = Tally("logs")
        assert work(tally, what) == [f"1: {cause}"]
        assert tally.inputs == 3 and tally.verdicts["refused"] == 2


def test_memory_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """An oversized answer fails, and the next input is examined."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("the bound is Linux's")

    def greedy(argv: list[str]) -> int:
        return len(bytes(batches.MEMORY + (100 << 20))) and 0

    monkeypatch.setattr(judging, "status", greedy)
    command = make("logs", batches.source("logs", 0, 0)).argv[0]
    assert work(Tally("logs"), examine, 1) == [f"0: too much memory for {command}"]


def test_a_failing_input_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shrunk to the part that causes the failure."""

    def status(argv: list[str]) -> int:
        if "T-CLOSE" in Path(argv[1]).read_text():
            raise KeyError("T-CLOSE")
        return 0

    monkeypatch.setattr(judging, "status", status)
    given = Input("logs", seeds.files("logs")["two-turns.jsonl"], ("validate", FILE))
    less = smaller.shrunk(given, "KeyError at no line of slotproof")
    assert b"T-CLOSE" in less.data and len(less.data) < 100


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_number_makes_the_same_input(kind: str) -> None:
    inputs = [[make(kind, batches.source(kind, 3, number)) for number in range(30)] for _ in "ab"]
    assert inputs[0] == inputs[1]
    assert len({item.data for item in inputs[0]}) > 20
