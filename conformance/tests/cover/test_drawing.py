"""Requests drawn by the search, and their tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, EngineConfig
from slotproof.search import campaign
from slotproof.search.drawing import Again, Copy, Limit, Prompt, Text, another
from slotproof.search.plan import Plan
from tests.cover.diary import Diary

P4 = EngineConfig(page_size=4)
SAID = [Text([1, 2, 3, 4, 5, 6], [201]), Text([7, 8], [])]


def drawn(how: Copy | Limit, past: list[int], length: int = 3) -> list[int]:
    return Prompt(1, length, how).tokens(past, SAID, P4, 2)


@pytest.mark.parametrize(
    ("copy", "past", "tokens"),
    [
        (Copy(1, 1, 0, "other"), [], [1, 2, 3, 4, 6, 6, 201]),
        (Copy(1, 1, -1, "other"), [], [1, 2, 3, 5, 5, 6, 201]),
        (Copy(1, 1, 1, "family"), [], [1, 2, 3, 4, 5, 61, 62, 63]),
        (Copy(1, 0, 1, "swapped"), [], [1, 3, 2, 4, 5]),
        (Copy(1, 9, 5, "other"), [], [1, 2, 3, 4, 5, 6, 201, 61, 62, 63]),
        (Copy(0, 0, 0, "other"), [1, 2], [4, 4, 5, 6]),
        (Copy(0, 0, 3, "other"), [1, 2], [3, 5, 5, 6, 201]),
        (Copy(0, 1, 2, "other"), [9], [7, 8, 61, 62, 63]),
    ],
)
def test_a_copy_leaves_its_text_at_a_page(copy: Copy, past: list[int], tokens: list[int]) -> None:
    """Page boundaries count from the start of the row, the session's history included. If no text
    begins with the history, the copy starts at a text's beginning."""
    assert drawn(copy, past) == tokens


def test_a_limit_is_met_exactly_or_missed_by_one() -> None:
    """The limit counts prompt and new tokens. A limit of the pool is at most the context."""
    tight = replace(P4, total_tokens=32)
    for over in (-1, 0, 1):
        context, pool = (Prompt(0, 5, Limit(of, over)) for of in ("context", "pool"))
        assert len(context.tokens([1, 2], [], P4, 6)) + 2 + 6 == P4.context_len + over
        assert len(pool.tokens([1, 2], [], tight, 6)) + 2 + 6 == tight.total_tokens + over
        assert len(pool.tokens([], [], P4, 6)) + 6 == P4.context_len + over
    assert Prompt(0, 5, Limit("pool", 0)).tokens([1] * 40, [], tight, 6) == []


def test_every_token_that_is_changed_is_another_one() -> None:
    assert all(another(token) != token and 0 < another(token) < 200 for token in range(1, 1000))


def test_a_stop_token_was_answered_after_the_same_prompt() -> None:
    """Only after the same prompt does a deterministic engine stop there again."""
    texts = [Text([1, 2], [8, 9]), Text([1, 3, 4], []), Text([5], [6])]
    assert Again(0, 1, 7).of([], texts) == ([5], [6])
    assert Again(1, 1, 7).of([], texts) == ([1, 2], [9])
    assert Again(0, 0, 7).of([1], texts) == ([1, 2], [8])
    assert Again(0, 0, 7).of([1, 2], texts) is None


def submits(diary: Diary) -> Iterator[Command]:
    yield from (command for life in diary.lives for command in life if command["do"] == "submit")


def test_what_is_sent_is_what_any_engine_takes() -> None:
    """Tokens are below 200, except tokens answered by an engine, and never 0. No prompt without a
    session is empty. Copied texts and stop tokens may come from an answer."""
    diary = Diary()
    campaign.run(diary, "reference", Plan({"p4": CONFIGS["p4"]}, examples=40))
    sent = list(submits(diary))
    tokens = {token for command in sent for token in command["tokens"]}
    assert len(sent) > 200 and 0 not in tokens and max(tokens) < 250
    assert all(command["tokens"] for command in sent if command["session"] is None)
    assert any(token > 199 for token in tokens), "no answer was copied"


def test_a_request_is_stopped_by_what_was_answered_before() -> None:
    """Before, no search met #22897 and similar bugs with an answer ended by a stop token."""
    referee = play(
        InProcessEngine(),
        Setup(CONFIGS["p1"]),
        [
            {"do": "submit", "session": None, "rid": "r1", "tokens": [1], "max_new": 4, "stop": []},
            {"do": "step", "n": 6},
        ],
    )
    first = referee.client.requests["r1"]
    assert isinstance(first.output, list)
    asked = Again(0, 2, 7).of([], [Text([1], first.output)])
    assert asked is not None
    prompt, stops = asked
    again: Command = {"do": "submit", "session": None, "rid": "r2", "tokens": prompt, "max_new": 8}
    assert referee.do({**again, "stop": stops}) == []
    assert referee.do({"do": "step", "n": 8}) == []
    second = referee.client.requests["r2"]
    assert second.reason == "stop" and second.output == first.output[:3]
