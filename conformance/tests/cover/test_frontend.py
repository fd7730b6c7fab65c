"""What clients of a front end must hear: every clause can fail, and none fails by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli import app
from slotproof.frontend import oracle, round_file
from slotproof.frontend.configs import CONFIGS
from slotproof.frontend.program import Build
from slotproof.frontend.running import FrontEndFinding, Plan, Round
from slotproof.frontend.scripts import MARGIN, Action, Script, drawn
from slotproof.protocol.family import FrontEnd

Noted = dict[str, Any]


def turn(rid: str, session: str | None = "s", tokens: int = 2, new: int = 2, **more: Any) -> Action:
    action = {"do": "turn", "session": session, "rid": rid, "tokens": [7] * tokens, "wait": True}
    return {**action, "max_new": new, **more}


def said(rid: str, prompt: int, *tokens: int, what: str = "final", **more: Any) -> Noted:
    reason = {"reason": "length", "message": ""} if what == "final" else {}
    figures = {"prompt_tokens": prompt, "completion_tokens": len(tokens), "cached_tokens": 0}
    return {"what": what, "rid": rid, "tokens": list(tokens), **reason, **figures, **more}


def note(what: str, rid: str | None = None, **more: Any) -> Noted:
    return {"what": what, **({"rid": rid} if rid else {}), **more}


OPEN = note("opened", session="s", said="s")
BUSY = {"error": f"ValueError: Streaming session {oracle.BUSY}."}
SCRIPT: Script = [
    {"do": "open", "session": "s"},
    turn("a"),
    turn("b"),
    {"do": "close", "session": "s"},
]
HEARD: list[Noted] = [
    OPEN,
    note("sent", "a"),
    said("a", 2, 1, what="chunk"),
    said("a", 2, 1, 1),
    note("over", "a"),
    note("sent", "b"),
    said("b", 6, 1, 1, cached_tokens=4),
    note("over", "b"),
    note("closes", session="s"),
    note("flushed", ok=True),
]
"""Two turns of two tokens, each answered with two."""


def alone(requests: list[Action]) -> dict[str, list[int]]:
    """A build that answers with ones."""
    return {each["rid"]: [1] * each["max_new"] for each in requests}


def judged(heard: list[Noted], *scripts: Script, ask: oracle.Answers = alone) -> list[str]:
    return [each.clause for each in oracle.judge([*scripts] or [SCRIPT], heard, ask)]


def test_what_is_right_is_not_told() -> None:
    assert judged(HEARD) == []


def with_note(at: int, *new: Noted) -> list[Noted]:
    """What was heard with other notes in the place of one."""
    return [*HEARD[:at], *new, *HEARD[at + 1 :]]


WRONG: dict[str, tuple[str, list[Noted]]] = {
    "an open that is refused": ("CLIENT-ANSWER", with_note(0, {**OPEN, "said": None})),
    "no answer": ("CLIENT-ANSWER", with_note(6, note("unanswered", "b"))),
    "two answers": ("CLIENT-ANSWER", with_note(4, HEARD[3])),
    "a chunk after the answer": ("CLIENT-ANSWER", with_note(4, HEARD[2])),
    "another's answer": ("CLIENT-ANSWER", with_note(3, {**HEARD[3], "of": "b"})),
    "never idle": ("CLIENT-ANSWER", with_note(9, note("flushed", ok=False))),
    "an abort that nobody asked for": (
        "CLIENT-ABORT",
        with_note(6, said("b", 6, reason="abort", message="Aborted")),
    ),
    "an error": ("CLIENT-ABORT", with_note(6, note("raised", "b", error="KeyError: 'b'"))),
    "refused with nothing in flight": ("CLIENT-ABORT", with_note(6, note("raised", "b", **BUSY))),
    "never let in again": ("CLIENT-ABORT", with_note(6, note("insisted", "b", times=100))),
    "a token less": ("CLIENT-LENGTH", with_note(6, said("b", 6, 1))),
    "a token more": ("CLIENT-LENGTH", with_note(6, said("b", 6, 1, 1, 1))),
    "a count that is not its tokens'": (
        "CLIENT-LENGTH",
        with_note(6, said("b", 6, 1, 1) | {"completion_tokens": 1}),
    ),
    "a chunk that is taken back": ("CLIENT-LENGTH", with_note(2, said("a", 2, 9, what="chunk"))),
    "a history that forgot": ("CLIENT-HISTORY", with_note(6, said("b", 2, 1, 1))),
    "a history of another": ("CLIENT-HISTORY", with_note(6, said("b", 11, 1, 1))),
    "a first turn that finds tokens": (
        "CLIENT-CANARY",
        with_note(3, said("a", 2, 1, 1, cached_tokens=1)),
    ),
    "a prompt that is cached to its end": (
        "CLIENT-CANARY",
        with_note(6, said("b", 6, 1, 1, cached_tokens=6)),
    ),
    "another answer than alone": ("CLIENT-TOKENS", with_note(6, said("b", 6, 1, 2))),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_told(case: str) -> None:
    clause, heard = WRONG[case]
    assert clause in judged(heard)


def test_an_answer_depends_on_the_whole_history() -> None:
    """The second turn is asked for alone with the first one's tokens and answer before it."""
    asked: list[list[int]] = []

    def ask(requests: list[Action]) -> dict[str, list[int]]:
        asked.extend(each["tokens"] for each in requests)
        return alone(requests)

    assert judged(HEARD, ask=ask) == []
    assert sorted(asked) == [[7, 7], [7, 7, 1, 1, 7, 7]]


@pytest.mark.parametrize(("prompt", "clauses"), [(2, []), (6, []), (5, ["CLIENT-HISTORY"])])
def test_a_turn_that_was_left_may_have_ended(prompt: int, clauses: list[str]) -> None:
    """Its session's history has it whole or not at all."""
    heard = [OPEN, note("sent", "a"), note("left", "a"), note("sent", "b"), said("b", prompt, 1, 1)]
    assert judged(heard) == clauses


def test_what_a_turn_that_was_left_said_is_asked_for() -> None:
    """Nobody heard it, and the next answer depends on it."""
    heard = [OPEN, note("sent", "a"), note("left", "a"), note("sent", "b"), said("b", 6, 1, 1)]
    asked: list[list[int]] = []

    def ask(requests: list[Action]) -> dict[str, list[int]]:
        asked.extend(each["tokens"] for each in requests)
        return alone(requests)

    assert judged(heard, ask=ask) == []
    assert asked == [[7, 7], [7, 7, 1, 1, 7, 7]]


@pytest.mark.parametrize(("last", "clauses"), [(8, []), (9, []), (3, ["CLIENT-TOKENS"])])
def test_two_turns_of_one_length_that_were_left(last: int, clauses: list[str]) -> None:
    """Which of them the history has, the answer tells."""
    script = [SCRIPT[0], turn("a"), turn("b", tokens=1, new=3), turn("c", new=1)]
    gone = [note(what, rid) for rid in "ab" for what in ("sent", "left")]
    heard = [OPEN, *gone, note("sent", "c"), said("c", 6, last)]

    def ask(requests: list[Action]) -> dict[str, list[int]]:
        """Eight after a, nine after b."""
        return {
            each["rid"]: [8 if each["tokens"][:2] == [7, 7] else 9] * each["max_new"]
            for each in requests
        }

    assert judged(heard, script, ask=ask) == clauses


@pytest.mark.parametrize(
    ("name", "heard"),
    [
        ("aborted", [note("aborts", "a"), said("a", 2, 1, reason="abort", message="Aborted")]),
        ("closed", [note("closes", session="s"), note("raised", "a", error="session id s")]),
        ("gone", [note("left", "a"), note("raised", "a", error=f"is {oracle.GONE}")]),
    ],
)
def test_an_abort_that_somebody_asked_for(name: str, heard: list[Noted]) -> None:
    assert judged([OPEN, note("sent", "a"), *heard]) == [], name


def test_a_turn_in_flight_refuses_the_next_and_no_other() -> None:
    """A refusal is right while a turn before it has no answer; one refused is not in flight."""
    first, last = [note("sent", "a"), note("sent", "b")], said("a", 2, 1, 1)
    refused = note("raised", "b", **BUSY)
    assert judged([OPEN, *first, refused, last]) == []
    assert judged([OPEN, *first, last, refused]) == []
    third = [SCRIPT[0], turn("a"), turn("b"), turn("c")]
    late = [note("sent", "c"), note("raised", "c", **BUSY)]
    assert judged([OPEN, *first, refused, last, *late], third) == ["CLIENT-ABORT"]


def test_a_turn_finds_what_one_that_was_left_has_computed() -> None:
    """SGLang leaves an aborted turn's tokens in the tree."""
    aborted = [note("aborts", "a"), said("a", 2, reason="abort", message="Aborted")]
    heard = [OPEN, note("sent", "a"), *aborted, note("sent", "b"), said("b", 2, 1, 1)]
    heard[-1]["cached_tokens"] = 1
    assert judged(heard) == []


def test_sessions_are_judged_apart() -> None:
    """What one client's session has says nothing of another's, nor of plain requests."""
    other = [{"do": "open", "session": "t"}, turn("c", "t"), turn("p", None)]
    heard = [
        *HEARD[:-1],
        note("sent", "c"),
        said("c", 2, 1, 1),
        note("sent", "p"),
        said("p", 2, 1, 1),
    ]
    assert judged(heard, SCRIPT, other) == []


# Scripts ----------------------------------------------------------------------------------------


def test_scripts_are_drawn_from_their_numbers() -> None:
    assert drawn(1, 2, 8, 96) == drawn(1, 2, 8, 96)
    assert drawn(1, 2, 8, 96) != drawn(1, 3, 8, 96) != drawn(2, 2, 8, 96)


def actions(rounds: int = 40) -> list[Script]:
    return [script for number in range(rounds) for script in drawn(0, number, 8, 96)]


def test_scripts_have_all_that_clients_do() -> None:
    every = [each for script in actions() for each in script]
    assert {each["do"] for each in every} == {"open", "close", "turn", "abort", "pause"}
    for name in ("stream", "http", "leaves", "insists"):
        assert any(name in each for each in every), name
    assert any(not each.get("wait", True) for each in every)


def test_no_prompt_of_a_script_is_too_long() -> None:
    """Whatever becomes of turns that are left: refused for its length would be another story."""
    for script in actions():
        lengths: dict[str | None, int] = {}
        for each in script:
            if each["do"] == "turn":
                sid = each.get("session")
                before = lengths.get(sid, 0) if sid else 0
                lengths[sid] = before + len(each["tokens"]) + each["max_new"]
                assert lengths[sid] <= 96 - MARGIN


def test_no_two_sessions_begin_with_the_same_token() -> None:
    for number in range(10):
        first: dict[int, str] = {}
        for script in drawn(0, number, 32, 96):
            for each in script:
                if each["do"] == "turn":
                    who = each.get("session") or each["rid"]
                    assert first.setdefault(each["tokens"][0], who) == who


# What is saved, and the command line --------------------------------------------------------------


def found(scripts: list[Script]) -> FrontEndFinding:
    played = Round(3, "p1", scripts, HEARD, {"CLIENT-TOKENS": "CLIENT-TOKENS: other"})
    return FrontEndFinding(
        "CLIENT-TOKENS", "CLIENT-TOKENS: other", played, Path("round00003"), 10, 7
    )


def saved(folder: Path) -> Path:
    plan = Plan(
        Build(Path("python"), Path("driver"), FrontEnd("front", {}), ("all",)), CONFIGS, 1, 1.0, 0
    )
    return round_file.save(found([SCRIPT]), plan, "sglang==0.5.23", folder)


def test_a_round_is_kept_and_read(tmp_path: Path) -> None:
    path = saved(tmp_path)
    again = round_file.load(path)
    assert path.name == "sglang-0.5.23-seed0-CLIENT-TOKENS.json"
    assert again == round_file.SavedRound(
        "sglang==0.5.23", ("all",), CONFIGS["p1"], "CLIENT-TOKENS", [SCRIPT]
    )


BAD: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another file": (lambda _: [1], "Input should be"),
    "no scripts": (lambda data: data | {"scripts": None}, "scripts"),
    "no such action": (lambda data: data | {"scripts": [[{"do": "exec"}]]}, "scripts/0/0/do"),
    "half an action": (lambda data: data | {"scripts": [[{"do": "turn", "rid": "a"}]]}, "tokens"),
    "no such configuration": (lambda data: data | {"config": {"page_size": 0}}, "page_size"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_file_that_is_no_round(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, text = BAD[case]
    path = saved(tmp_path)
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    assert app.status(["frontend", "--replay", str(path)]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and text in line and path.name in line


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--engine", "reference"], "there is no front end for 'reference'"),
        (["--engine", "vllm==0.33.0"], "there is no front end for 'vllm==0.33.0'"),
        (["--clients", "0"], "--clients must be at least 1"),
        (["--clients", "33"], "--clients must be at most 32"),
        (["--times", "-1"], "--times must be at least 0"),
        (["--config", "p9"], "unknown configuration 'p9'; there are: p4-overlap"),
        (["--engine", "sglang", "--python", "/no/python"], "there is no such program"),
        (["--replay", "/no/such/file"], "No such file"),
    ],
)
def test_what_is_wrong_with_a_command_line(
    argv: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.status(["frontend", *argv]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and text in line
