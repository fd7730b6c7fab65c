"""Speculative rounds of real builds: their own path with a scripted worker, and faults in it.

Faults are put into the build itself (`broken_rounds.py`).
"""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotproof.engines.base import Engine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import Referee, Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from tests.turns import OPEN, STEP, turn

pytestmark = pytest.mark.sglang

DRIVER = Path(__file__).parents[2] / "slotproof" / "drivers" / "sglang"
BROKEN = Path(__file__).with_name("broken_rounds.py")
NEW = "0.5.23"
SCRIPTED = ("0.5.13", "0.5.15", "0.5.18", NEW)


def rounds(rid: str, *accepted: int) -> list[Command]:
    """Return consecutive rounds that accept these numbers of tokens."""
    asked: list[Command] = [{"do": "accept", "rid": rid, "tokens": count} for count in accepted]
    return [command for accept in asked for command in (accept, STEP)]


END: list[Command] = [{"do": "close", "session": "s1"}, {"do": "step", "n": 2}]
OVERSHOT = [OPEN, turn("r1", 5, 8), STEP, *rounds("r1", 3, 2, 4)]
"""Eight tokens, with the last in a round that accepts two more."""


@pytest.mark.parametrize("release", SCRIPTED)
def test_requests_of_rounds_ask_for_the_logprobs_of_their_prompts(
    release: str, start: Callable[[str], Engine]
) -> None:
    """Rounds report logprobs per request, steps without drafts per token."""
    config = replace(CONFIGS["p4-draft"], logprobs=True)
    referee = play(start(f"sglang=={release}"), Setup(config), [*OVERSHOT, *END])
    assert [str(violation) for violation in referee.log[-1].violations] == []
    shown = [snapshot for entry in referee.log for snapshot in entry.snapshots]
    assert any("logprobs" in snapshot.get("options", ()) for snapshot in shown)


def decoded(referee: Referee) -> list[tuple[int, int]]:
    """Return d and k of every round."""
    shown = [snapshot for entry in referee.log for snapshot in entry.snapshots]
    told = [event for snapshot in shown for event in snapshot["events"]]
    return [(event[3]["d"], event[3]["k"]) for event in told if event[0] == "T-DECODE"]


@pytest.mark.parametrize("config", ["p1-draft", "p4-draft", "p1-swa", "p16-swa"])
@pytest.mark.parametrize("release", SCRIPTED)
def test_a_round_commits_what_was_asked_for_and_an_overshoot_is_trimmed(
    release: str, config: str, start: Callable[[str], Engine]
) -> None:
    """INV-STEP, INV-CONTENT.tokens, INV-DRAIN."""
    if (release, config) == ("0.5.13", "p16-swa"):
        pytest.skip("with a draft model each branch takes pages of its own: 192 tokens a request")
    width = CONFIGS[config].draft + 1
    commands = [*OVERSHOT, turn("r2", 3, 2), STEP, *rounds("r2", 3), *END]
    referee = play(start(f"sglang=={release}"), Setup(CONFIGS[config]), commands)
    assert [str(violation) for violation in referee.log[-1].violations] == []
    asked = [min(count, width) for count in (3, 2, 4, 3)]
    assert [k for _, k in decoded(referee)][:2] == asked[:2]
    assert max(d for d, _ in decoded(referee)) > width, "allocated ahead"
    assert referee.coverage.checked["INV-CONTENT"] == 2


@pytest.mark.parametrize("release", SCRIPTED)
def test_the_row_is_as_wide_as_the_build_made_it(
    release: str, start: Callable[[str], Engine]
) -> None:
    config = CONFIGS["p4-draft"]
    shown = play(start(f"sglang=={release}"), Setup(config), [OPEN, STEP]).snapshot
    assert shown["rows"]["width"] > config.context_len + config.draft


@pytest.mark.parametrize("release", SCRIPTED[1:])
def test_the_last_token_of_a_turn_is_trusted_before_it_has_kv(
    release: str, start: Callable[[str], Engine]
) -> None:
    """A turn ends with its round. The slot counts one committed position too many, so the next turn
    computes other tokens. Without overlap scheduling no other round is in flight."""
    commands = [OPEN, turn("r1", 4, 3), STEP, *rounds("r1", 2), turn("r2", 2, 6), STEP, STEP]
    build = start(f"sglang=={release}")
    violations = play(build, Setup(CONFIGS["p1-draft"]), commands).log[-1].violations
    assert [violation.clause for violation in violations] == ["INV-STEP.state"]
    aside = Setup(CONFIGS["p1-draft"], ignored=("INV-STEP.state",))
    violations = play(build, aside, [*commands, {"do": "step", "n": 6}]).log[-1].violations
    assert [violation.clause for violation in violations] == ["INV-CONTENT.tokens"]


AGAIN = [*OVERSHOT, turn("r2", 0, 2), STEP]
"""The last token again: its position in the slot is freed first."""


@pytest.mark.parametrize(
    ("fault", "config", "commands", "clauses"),
    [
        ("wrong-kv", "p1-draft", OVERSHOT, {"INV-CONTENT.tokens"}),
        ("trims-too-few", "p4-draft", OVERSHOT, {"INV-OWNER.lost"}),
        ("trims-too-many", "p4-draft", OVERSHOT, {"INV-OWNER.shared", "INV-STEP.state"}),
        ("tail-too-few", "p1-draft", AGAIN, {"INV-OWNER.lost"}),
        ("tail-too-many", "p1-draft", AGAIN, {"INV-OWNER.shared"}),
    ],
)
def test_a_fault_is_seen(
    fault: str,
    config: str,
    commands: list[Command],
    clauses: set[str],
    python_of: Callable[[str], Path],
) -> None:
    program = f"cmd:env PYTHONPATH={DRIVER} {python_of(NEW)} {BROKEN} {fault}"
    with closing(EngineSpec(program, step_timeout=30).open()) as build:
        log = play(build, Setup(CONFIGS[config]), [*commands, *END]).log
    assert clauses <= {violation.clause for violation in log[-1].violations}
