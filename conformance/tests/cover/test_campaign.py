"""Campaigns: the same seed gives the same trace, and findings survive an interrupt."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from slotproof.engines.base import EngineUnusable
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, EngineConfig
from slotproof.protocol.snapshot import Snapshot
from slotproof.search import campaign, report
from slotproof.search.findings import Finding
from slotproof.search.plan import Plan
from slotproof.search.sending import drain
from slotproof.support.statuses import CONFORMS, INCONCLUSIVE

MUTANT = "leak-full"
ONE = Plan({"p1": CONFIGS["p1"]}, examples=60)


class Interrupted(InProcessEngine):
    """Ctrl-C at the n-th command."""

    def __init__(self, mutant: str | None, at: int) -> None:
        super().__init__(mutant)
        self.left = at

    def do(self, command: Command) -> list[Snapshot]:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().do(command)


def test_the_same_seed_gives_the_same_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever an example database holds."""
    monkeypatch.chdir(tmp_path)
    first = campaign.run(InProcessEngine(MUTANT), "x", ONE).trace
    for name in ("examples", "unicode_data", "constants"):
        (tmp_path / ".hypothesis" / name / "0123").mkdir(parents=True)
        (tmp_path / ".hypothesis" / name / "0123" / "4567").write_bytes(b"\x00\xff" * 40)
    second = campaign.run(InProcessEngine(MUTANT), "x", ONE).trace
    assert first is not None and first == second


class Silent(InProcessEngine):
    """The reference engine without events. It still names its transitions."""

    def __init__(self, mutant: str | None = None) -> None:
        super().__init__(mutant)
        self.capabilities = replace(self.capabilities, events=False)

    def do(self, command: Command) -> list[Snapshot]:
        shown = super().do(command)
        for snapshot in shown:
            del snapshot["events"]
        return shown


def test_what_an_engine_without_events_does_is_not_observed() -> None:
    """Without events no transition counts as reached or missed. States are still judged."""
    plan = replace(ONE, examples=20)
    outcome = campaign.run(Silent(), "x", plan)
    summary = report.summary(outcome, plan, Silent().capabilities)
    assert summary["status"] == CONFORMS
    assert summary["transitions"]["counts"] == {} and summary["transitions"]["never"] == []
    assert summary["not_observed"]["transitions"] == "the engine reports no events"
    assert campaign.run(Silent(MUTANT), "x", ONE).trace is not None


def test_another_seed_gives_other_examples() -> None:
    runs = [campaign.run(InProcessEngine(), "x", replace(ONE, examples=5, seed=s)) for s in (0, 1)]
    assert runs[0].coverage.transitions != runs[1].coverage.transitions


def test_counterexamples_are_kept_as_found_and_then_shorter() -> None:
    """keep() gets each trace before shrinking, and at the end the traces of the outcome."""
    kept: list[list[Finding]] = []
    outcome = campaign.run(InProcessEngine(MUTANT), "x", replace(ONE, seed=5), keep=kept.append)
    assert outcome.findings == kept[-1] and all(finding.trace.minimal for finding in kept[-1])
    first, last = kept[0][0].trace, kept[-1][0].trace
    assert not first.minimal and len(first.rows) > len(last.rows)
    assert [len(findings) for findings in kept] == sorted(len(findings) for findings in kept)
    assert all(finding.trace.violations for findings in kept for finding in findings)
    assert len(last.rows) <= 5


def test_coverage_is_of_what_was_looked_at_before_the_finding() -> None:
    """Replays for shrinking count neither as examples nor as commands."""
    outcome = campaign.run(InProcessEngine(MUTANT), "x", ONE)
    assert outcome.examples <= 60
    assert outcome.coverage.commands < 60 * 100


def test_what_was_reached_is_told_by_mode() -> None:
    """Each mode has its own transitions. Its line names those reached only by another mode."""
    names = ("p1-one", "p4-rounds", "p4-rounds-overlap")
    configs, engine = {name: CONFIGS[name] for name in names}, InProcessEngine()
    plan = Plan(configs, examples=30, seed=1)  # few: a longer run misses nothing
    summary = report.summary(campaign.run(engine, "x", plan), plan, engine.capabilities)
    modes = summary["modes"]
    assert list(modes) == ["plain", "speculation", "overlap, speculation"]
    assert sum(mode["commands"] for mode in modes.values()) == summary["commands"]
    launched = [mode["transitions"]["counts"].get("T-LAUNCH", 0) for mode in modes.values()]
    assert launched == [0, 0, summary["transitions"]["counts"]["T-LAUNCH"]]
    whole, rounds = summary["transitions"], modes["overlap, speculation"]["transitions"]
    assert "T-DECODE" in rounds["impossible"] and "T-DECODE" not in rounds["never"]
    assert 0 < rounds["decoding"]["T-RETRACT"] <= rounds["counts"]["T-RETRACT"]
    assert "T-SUBMIT" not in rounds["decoding"], "nothing runs when a turn is submitted"
    (line,) = (line for line in report.text(summary) if " plain: " in line)
    missed = set(modes["plain"]["transitions"]["never"]) - set(whole["never"])
    assert missed and all(name in line for name in missed)


def test_ctrl_c_before_anything_was_found() -> None:
    outcome = campaign.run(Interrupted(None, 200), "x", Plan(CONFIGS, examples=140))
    assert outcome.interrupted and outcome.trace is None
    assert outcome.configs == ["p1"] and outcome.coverage.commands >= 190
    summary = report.summary(outcome, Plan(CONFIGS), InProcessEngine().capabilities)
    assert summary["status"] == INCONCLUSIVE and summary["interrupted"]


def test_ctrl_c_keeps_what_was_found() -> None:
    """Ctrl-C while shrinking leaves the shortest trace so far."""
    kept: list[list[Finding]] = []
    whole = campaign.run(InProcessEngine(MUTANT), "x", ONE, keep=kept.append)
    first = len(kept[0][0].trace.rows)
    outcome = campaign.run(
        Interrupted(MUTANT, whole.coverage.commands + 3 * first), "x", ONE, keep=kept.append
    )
    assert outcome.interrupted
    assert outcome.trace is not None and outcome.trace.violations
    assert not outcome.trace.minimal
    assert (
        play(InProcessEngine(MUTANT), outcome.trace.setup, outcome.trace.commands)
        .log[-1]
        .violations
    )


class Half(InProcessEngine):
    """Only page size 4."""

    def __init__(self) -> None:
        super().__init__()
        self.capabilities = replace(self.capabilities, page_sizes=(4,))


def test_configurations_that_the_engine_can_not_take_are_named() -> None:
    plan = Plan({name: CONFIGS[name] for name in ("p1", "p4", "p16")}, examples=2, steps=3)
    outcome = campaign.run(Half(), "x", plan)
    assert outcome.configs == ["p4"]
    assert outcome.skipped == {
        "p1": "page size 1 is not offered",
        "p16": "page size 16 is not offered",
    }
    lines = list(report.text(report.summary(outcome, plan, Half().capabilities)))
    assert "                p16 left out: page size 16 is not offered" in lines


def test_what_a_driver_has_patched_is_told() -> None:
    plan = Plan({"p1": CONFIGS["p1"]}, examples=1)
    patched = replace(InProcessEngine().capabilities, patches=("one", "two"))
    outcome = campaign.run(InProcessEngine(), "reference", plan)
    lines = list(report.text(report.summary(outcome, plan, patched)))
    assert lines[1] == "patched         one, two"


def test_no_possible_configuration_is_unusable() -> None:
    plan = Plan({"p1": CONFIGS["p1"], "p16": CONFIGS["p16"]})
    with pytest.raises(EngineUnusable, match=r"none of the configurations \(p1: page size 1 is"):
        campaign.run(Half(), "x", plan)


def test_shrinking_is_told_in_replays() -> None:
    """Shrinking a finding counts its replays from 1 up to the limit."""
    seen: list[tuple[str, int, int]] = []
    plan = replace(ONE, shrink=300)
    campaign.run(InProcessEngine(MUTANT), "x", plan, lambda *update: seen.append(update))
    small = [(done, most) for name, done, most in seen if name == "shrinking"]
    assert small and small[0][0] == 1
    assert all(now[0] in (1, before[0] + 1) for before, now in pairwise(small))
    assert all(0 < done <= most and most >= 300 for done, most in small)
    assert {name for name, _, _ in seen} == {"p1", "shrinking"}


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    plan = Plan({name: CONFIGS[name] for name in ("p1", "p4")}, examples=6, steps=3)
    campaign.run(InProcessEngine(), "x", plan, lambda *update: told.append(update))
    assert [update[1] for update in told] == sorted(update[1] for update in told)
    assert {update[0] for update in told} == {"p1", "p4"}
    assert {update[2] for update in told} == {6}


def test_replay_stops_at_the_first_violation() -> None:
    commands: list[Command] = [
        {"do": "open", "session": "s1"},
        {"do": "step", "n": 1},
        {"do": "step", "n": 1},
    ]
    engine = InProcessEngine("21499-one-pool-check")
    log = play(engine, Setup(CONFIGS["p1-swa"]), commands).log
    assert [bool(entry.violations) for entry in log] == [False, True]


def test_every_example_ends_drained() -> None:
    """INV-DRAIN: all requests answered, every session closed, all memory back."""
    referee = Setup(EngineConfig()).referee(InProcessEngine())
    submit = {"session": "s1", "rid": "r", "tokens": [1], "max_new": 3, "stop": []}
    begin: list[Command] = [
        {"do": "open", "session": "s1"},
        {"do": "submit", **submit},
        {"do": "pause"},
    ]
    for command in begin:
        assert referee.do(command) == []
    for command in drain(referee):
        assert referee.do(command) == []
    assert referee.snapshot["requests"] == {}
    assert not any(session["open"] for session in referee.snapshot["sessions"].values())
    pool = referee.snapshot["pools"]["full"]
    assert pool["available"] + pool["evictable"] == pool["total"]
    assert referee.coverage.checked["INV-DRAIN"]


def test_an_example_that_fails_while_it_is_drained_was_run() -> None:
    """In the shortest possible example the violation comes at the very end."""
    name = "21499-one-pool-check"
    plan = Plan({"p1-swa": CONFIGS["p1-swa"]}, examples=20, distinct=1)
    outcome = campaign.run(InProcessEngine(name), "x", plan)
    assert outcome.trace is not None and outcome.examples == 1
    assert outcome.first is not None and outcome.first[1] == 1


@pytest.mark.parametrize(
    ("profile", "never"),
    [("reference", {"T-RETRACT-WIPE": "retract=wipe"}), ("wipe", {"T-RETRACT": "retract=keep"})],
)
def test_what_a_profile_does_in_any_configuration(profile: str, never: dict[str, str]) -> None:
    """An engine that always wipes also wipes in a configuration with ``retract`` set to keep."""
    both = frozenset(["T-RETRACT", "T-RETRACT-WIPE"])
    assert report.impossible(both, [CONFIGS["p1"]], profile) == never


def test_a_configuration_that_was_not_reached_is_not_missing() -> None:
    """Transitions of configurations after the interrupt count as not reached, not as impossible."""
    engine = InProcessEngine()
    plan = Plan({name: CONFIGS[name] for name in ("p1", "p1-swa")}, examples=4, steps=5)
    outcome = campaign.run(engine, "reference", plan)
    outcome.configs.remove("p1-swa")
    reached = report.summary(outcome, plan, engine.capabilities)["transitions"]
    assert "a sliding window" not in reached["impossible"].values()
    del plan.configs["p1-swa"]
    reached = report.summary(outcome, plan, engine.capabilities)["transitions"]
    assert reached["impossible"]["T-SWA-ADVANCE"] == "a sliding window"
