"""The sliding-window pool of real builds: the referee finds faults in it.

Faults are put into the build itself (`broken_window.py`), or are bugs of old releases.
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotproof.engines.base import Engine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof.reports.trace import load_trace

pytestmark = pytest.mark.sglang

FINDINGS = Path(__file__).parents[3] / "docs" / "findings"
DRIVER = Path(__file__).parents[2] / "slotproof" / "drivers" / "sglang"
BROKEN = Path(__file__).with_name("broken_window.py")
NEW = "0.5.23"


def _turn(rid: str, tokens: list[int], max_new: int) -> Command:
    return {
        "do": "submit",
        "session": "s1",
        "rid": rid,
        "tokens": tokens,
        "max_new": max_new,
        "stop": [],
    }


TURNS: list[Command] = [
    {"do": "open", "session": "s1"},
    _turn("r1", [1, 2, 3, 4, 5, 6, 7, 8, 9], 12),
    {"do": "step", "n": 13},
    _turn("r2", [10, 11], 12),
    {"do": "step", "n": 13},
    {"do": "close", "session": "s1"},
    {"do": "step", "n": 2},
]
"""Two turns long enough for the cursor to pass the prompt. At the end all memory is freed."""


@pytest.mark.parametrize("config", ["p1-swa", "p4-swa"])
@pytest.mark.parametrize("release", ["0.5.12", "0.5.18", "0.5.23"])
def test_a_sound_build_shows_both_pools_and_a_cursor_that_moves(
    release: str, config: str, start: Callable[[str], Engine]
) -> None:
    plain = replace(CONFIGS[config], draft=0)  # rounds: test_rounds.py
    referee = play(start(f"sglang=={release}"), Setup(plain), TURNS)
    assert not referee.log[-1].violations
    shown = [snapshot for entry in referee.log for snapshot in entry.snapshots]
    assert all(set(s["pools"]) == set(s["tree"]) == {"full", "swa"} for s in shown)
    assert {s["pools"]["swa"]["total"] for s in shown} == {CONFIGS[config].swa_tokens}
    assert max(slot["E"] for s in shown for slot in s["slots"].values()) > 0
    assert any(event[0] == "T-SWA-ADVANCE" for s in shown for event in s["events"])
    assert any("swa" in s["checker"]["pools"] for s in shown)


@pytest.mark.parametrize(("release", "knows"), [("0.5.10.post1", False), (NEW, True)])
def test_tokens_are_an_oracle_where_attention_knows_of_the_window(
    release: str, knows: bool, start: Callable[[str], Engine]
) -> None:
    """INV-CONTENT.tokens: up to 0.5.12, attention on a CPU reads freed positions."""
    build = start(f"sglang=={release}")
    assert ("tokens with a sliding window" in build.capabilities.not_observed) is not knows
    for config, expected in (("p1", True), ("p1-swa", knows)):
        build.reset(CONFIGS[config], 0)
        tokens = build.recompute([1, 2, 3], 4)
        assert (tokens is not None) is expected, config


@pytest.mark.parametrize(
    ("fault", "clauses"),
    [
        ("lost-page", {"INV-SUM-SWA.equation", "INV-OWNER.lost"}),
        ("cursor-ahead", {"INV-CURSOR.given_back", "INV-SUM-SWA.equation"}),
        ("lock-kept", {"INV-DRAIN.drained", "INV-STEP.guard"}),
        ("miscounted", {"INV-ONCE.reported", "INV-CHECKER.figures"}),
    ],
)
def test_a_fault_in_the_second_pool_is_seen(
    fault: str, clauses: set[str], python_of: Callable[[str], Path]
) -> None:
    program = f"cmd:env PYTHONPATH={DRIVER} {python_of(NEW)} {BROKEN} {fault}"
    with closing(EngineSpec(program, step_timeout=30).open()) as build:
        log = play(build, Setup(CONFIGS["p1-swa"]), TURNS).log
    assert clauses <= {violation.clause for violation in log[-1].violations}


@pytest.mark.parametrize(
    "name", ["sglang-0.5.18-swa-deferred-free", "sglang-0.5.12-swa-locked-full"]
)
def test_what_old_releases_got_wrong_is_fixed(name: str, start: Callable[[str], Engine]) -> None:
    """`test_builds.py` replays the same traces on releases with the bugs."""
    trace = load_trace(FINDINGS / f"{name}.itf.json")
    build = start(f"sglang=={NEW}")
    log = play(build, trace.setup, trace.commands).log
    assert not log[-1].violations
