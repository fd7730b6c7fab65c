"""Examples that had no time are not claimed, and the time is shared out."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import stateful

from slotproof.engines.base import EngineFailed
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof.protocol.snapshot import Snapshot
from slotproof.reports.trace import Trace
from slotproof.search import campaign, examples
from slotproof.search.examples import Search
from slotproof.search.plan import FLOOR, ExampleBatch, Plan, Schedule
from slotproof.support import bounds
from slotproof.support.statuses import CONFORMS, FOUND, INCONCLUSIVE
from tests.cover.diary import Diary

pytestmark = pytest.mark.slow

LEAK, NOISE = "22862-no-free-tail", "22213-double-count"
THREE = ["--config", "p1", "--config", "p1-draft", "--config", "p4-draft"]
SMALL = {name: CONFIGS[name] for name in ("p1", "p4", "p1-swa")}


class Clock:
    """A clock that advances one second per call of a method."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of: type, name: str) -> None:
        self.now = 0.0
        call = getattr(of, name)

        def ticking(*args: Any) -> Any:
            self.now += 1
            return call(*args)

        monkeypatch.setattr(of, name, ticking)
        monkeypatch.setattr("time.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A second for each example and each replay."""
    return Clock(monkeypatch, InProcessEngine, "reset")


@pytest.fixture
def searching(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A second for each example. Shrinking takes no time."""
    return Clock(monkeypatch, examples._Examples, "begin")


# Claims of a run --------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["--all"]])
def test_a_run_cut_short_says_what_it_did_not_run(more: list[str], clock: Clock, cli: Any) -> None:
    argv = ["run", "--config", "p1", "--config", "p4", "--examples", "60", "--seconds", "21", *more]
    out = cli(argv, INCONCLUSIVE)
    assert "of 60 planned" in out and " of 30: p1" in out
    assert "inconclusive: out of time, nothing found so far" in out
    assert "conforms" not in out


def test_a_finding_is_one_whatever_there_was_no_time_for(
    searching: Clock, tmp_path: Path, cli: Any
) -> None:
    argv = ["run", "--engine", f"reference:{NOISE}", "--all", "--out", str(tmp_path), *THREE]
    code, said = cli.ran(*argv, "--examples", "1400", "--seconds", "60")
    assert code == FOUND and said["causes"] and said["out_of_time"], said["examples_of"]


def test_the_examples_that_were_asked_for_are_all_run(cli: Any) -> None:
    """100 among three is not three times 33."""
    argv = ["run", "--examples", "10", "--config", "p1", "--config", "p4", "--config", "p16"]
    _, said = cli.ran(*argv)
    assert said["planned"] == 10 <= said["examples"] and not said["out_of_time"]
    assert [counts["planned"] for counts in said["examples_of"].values()] == [4, 3, 3]
    assert said["unearned"] is None


# Where the time is the plan ----------------------------------------------------


def test_with_only_a_time_it_goes_on_until_that_is_over(clock: Clock, cli: Any) -> None:
    """Each round has new seeds. Enough examples of every configuration give a verdict."""
    some = ["--config", "p1", "--config", "p1-chunk", "--config", "p1-swa"]
    code, said = cli.ran("run", "--all", "--seconds", "240", *some)
    assert code == CONFORMS, said["transitions"]["never"]
    assert said["examples"] >= 160 and said["planned"] is None and not said["out_of_time"]
    runs = [counts["run"] for counts in said["examples_of"].values()]
    assert min(runs) >= 2 * FLOOR and max(runs) - min(runs) <= FLOOR


def test_rounds_go_on_with_new_seeds(clock: Clock) -> None:
    """Without ``--all`` as well."""
    outcome = campaign.run(InProcessEngine(), "x", Plan(SMALL, examples=None, seconds=150.0))
    assert outcome.examples >= 145 and min(outcome.run.values()) >= 2 * FLOOR
    assert not outcome.out_of_time and not outcome.planned


def test_too_little_time_is_inconclusive(clock: Clock, cli: Any) -> None:
    """Fewer than 20 examples of a configuration."""
    argv = ["run", "--config", "p1", "--config", "p4", "--seconds", "20"]
    code, said = cli.ran(*argv)
    assert code == INCONCLUSIVE
    assert said["unearned"] == "too little time, under 20 examples in p1, p4"
    assert "examples        p1 1" in cli(argv, INCONCLUSIVE)


def test_a_plan_has_a_number_or_a_time() -> None:
    with pytest.raises(ValueError, match="needs seconds"):
        Plan({}, examples=None)


# How the time is dealt out -------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_short_time_gives_each_its_share(jobs: int, clock: Clock) -> None:
    batches = Schedule(Plan(CONFIGS), list(CONFIGS)[:14]).deal(28.0, jobs)
    ends = [batch.until for batch in batches]
    assert len(set(ends)) == 14 / jobs and ends[0] == 2.0 * jobs and ends[-1] == 28.0


@pytest.mark.parametrize("distinct", [4, None])
def test_no_configuration_waits_for_all_the_others(distinct: int | None, clock: Clock) -> None:
    plan = Plan(CONFIGS, examples=1400, seconds=40.0, distinct=distinct)
    outcome = campaign.run(InProcessEngine(), "x", plan)
    assert outcome.out_of_time and set(outcome.run) == set(CONFIGS)
    assert max(outcome.run.values()) <= 3 * min(outcome.run.values())


def test_what_was_cut_short_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run singly or all at once, the examples and their order are the same."""
    monkeypatch.setattr(bounds, "EXAMPLES_AT_ONCE", 4)
    blank = Trace("reference 1", "x", "reference", CONFIGS["p1-swa"], 0, [], [], minimal=False)
    batch = ExampleBatch("p1-swa", 3, 0, 9)
    whole, bits = Diary(), Diary()
    idle = (lambda _: None, lambda: False)
    done = Search(Plan(SMALL), batch, blank).run(whole, *idle)
    assert done.rest is None and done.examples >= 9
    rest: ExampleBatch | None = batch
    while rest is not None:
        once = Search(Plan(SMALL), replace(rest, until=0.0), blank).run(bits, *idle)
        assert once.examples <= 1
        rest = once.rest
    assert bits.lives == whole.lives


def test_a_campaign_cut_into_bits_is_the_same_campaign(clock: Clock) -> None:
    """With just enough time, several rounds run the same examples as one."""
    plan = Plan(SMALL, examples=45)
    free, tight = Diary(), Diary()
    whole = campaign.run(free, "x", plan)
    clock.now = 0.0
    cut = campaign.run(tight, "x", replace(plan, seconds=whole.examples + 1.0))
    assert not cut.out_of_time and cut.run == whole.run
    assert Counter(map(str, tight.lives)) == Counter(map(str, free.lives))


# Shrinking -------------------------------------------------------------------------


def test_shrinking_ends_with_the_time(clock: Clock) -> None:
    """Without ``--all``: the finding stays as short as it got, and is not called minimal."""
    plan = Plan({"p1": CONFIGS["p1"]}, examples=60)
    free = campaign.run(InProcessEngine(LEAK), "x", plan)
    assert free.trace is not None and free.trace.minimal
    clock.now = 0.0
    outcome = campaign.run(InProcessEngine(LEAK), "x", replace(plan, seconds=free.examples + 4.0))
    assert clock.now <= free.examples + 6
    assert outcome.trace is not None and not outcome.trace.minimal
    assert len(outcome.trace.rows) > len(free.trace.rows)
    log = play(InProcessEngine(LEAK), Setup(CONFIGS["p1"]), outcome.trace.commands).log
    assert outcome.trace.violations[0].clause in {
        violation.clause for violation in log[-1].violations
    }


class Hangs(InProcessEngine):
    """An engine that never answers a step. Each timeout takes ten seconds."""

    asked = 0

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def do(self, command: Command) -> list[Snapshot]:
        if command["do"] != "step":
            return super().do(command)
        self.asked += 1
        self.clock.now += 10
        raise EngineFailed("hang", "no answer within 10 s")


@pytest.mark.parametrize("distinct", [4, None])
def test_a_driver_that_hangs_does_not_take_longer(distinct: int | None, clock: Clock) -> None:
    """10 s became 89 s, because each replay waited for the whole timeout."""
    plan = Plan({"p1": CONFIGS["p1"]}, seconds=35.0, distinct=distinct)
    outcome = campaign.run(Hangs(clock), "x", plan)
    assert outcome.trace is not None
    assert outcome.trace.violations[0].clause == "INV-ALIVE.hang"
    assert clock.now <= 35 + 10 + 5, "one answer is waited for when the time is over"


# Hypothesis ----------------------------------------------------------------------------


def test_hypothesis_is_run_in_bounded_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hypothesis stores every example of a run, 95 KB each. Each piece has its own seed."""
    monkeypatch.setattr(bounds, "EXAMPLES_AT_ONCE", 5)
    asked: list[tuple[int, int]] = []
    run = stateful.run_state_machine_as_test

    def noted(machine: Any, settings: Any) -> None:
        asked.append((machine._hypothesis_internal_use_seed, settings.max_examples))
        run(machine, settings=settings)

    monkeypatch.setattr(examples, "run_state_machine_as_test", noted)
    campaign.run(InProcessEngine(), "x", Plan({"p1": CONFIGS["p1"]}, examples=60))
    assert sum(count for _, count in asked) == 60 and max(count for _, count in asked) == 5
    assert len({seed for seed, _ in asked}) == len(asked)


def test_nothing_is_left_where_the_user_is(tmp_path: Path) -> None:
    """No folder .hypothesis, not even after the first run of a process."""
    code = "from slotproof.cli.app import main; main()"
    argv = [sys.executable, "-c", code, "run", "--config", "p1", "--examples", "2"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == INCONCLUSIVE
    assert list(tmp_path.iterdir()) == []
