"""Pairs that chance draws rarely are counted, and drawn on purpose: a command with the phase of its
target, and rare values in consecutive turns."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotproof.engines.base import Subject
from slotproof.engines.reference import InProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.reached import RARE, drawable
from slotproof.lockstep.referee import Referee, Setup
from slotproof.protocol.commands import ALWAYS, Command
from slotproof.protocol.config import CONFIGS, EngineConfig
from slotproof.search import campaign, report
from slotproof.search.journal import Head, Journal, Remembering, read
from slotproof.search.plan import Plan
from slotproof.search.rules import PARTS, machine_for
from slotproof.search.workers import Here, Processes
from tests.cover.diary import Diary
from tests.cover.test_reached import CLOSE, OPEN, STEP, met, submit

ENGINE = InProcessEngine()
OFFERED = ENGINE.capabilities.commands
CHUNKS = EngineConfig(page_size=4, chunk=4, overlap=True, draft=2)
ALONE = EngineConfig(page_size=4, max_running=1, chunk=4)
PHASES, PAIRS = drawable(OFFERED, [CHUNKS])
TWO = {name: CONFIGS[name] for name in ("p4-rounds-overlap", "p1-tight")}
PLAN = Plan(TWO, examples=40)


class Host:
    """Owner of a single example."""

    def __init__(self, config: EngineConfig, engine: InProcessEngine = ENGINE) -> None:
        self.referee = Setup(config).referee(engine, Coverage())

    def begin(self) -> Referee:
        return self.referee

    def go_on(self) -> None:
        return

    def saw(self, referee: Referee, violations: list[Any]) -> bool:
        raise AssertionError(violations)

    def end(self) -> None:
        return


class Pausing(Diary):
    """An engine that takes the option `pause_retracts` and ignores it."""

    def reset(self, config: EngineConfig, seed: int) -> None:
        super().reset(replace(config, pause_retracts=False), seed)


def drawn(config: EngineConfig, rule: str, engine: InProcessEngine = ENGINE, **draw: Any) -> Any:
    """Return the referee of an example, after one rule."""
    host = Host(config, engine)
    getattr(machine_for(host, OFFERED, config)(), rule)(**draw)
    return host.referee


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("command", dict.fromkeys(command for command, _ in PHASES.values()))
def test_a_phase_is_met_on_purpose(command: str, plain: bool) -> None:
    """The rule reaches its phase at once, in a session and without one."""
    for name in (name for name, pair in PHASES.items() if pair[0] == command):
        draw: dict[str, Any] = {"pair": PHASES[name], "session": "s2", "plain": plain, "new": 1}
        reached = drawn(CHUNKS, "in_phase", **draw).coverage.reached["phases"]
        assert reached[name] >= 1, reached


@pytest.mark.slow
@pytest.mark.parametrize("value", RARE)
def test_two_rare_turns_follow_each_other_on_purpose(value: str) -> None:
    for new, name in enumerate(name for name, pair in PAIRS.items() if pair[0] == value):
        draw: dict[str, Any] = {"pair": PAIRS[name], "session": "s2", "new": 2 + new % 5}
        reached = drawn(CHUNKS, "rare_turns", **draw).coverage.reached["rare pairs"]
        assert reached[name] >= 1, reached


def test_a_rule_ends_without_a_pause() -> None:
    for phase in ("paused", "retracted"):
        draw: dict[str, Any] = {"pair": ("abort", phase), "session": "s1", "plain": False, "new": 1}
        assert not drawn(CHUNKS, "in_phase", **draw).client.paused


def test_a_pause_that_retracts_needs_no_retract() -> None:
    """Else no turn would run when the pause is read."""
    for retracts in (False, True):
        diary, config = Pausing(), replace(CHUNKS, pause_retracts=retracts)
        draw: dict[str, Any] = {
            "pair": ("close", "retracted"),
            "session": "s1",
            "plain": False,
            "new": 1,
        }
        drawn(config, "in_phase", diary, **draw)
        names = [command["do"] for command in diary.lives[-1]]
        assert ("retract" in names) is not retracts and "pause" in names


BUSY = [submit("a", [1], 9, None), STEP]
LONG = submit("r", [1] * 9, 9)


@pytest.mark.parametrize(
    ("commands", "last", "phase"),
    [
        ([], CLOSE, "close: none"),
        ([OPEN], OPEN, "open: opening"),
        ([OPEN, STEP], CLOSE, "close: empty"),
        ([OPEN, STEP, submit("r", [1])], CLOSE, "close: unread"),
        ([OPEN, submit("r", [1]), STEP, STEP], submit("t", [1]), "submit: idle"),
        ([OPEN, *BUSY, submit("r", [1]), STEP], CLOSE, "close: waiting"),
        ([OPEN, LONG, STEP], CLOSE, "close: parked"),
        ([OPEN, submit("r", [1], 9), STEP, CLOSE, STEP], OPEN, "open: closing"),
        ([OPEN, LONG, STEP, CLOSE, STEP], submit("p", [1], 1, None), "plain: parked"),
        (BUSY, {"do": "abort", "rid": "a"}, "abort: decoding"),
        ([], {"do": "abort", "rid": "a"}, "abort: unknown"),
        ([BUSY[0]], {"do": "abort", "rid": "a"}, "abort: unread"),
        ([submit("a", [1], 1, None), STEP], {"do": "abort", "rid": "a"}, "abort: answered"),
        ([*BUSY, {"do": "retract"}, {"do": "pause"}, STEP], {"do": "flush"}, "flush: paused"),
        ([*BUSY, submit("b", [1], 9, None), STEP], {"do": "evict", "tokens": 1}, "evict: waiting"),
        (BUSY, {"do": "tick_ms", "ms": 250}, "tick_ms: running"),
        ([OPEN, submit("r", [1]), STEP], {"do": "flush_all"}, "flush_all: slots"),
        ([], {"do": "abort_all"}, "abort_all: nothing"),
    ],
)
def test_a_command_meets_a_phase(commands: list[Command], last: Command, phase: str) -> None:
    """Only the last command is counted with this phase, and with no other."""
    fields = vars(ALONE)
    before, after = met(commands, **fields)["phases"], met([*commands, last], **fields)["phases"]
    assert after - before == {phase: 1}


def test_rare_values_are_of_turns_next_to_each_other() -> None:
    """A close and a turn in between part them."""
    one, none = submit("a", [1], 2), submit("b", [2, 3, 4], 0)
    other = submit("c", [4, 5, 6], 4)
    rest: list[Command] = [STEP] * 4
    start = [OPEN, one, *rest]
    assert met([*start, none])["rare pairs"] == {"one token, no answer": 1}
    assert met([*start, CLOSE, STEP, OPEN, none])["rare pairs"] == {}
    reaped: Command = {"do": "tick", "seconds": 400}
    assert met([*start, reaped, OPEN, none])["rare pairs"] == {}
    assert met([*start, other, *rest, none])["rare pairs"] == {}
    late = met([OPEN, submit("a", [1, 2], 4), STEP, {"do": "abort", "rid": "a"}, STEP, none])
    assert late["rare pairs"] == {"aborted, no answer": 1}


def test_what_no_configuration_allows_is_not_wanted() -> None:
    """Each part of a pair needs commands and a configuration. Both parts need the same one."""
    phases, pairs = drawable(OFFERED, [EngineConfig()])
    assert "abort: decoding" in phases and "accept: decoding" not in phases
    assert not [name for name in phases if name.endswith(("parked", "prefilled"))]
    assert len(pairs) == (len(RARE) - 2) ** 2, "without whole pages and drafts"
    apart = drawable(OFFERED, [EngineConfig(page_size=4), EngineConfig(draft=2)])[1]
    assert "accepted, accepted" in apart and "accepted, whole pages" not in apart
    few, some = drawable(ALWAYS, [CHUNKS])
    assert not [name for name in few if name.endswith(("paused", "retracted"))]
    assert not [name for name in few if name.startswith(("flush", "tick_ms", "accept"))]
    assert not [name for name in some if "retracted" in name or "accepted" in name]


def test_where_an_abort_ends_the_session_no_turn_comes_after_it() -> None:
    answers = {"closed": "an abort ends the session"}
    outcome = campaign.run(ENGINE, "reference", replace(PLAN, examples=2))
    counts = [
        report.summary(outcome, PLAN, offered)["drawn"]["rare pairs"]["of"]
        for offered in (ENGINE.capabilities, replace(ENGINE.capabilities, answers=answers))
    ]
    assert counts[0] - counts[1] == len(RARE)


def test_a_summary_has_the_shares(tmp_path: Path) -> None:
    """With a journal, read again, and with two processes the shares are the same."""
    outcome = campaign.run(ENGINE, "reference", PLAN)
    summary = report.summary(outcome, PLAN, ENGINE.capabilities)
    phases, pairs = (summary["drawn"][kind] for kind in ("phases", "rare pairs"))
    assert phases["of"] == 108 and pairs["of"] == 100
    assert 0 < len(pairs["never"]) == pairs["of"] - pairs["reached"]
    text = "\n".join(report.text(summary))
    assert f"drawn           {phases['reached']} of 108 pairs of a command" in text
    assert f"{pairs['reached']} of 100 pairs of rare values in consecutive turns\n" in text
    assert f"; {pairs['of'] - pairs['reached'] - 3} more" in text
    subject = Subject.of(ENGINE, "reference")
    with closing(Journal(tmp_path / "a", Head.of(subject, "", PLAN))) as journal:
        workers = Remembering(journal.run, Here(ENGINE), journal)
        campaign.Campaign(subject, replace(PLAN, distinct=None), workers).run()
    (run,) = read(tmp_path / "a")[0]
    with closing(Processes(EngineSpec("reference"), 2)) as two:
        others = [run.outcome(), campaign.run(ENGINE, "reference", PLAN, workers=two)]
    for other in others:
        assert report.summary(other, PLAN, ENGINE.capabilities)["drawn"] == summary["drawn"]


def test_time_passes_in_parts_of_a_second_at_a_limit() -> None:
    diary = Diary()
    drawn(CHUNKS, "tick_in_parts", diary, limit=300, parts=[*PARTS])
    ticks = [command for command in diary.lives[-1] if "tick" in command["do"]]
    assert ticks == [{"do": "tick", "seconds": 299}, *({"do": "tick_ms", "ms": m} for m in PARTS)]


def test_no_engine_gets_a_command_that_it_does_not_offer() -> None:
    diary = Diary()
    diary.capabilities = replace(diary.capabilities, commands=ALWAYS)
    campaign.run(diary, "reference", Plan({"p4": CONFIGS["p4"]}, examples=40))
    assert {command["do"] for life in diary.lives for command in life} == ALWAYS
