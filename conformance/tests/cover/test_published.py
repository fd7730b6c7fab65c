"""INV-MATCH: the referee counts on pages published and not evicted, and on nothing more."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.oracles.matches import WHOLE
from slotproof.lockstep.published import Published
from slotproof.lockstep.referee import Referee, Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS, EngineConfig

PROMPT = [5, 6, 7, 8, 9, 10, 11, 12, 13]
STEP: Command = {"do": "step", "n": 1}


def asked(rid: str, tokens: list[int], max_new: int = 3) -> Command:
    return {
        "do": "submit",
        "session": None,
        "rid": rid,
        "tokens": tokens,
        "max_new": max_new,
        "stop": [],
    }


def played(commands: list[Command], mutant: str | None = None, **config: Any) -> Referee:
    return play(InProcessEngine(mutant), Setup(EngineConfig(**config)), commands)


@pytest.mark.parametrize(
    ("config", "known"),
    [
        ({}, 8),
        ({"page_size": 4}, 8),
        ({"page_size": 4, "draft": 2}, 4),  # a page may be filed with the token after it
        ({"chunk": 3}, 8),
        ({"overlap": True}, 8),
        ({"window": 4, "swa_tokens": 64}, 8),
    ],
)
def test_a_published_prompt_is_known(config: Any, known: int) -> None:
    """Whole pages, without the last token, needed for its logits. A branch ends the match."""
    referee = played([asked("r1", PROMPT), *[STEP] * 6], **config)
    assert not referee.log[-1].violations
    assert referee.published.longest(PROMPT, 1) == known
    assert referee.published.longest([*PROMPT[:5], 99, *PROMPT[6:]], 1) <= 5
    assert referee.published.longest([], 1) == 0


def test_nothing_is_known_of_what_no_snapshot_shows() -> None:
    """No snapshot shows the pages of a request that began and ended within one iteration."""
    assert played([asked("r1", PROMPT, 1), STEP]).published.longest(PROMPT, 0) == 0


def test_what_is_evicted_is_forgotten() -> None:
    """Eviction takes pages from the end. One token of the answer is in the tree as well."""
    left = [
        played(
            [asked("r1", PROMPT, 2), STEP, STEP, {"do": "evict", "tokens": tokens}, STEP]
        ).published.longest(PROMPT, 0)
        for tokens in (0, 2, 4, 20)
    ]
    assert left == [9, 8, 6, 0]


def snapshot(pages: list[int], events: Any = (), row: list[int] | None = None) -> Any:
    """Return a snapshot of a full pool alone, with pages of one token."""
    request = {"row": 0, "A": 9, "Q": 0, "E": 0, "kind": "plain", "hash": None}
    return {
        "pools": {"full": {}},
        "tree": {"full": [(page, 0) for page in pages]},
        "rows": {"used": {} if row is None else {"0": {"full": row}}},
        "requests": {} if row is None else {"r1": request},
        "events": list(events),
    }


def finished(prompt: list[int], *shots: Any) -> Published:
    """Return the published pages after a request ran in the first snapshot and ended later."""
    client = Setup(EngineConfig()).referee(InProcessEngine()).client
    client.sends(asked("r1", prompt))
    client.reads(1)
    client.hears({"type": "finish", "session": None, "rid": "r1", "reason": "length", "tokens": []})
    published = Published(EngineConfig())
    for before, now in pairwise(shots):
        published.forget(now)
        published.learn(before, now, client)
    return published


def told(q: int, dup: int = 0) -> Any:
    return ("T-PLAIN-FINISH", None, "r1", {"q": q, "dup": dup, "u": 0})


def test_a_duplicate_is_not_where_it_was() -> None:
    """The pages of a duplicate are freed, and may have another owner by the iteration's end."""
    before = snapshot([], row=[1, 2, 3])
    assert finished([7, 8, 9], before, snapshot([1, 2, 3], [told(3)])).longest([7, 8, 9], 0) == 3
    assert finished([7, 8, 9], before, snapshot([1, 2, 3], [told(3, 1)])).longest([7, 8, 9], 0) == 0


def test_who_came_back_had_other_pages() -> None:
    """Retracted, matched again and ended in one iteration, a request has a different row."""
    before = snapshot([], row=[1, 2, 3])
    again = [("T-PLAIN-RETRACT", None, "r1", {}), ("T-MATCH", None, "r1", {"m": 0})]
    known = [
        finished([7, 8, 9], before, snapshot([1, 2, 3], [*more, told(3)])).longest([7, 8, 9], 0)
        for more in ([], again)
    ]
    assert known == [3, 0]


def test_a_page_that_came_back_holds_something_else() -> None:
    """A page evicted and published again within one iteration is no longer certain."""
    before = snapshot([], row=[1, 2, 3])
    published = snapshot([1, 2, 3], [told(3)])
    evicted = [("T-EVICT", None, None, {"n": 1})]
    known = [
        finished([7, 8, 9], before, published, snapshot(pages, events)).longest([7, 8, 9], 0)
        for pages, events in (([1, 2, 3], []), ([1, 2], evicted), ([1, 2, 3], evicted))
    ]
    assert known == [3, 2, 0]


def test_a_match_of_less_is_found_unless_the_driver_says_so() -> None:
    """INV-MATCH.all, and its word in ``not_observed``."""
    commands = [asked("r1", [5, 6, 7, 8]), STEP, asked("r2", [5, 6, 7, 9]), STEP]
    assert not played(commands).log[-1].violations
    [missed] = played(commands, "prefix-last-token-twice").log[-1].violations
    assert (missed.clause, missed.rid, missed.spec, missed.engine) == ("INV-MATCH.all", "r2", 3, 2)
    engine = InProcessEngine("prefix-last-token-twice")
    words = {**engine.capabilities.not_observed, WHOLE: "it looks at half of it"}
    engine.capabilities = replace(engine.capabilities, not_observed=words)
    assert not play(engine, Setup(CONFIGS["p1"]), commands).log[-1].violations


def test_a_doomed_prompt_is_not_the_one_that_is_matched() -> None:
    """T-DOOM leaves one token of the prompt."""
    long = [*PROMPT, *range(100, 136)]
    commands: list[Command] = [{"do": "open", "session": "s1"}, asked("r1", PROMPT), STEP]
    commands += [{**asked("r2", long, 9), "session": "s1"}, STEP]
    assert not played(commands).log[-1].violations


@pytest.mark.parametrize(
    ("mutant", "expected", "guards"),
    [
        ("prefix-prompt-private", ("INV-MATCH.prompt", "r1", 4, 0), []),
        ("prefix-answer-dropped", ("INV-MATCH.left", "r1", 6, 4), [("T-PLAIN-FINISH", "answer")]),
    ],
)
def test_a_tree_that_does_not_get_what_is_computed_is_found(
    mutant: str, expected: Any, guards: list[tuple[str, str]]
) -> None:
    """INV-MATCH.prompt, INV-MATCH.left, and their word in ``not_observed``."""
    commands = [asked("r1", [5, 6, 7, 8]), *[STEP] * 3]
    assert not played(commands).log[-1].violations
    told, *others = played(commands, mutant).log[-1].violations
    assert (told.clause, told.rid, told.spec, told.engine) == expected
    assert [(other.transition, other.guard) for other in others] == guards
    engine = InProcessEngine(mutant)
    words = {**engine.capabilities.not_observed, WHOLE: "it shares what it likes"}
    engine.capabilities = replace(engine.capabilities, not_observed=words)
    assert not play(engine, Setup(CONFIGS["p1"]), commands).log[-1].violations


@pytest.mark.parametrize(
    "config", [{"page_size": 4}, {"page_size": 4, "draft": 2}, {"chunk": 3}, {"overlap": True}]
)
def test_what_is_no_whole_page_or_in_a_window_need_not_be_shared(config: Any) -> None:
    commands = [asked("r1", PROMPT), *[STEP] * 6]
    assert not played(commands, **config).log[-1].violations
    window = {"window": 4, "swa_tokens": 64}
    assert not played(commands, "prefix-answer-dropped", **config, **window).log[-1].violations
