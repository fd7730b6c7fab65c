"""Guided search: what it draws is valid, what it finds is a finding as any other, and the same task
gives the same result anywhere."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from slotproof.engines.base import EngineFailed
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command, check
from slotproof.protocol.config import CONFIGS
from slotproof.protocol.snapshot import Snapshot
from slotproof.reports.trace import Trace
from slotproof.search.actions import Action, Drawing
from slotproof.search.domains import Domain
from slotproof.search.features import features
from slotproof.search.findings import Finding
from slotproof.search.guided import CorpusEntry, Explore, Explored, share
from slotproof.search.plan import Plan
from slotproof.search.rules import Rule, clients_for, rules_of

OFFERED = InProcessEngine().capabilities.commands


def task(config: str, examples: int, seed: int = 0, **more: Any) -> Explore:
    blank = Trace("reference", "reference", "reference", CONFIGS[config], 0, [], [], minimal=False)
    return Explore(Plan({config: CONFIGS[config]}), blank, seed, 0, examples, **more)


def explored(
    task: Explore, engine: InProcessEngine | None = None, stop: Callable[[], bool] = lambda: False
) -> Explored:
    return task.run(engine or InProcessEngine(), lambda _: None, stop)


def rules(config: str) -> list[Rule]:
    return rules_of(clients_for(OFFERED, CONFIGS[config]))


def told(result: Explored) -> str:
    """All of a result that a journal has."""
    return json.dumps(
        [
            [each.to_json() for each in result.corpus],
            sorted(result.reached.items()),
            result.coverage.commands,
            [each.trace.commands for each in result.findings],
        ]
    )


# What is drawn --------------------------------------------------------------------------------


@pytest.mark.parametrize("config", ["p1", "p16-swa", "p4-vllm", "p1-draft-overlap"])
def test_arguments_are_of_their_domains_however_often_they_are_changed(config: str) -> None:
    """Hypothesis' strategy of a domain has the same values: it can draw each of them."""
    random = Random(0)
    for each in rules(config):
        for domain in each.fields.values():
            drawn = {repr(domain.draw(random)) for _ in range(3000)}
            value = domain.draw(random)
            for _ in range(100):
                value = domain.near(random, value)
                assert domain.holds(value) and domain.holds(domain.draw(random))
                if len(drawn) < 100:  # of prompts there are more than are drawn here
                    assert repr(value) in drawn


@pytest.mark.parametrize("config", ["p1", "p4-vllm"])
def test_an_action_that_nobody_draws_is_no_part_of_an_example(config: str) -> None:
    """A journal may say anything: what could not be drawn is passed over, in any argument."""
    drawing, odd = Drawing(rules(config), 8, Random(0)), (None, "x", 10**9, -1, (), ("Chosen",))
    for rule in rules(config):
        drawing.swarm = [rule]
        action = drawing.action()
        assert drawing.takes(action)
        assert not drawing.takes(Action(rule.name, {**action.arguments, "../etc": 1}))
        for name in action.arguments:
            wrong = [each for each in odd if not rule.fields[name].holds(each)]
            assert wrong, f"{rule.name} takes anything as {name}"
            for each in wrong:
                assert not drawing.takes(Action(rule.name, {**action.arguments, name: each}))
                kept = CorpusEntry(
                    (Action(rule.name, {**action.arguments, name: each}),), frozenset()
                )
                assert explored(task(config, 1, corpus=(kept,))).whole
    assert not drawing.takes(Action("__init__", {}))


def test_both_draw_the_same_values() -> None:
    """Of domains that are small enough: every value that one draws, the other does."""

    def of_hypothesis(domain: Domain) -> set[str]:
        from hypothesis import HealthCheck, given, settings

        found: set[str] = set()

        @settings(
            max_examples=1500, database=None, deadline=None, suppress_health_check=[*HealthCheck]
        )
        @given(domain.strategy)
        def note(value: object) -> None:
            found.add(repr(value))

        note()
        return found

    random = Random(0)
    by_name = {each.name: each for each in rules("p1-draft")}
    for rule, field in (("abort", "live"), ("bare_turn", "who"), ("speculative_turn", "then")):
        domain = by_name[rule].fields[field]
        assert {repr(domain.draw(random)) for _ in range(500)} == of_hypothesis(domain)


class _Checked(InProcessEngine):
    """Takes nothing but commands of the protocol, and no request twice."""

    rids: set[str]

    def reset(self, config: Any, seed: int) -> None:
        self.rids = set()
        super().reset(config, seed)

    def do(self, command: Command) -> list[Snapshot]:
        assert check(command) == command and command["do"] in OFFERED
        if command["do"] == "submit":
            assert command["rid"] not in self.rids
            self.rids.add(command["rid"])
        return super().do(command)


@pytest.mark.parametrize("config", ["p4-draft", "p4-vllm"])
def test_lists_that_were_changed_are_commands_of_the_protocol(config: str) -> None:
    drawing = Drawing(rules(config), 40, Random(1))
    pool = [drawing.fresh() for _ in range(4)]
    for _ in range(30):
        pool.append(drawing.mutated(pool))
    assert all(0 < len(each) <= 40 for each in pool)
    corpus = tuple(CorpusEntry(tuple(each), frozenset()) for each in pool[-3:])
    assert explored(task(config, 6, corpus=corpus), _Checked()).whole


def test_actions_are_written_and_read_again() -> None:
    drawing = Drawing(rules("p4-draft"), 40, Random(2))
    actions = [each for _ in range(20) for each in drawing.fresh()]
    data = json.loads(json.dumps([each.to_json() for each in actions]))
    assert [Action.from_json(each) for each in data] == actions
    assert {each.rule for each in actions} == {each.name for each in rules("p4-draft")}


# What is reached --------------------------------------------------------------------------------

COMMANDS: list[Command] = [
    {"do": "open", "session": "s1"},
    {
        "do": "submit",
        "session": "s1",
        "rid": "r1",
        "tokens": [1, 2, 3, 4, 5],
        "max_new": 2,
        "stop": [],
    },
    {"do": "step", "n": 3},
    {"do": "close", "session": "s1"},
    {"do": "step", "n": 1},
]
REACHED = [
    "end length turn running 1 +q",
    "figures T-CLOSE u= swa_u0",
    "figures T-DECODE d1 k1",
    "figures T-EXTEND t+ sampled1 row0",
    "figures T-INSERT q= swa_x0 dup0 swa_dup0 u= swa_u0",
    "figures T-MATCH m0 u0 swa_u0",
    "figures T-OPEN ",
    "figures T-SAVE F~",
    "figures T-SUBMIT new+",
    "left T-CLOSE -",
    "left T-DECODE - slot<~q",
    "left T-EXTEND turn running 1 +q",
    "left T-INSERT turn running 1 +q",
    "left T-MATCH turn running 1 +q",
    "left T-OPEN -",
    "left T-SAVE - slot<~q",
    "left T-SUBMIT turn running 1 +q",
    "room T-CLOSE = 0",
    "room T-DECODE = 1",
    "room T-EXTEND  no row 0",
    "room T-INSERT  no row 0",
    "room T-MATCH  no row 0",
    "room T-OPEN  no row 0",
    "room T-SAVE = 1",
    "room T-SUBMIT  no row 0",
    "together T-DECODE T-SAVE",
    "together T-EXTEND T-INSERT T-MATCH T-OPEN T-SUBMIT",
    "triple   T-OPEN",
    "triple  T-OPEN T-SUBMIT",
    "triple T-DECODE T-SAVE T-CLOSE",
    "triple T-EXTEND T-INSERT T-DECODE",
    "triple T-INSERT T-DECODE T-SAVE",
    "triple T-MATCH T-EXTEND T-INSERT",
    "triple T-OPEN T-SUBMIT T-MATCH",
    "triple T-SUBMIT T-MATCH T-EXTEND",
]


def test_names_of_what_is_reached_stay_as_they_are() -> None:
    """A journal of last week is gone on from: who changes a name begins anew."""
    log = play(InProcessEngine(), Setup(CONFIGS["p4"]), COMMANDS).log
    assert sorted(features(log, CONFIGS["p4"])) == REACHED


def test_what_is_kept_is_new() -> None:
    """To the rounds before, and to the examples before of the same task."""
    first = explored(task("p4", 6))
    new = [name for each in first.corpus for name in each.features]
    assert first.whole and len(new) == len(set(new)) and set(new) == first.reached.keys()
    again = explored(task("p4", 6, seed=1, seen=frozenset(new)))
    newer = {name for each in again.corpus for name in each.features}
    assert newer == again.reached.keys() - set(new)


# What is found ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_same_task_gives_the_same_result_in_any_process() -> None:
    """Whatever hashes strings have there."""
    corpus = tuple(explored(task("p4", 4)).corpus)
    here = told(explored(task("p4", 6, seed=7, corpus=corpus)))
    assert told(explored(task("p4", 6, seed=7, corpus=corpus))) == here
    assert told(explored(task("p4", 6, seed=8, corpus=corpus))) != here
    program = (
        "import sys, json; from slotproof.search.guided import CorpusEntry;"
        "from test_guided import explored, task, told;"
        "corpus = tuple(map(CorpusEntry.from_json, json.load(sys.stdin)));"
        "print(told(explored(task('p4', 6, seed=7, corpus=corpus))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps([each.to_json() for each in corpus]),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(Path(__file__).parent)},
    )
    assert done.stdout.strip() == here


@pytest.mark.slow
@pytest.mark.parametrize("config", ["p1", "p4-draft", "p1-swa", "p4-rounds-overlap", "p4-vllm"])
def test_nothing_is_found_in_the_reference(config: str) -> None:
    first = explored(task(config, 20))
    then = explored(task(config, 30, seed=1, corpus=tuple(first.corpus)))
    assert first.findings == then.findings == []
    assert first.coverage.commands + then.coverage.commands > 1500


def test_a_mutant_is_found_with_a_trace_that_replays() -> None:
    heard: list[Finding | int] = []
    engine = InProcessEngine("42571-double-free")
    result = task("p1", 12).run(engine, heard.append, lambda: False)
    finding = result.findings[0]
    assert finding in heard and finding.id.startswith("INV-SUM-FULL.equation") and result.whole
    log = play(engine, finding.trace.setup, finding.trace.commands).log
    assert log[-1].violations[0].clause == finding.trace.violations[0].clause
    known = tuple(each.mark for each in result.findings)
    again = explored(task("p1", 12, known=known), InProcessEngine("42571-double-free"))
    assert again.findings == [] and again.reached == result.reached


def test_a_task_that_is_stopped_says_so_and_keeps_what_it_has() -> None:
    count = 0

    def stop() -> bool:
        nonlocal count
        count += 1
        return count > 150

    result = explored(task("p1", 20), stop=stop)
    assert not result.whole and 0 < result.examples < 20
    assert result.coverage.commands <= 150


def test_an_engine_that_fails_beyond_its_example_is_told() -> None:
    class Broken(InProcessEngine):
        def do(self, command: Command) -> list[Snapshot]:
            raise ZeroDivisionError("not an engine's failure")

    with pytest.raises(ZeroDivisionError):
        explored(task("p1", 2), Broken())

    class Dead(InProcessEngine):
        def do(self, command: Command) -> list[Snapshot]:
            raise EngineFailed("crash", "it died")

    (found,) = explored(task("p1", 2), Dead()).findings
    assert found.trace.violations[0].clause == "INV-ALIVE.crash"


def test_rounds_begin_with_few_examples() -> None:
    assert [share(lap) for lap in (0, 1, 9)] == [1, 2, 32]


def test_the_page_has_the_figures_that_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """``python bench/guided.py --table bench/results/guided-named.json`` makes its table."""
    root = Path(__file__).parents[3]
    monkeypatch.syspath_prepend(str(root / "bench"))
    bench = importlib.import_module("guided")
    measured = json.loads((root / "bench/results/guided-named.json").read_text())
    made = "\n".join(bench.table(measured))
    assert made.count("\n") > 5 and made in (root / "docs/explanation/guided.md").read_text()
