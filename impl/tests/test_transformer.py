"""INV-CONTENT, end to end: a session gets the tokens of the same conversation without a cache."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from slotproof_engine import EngineConfig, ReferenceEngine
from slotproof_engine.assembly.parts import Parts
from slotproof_engine.models.transformer import expected_tokens
from slotproof_engine.mutants import mutant_named
from slotproof_engine.requests.req import Req, Session
from tests.test_walks import command, configuration

WALKS = 40
"""Walks per part of the test below, over 500 conversations in all six parts."""


class Conversation(Session):
    """Session with a record of finished turns: prompt and sampled tokens."""

    finished: list[tuple[list[int], list[int]]]

    def finish_req(self, req: Req, kept: int) -> None:
        super().finish_req(req, kept)
        self.__dict__.setdefault("finished", []).append((req.origin_input_ids, req.output_ids))


def conversations(seed: int, mutant: str | None = None, **config: Any) -> list[Conversation]:
    """A random walk: turns, chunks, drafts, retracts, aborts, evictions, closes, reopening."""
    r = random.Random(seed)
    values = {"total_tokens": 100, **configuration(r), "model": "transformer", **config}
    parts = Parts(session=Conversation)
    if mutant is not None:
        parts = mutant_named(mutant).apply(parts)
    engine = ReferenceEngine(EngineConfig.of(values), parts)
    seen: dict[int, Conversation] = {}
    for sid in "abcd":
        engine.do({"do": "open", "session": sid})
    for number in range(50):
        engine.do(command(r, number))
        engine.do({"do": "step", "n": r.choice([0, 1, 2, 4])})
        for session in engine.controller.sessions.values():
            assert isinstance(session, Conversation)
            seen[id(session)] = session
    return [session for session in seen.values() if "finished" in session.__dict__]


def wrong_turns(sessions: list[Conversation], window: int) -> list[tuple[list[int], list[int]]]:
    """Return turns whose tokens differ from a run from scratch."""
    return [
        (prompt, output)
        for session in sessions
        for prompt, output in session.finished
        if output[: len(e := expected_tokens(prompt, len(output), window))] != e
    ]


@pytest.mark.parametrize("part", range(6))
def test_a_session_says_what_a_run_without_a_cache_says(part: int) -> None:
    count = turns = several = 0
    for seed in range(part * WALKS, (part + 1) * WALKS):
        window = configuration(random.Random(seed))["window"]
        sessions = conversations(seed)
        assert wrong_turns(sessions, window) == []
        turns += sum(len(session.finished) for session in sessions)
        several += sum(len(session.finished) > 1 for session in sessions)
        count += len(sessions)
    assert count >= 84  # six times: over 500
    assert turns > 120 and several > 30


def test_tokens_depend_on_every_position_and_on_the_window() -> None:
    """Sensitivity of the comparison: another token anywhere, or another window, is noticed."""
    prompt = [7, 8, 9, 10, 11, 12, 13, 14]
    plain = expected_tokens(prompt, 8, 0)
    assert len(set(plain)) > 4
    for position in range(len(prompt)):
        other = [*prompt[:position], 99, *prompt[position + 1 :]]
        assert expected_tokens(other, 8, 0) != plain
    assert expected_tokens(prompt, 8, 3) != plain


@pytest.mark.parametrize(
    ("mutant", "config"),
    [
        ("stale-first-position", {"window": 0, "swa_tokens": 0}),
        ("short-window", {"window": 3, "swa_tokens": 96, "page_size": 1}),
    ],
)
def test_wrong_kv_in_the_right_place_changes_the_tokens(
    mutant: str, config: dict[str, int]
) -> None:
    """Mutants invisible to sums change the tokens. INV-CONTENT also reads the stamps.

    ``prefix-out-of-order`` is left out: attention adds up a set, and only stamps show the order.
    """
    tight = {"total_tokens": 96, "context_len": 60, **config}
    results = (
        wrong_turns(conversations(seed, mutant, **tight), config["window"]) for seed in range(9)
    )
    assert any(results)


@pytest.mark.parametrize("pool", ["full", "swa"])
def test_poison_in_sight_changes_the_tokens(drive: Any, pool: str) -> None:
    d = drive(model="transformer", window=4, swa_tokens=100)
    d.submit(None, "r", [7, 8, 9], 5).step()
    d.engine.kv.kv_pools[pool].poison(torch.tensor([2]), 1)
    d.drain()
    assert d.answer("r")["tokens"] != expected_tokens([7, 8, 9], 5, 4)
