"""Whether what clients heard can be: of each session alone, without looking into the engine.

| clause | every … |
|---|---|
| `CLIENT-ANSWER` | request whose client stays gets one final answer in time, and nothing after it |
| `CLIENT-ABORT` | abort or refusal has a reason: somebody asked, or a turn is in flight |
| `CLIENT-LENGTH` | answer has the tokens that were asked for, and chunks only add to it |
| `CLIENT-HISTORY` | prompt is as long as the session's turns and its own tokens |
| `CLIENT-CANARY` | session's first prompt finds nothing cached: no two begin with the same |
| `CLIENT-TOKENS` | answer is what the same tokens are answered alone, on an empty cache |

A turn that its client left may have come to its end or not: the session's history is one of several
until a turn's length, or its answer, tells which. What it leaves in the prefix tree its session
may find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from slotproof.frontend.scripts import Action, Script

Noted = dict[str, Any]
Answers = Callable[[list[Action]], dict[str, list[int]]]
"""Asks the build for plain requests, each alone: the tokens of each."""

NOT_OBSERVED = {
    "what becomes of a turn that was left": "its client is gone; the next turn's length tells",
    "text": "there is no tokenizer: tokens go in and out",
}
"""What no client is told, whatever the family."""
BUSY = "already has an active request"
GONE = "disconnected from the client side"
"""What SGLang's refusals have in them."""


@dataclass(frozen=True)
class Wrong:
    """What a client can't have heard."""

    clause: str
    detail: str
    session: str | None = None
    rid: str | None = None

    def __str__(self) -> str:
        about = " of ".join(filter(None, (self.rid, self.session)))
        return f"{self.clause}: {f'{about}: ' if about else ''}{self.detail}"


@dataclass
class Turn:
    """A turn of a client, in a session or without one, and the messages that answered it."""

    rid: str
    action: Action
    at: int
    """When it was sent: a place in what all clients noted."""
    chunks: list[Noted] = field(default_factory=list)
    final: Noted | None = None
    """The final answer, or the error that came in its place."""
    ended: int | None = None
    left: int | None = None
    aborted: int | None = None
    """When a client asked for its end."""

    @property
    def tokens(self) -> list[int]:
        return list(self.action["tokens"])

    @property
    def finished(self) -> bool:
        """It ended with what was asked for: its session's history has it."""
        return self.final is not None and self.final.get("reason") in ("length", "stop")

    @property
    def refused(self) -> bool:
        return BUSY in self.words

    @property
    def words(self) -> str:
        """What came in place of an answer."""
        final = self.final or {}
        return str(final.get("error") or final.get("message") or "")


@dataclass
class Story:
    """What was noted, by session and by request."""

    turns: dict[str, Turn] = field(default_factory=dict)
    opened: dict[str, bool] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)


def judge(scripts: list[Script], noted: list[Noted], alone: Answers) -> list[Wrong]:
    """All that can't be; ``alone`` is asked for answers to compare with."""
    wrong: list[Wrong] = []
    story = _told(scripts, noted, wrong)
    for turn in story.turns.values():
        wrong += _answered(turn, story)
        wrong += _lengths(turn)
    by_session: dict[str | None, list[Turn]] = {}
    for turn in story.turns.values():
        by_session.setdefault(turn.action.get("session"), []).append(turn)
    told = [each for sid, turns in by_session.items() for each in _histories(sid, turns, wrong)]
    wrong += _contents(told, alone)
    return wrong


def _told(scripts: list[Script], noted: list[Noted], wrong: list[Wrong]) -> Story:
    """Put in order who heard what."""
    actions = {each["rid"]: each for script in scripts for each in script if each["do"] == "turn"}
    story = Story()
    for at, note in enumerate(noted):
        what, rid, sid = note["what"], note.get("rid"), note.get("session")
        turn = story.turns.get(rid or "")
        if what == "sent":
            story.turns[note["rid"]] = Turn(note["rid"], actions[note.get("turn", rid)], at)
        elif what == "opened":
            story.opened[note["session"]] = note["said"] == sid
            if note["said"] != sid:
                text = f"the open is answered with {note['said']!r}"
                wrong.append(Wrong("CLIENT-ANSWER", text, sid))
        elif what == "closes":
            story.closed.setdefault(note["session"], at)
        elif what == "unanswered":
            wrong.append(Wrong("CLIENT-ANSWER", "no answer in time", sid, rid))
        elif what == "insisted":
            text = f"let in at none of {note['times']} tries after a turn was left"
            wrong.append(Wrong("CLIENT-ABORT", text, sid, rid))
        elif what == "flushed" and not note["ok"]:
            wrong.append(Wrong("CLIENT-ANSWER", "not idle after all clients were done"))
        elif turn is not None:
            _heard(turn, note, at, wrong)
    return story


def _heard(turn: Turn, note: Noted, at: int, wrong: list[Wrong]) -> None:
    what, sid = note["what"], turn.action.get("session")
    if "of" in note:
        wrong.append(Wrong("CLIENT-ANSWER", f"the answer of {note['of']} came", sid, turn.rid))
    if what in ("chunk", "final") and turn.final is not None:
        wrong.append(Wrong("CLIENT-ANSWER", "more came after its final answer", sid, turn.rid))
    if what == "chunk":
        turn.chunks.append(note)
    elif what in ("final", "raised"):
        turn.final, turn.ended = turn.final or note, at
    elif what == "left":
        turn.left = at
    elif what == "aborts":
        turn.aborted = at if turn.aborted is None else turn.aborted


def _answered(turn: Turn, story: Story) -> Iterator[Wrong]:
    """One final answer, and a reason for one that is none."""
    sid = turn.action.get("session")
    if turn.final is None or turn.finished:
        return
    closed = story.closed.get(sid or "")
    assert turn.ended is not None
    asked = turn.aborted is not None and turn.aborted < turn.ended
    gone = closed is not None and closed < turn.ended
    if turn.refused:
        before = [
            each
            for each in story.turns.values()
            if each.action.get("session") == sid and each.at < turn.at and not each.refused
        ]
        flying = any(each.ended is None or each.ended > turn.at for each in before)
        if not flying:
            text = "refused for a turn in flight, and all before it were answered"
            yield Wrong("CLIENT-ABORT", text, sid, turn.rid)
    elif not (asked or gone or (turn.left is not None and GONE in turn.words)):
        kind = turn.final.get("reason") or turn.words
        text = f"ended with {kind!r} ({turn.words}), and nobody asked for that"
        yield Wrong("CLIENT-ABORT", text, sid, turn.rid)


def _lengths(turn: Turn) -> Iterator[Wrong]:
    """Tokens and figures of an answer fit each other and what was asked for."""
    said: list[int] = []
    answers = [*turn.chunks, *([turn.final] if turn.final and "tokens" in turn.final else [])]
    sid, most = turn.action.get("session"), turn.action["max_new"]
    for note in answers:
        tokens = note["tokens"]
        if turn.final is note and note["reason"] == "abort" and not tokens:
            continue
        if tokens[: len(said)] != said:
            text = f"{tokens} does not go on from {said}"
            yield Wrong("CLIENT-LENGTH", text, sid, turn.rid)
        said = tokens
        if note["completion_tokens"] != len(tokens) or len(tokens) > most:
            text = f"{len(tokens)} tokens, told as {note['completion_tokens']}, of {most} asked for"
            yield Wrong("CLIENT-LENGTH", text, sid, turn.rid)
    if turn.finished and len(said) != most:
        yield Wrong("CLIENT-LENGTH", f"{len(said)} tokens of {most} asked for", sid, turn.rid)


# Histories --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class History:
    """What a session may have: requests whose tokens and answers follow each other."""

    turns: tuple[Turn, ...] = ()

    @property
    def count(self) -> int:
        return sum(len(each.tokens) + _new(each) for each in self.turns)

    def with_turn(self, turn: Turn) -> History:
        return History((*self.turns, turn))


def _new(turn: Turn) -> int:
    return len(turn.final["tokens"]) if turn.finished and turn.final else turn.action["max_new"]


def _histories(
    sid: str | None, turns: list[Turn], wrong: list[Wrong]
) -> Iterator[tuple[Turn, list[History]]]:
    """Each turn whose prompt's length was told, and the histories that it fits."""
    may = [History()]
    for turn in turns:
        told = _told_prompt(turn)
        if told is not None:
            fits = [each for each in may if each.count + len(turn.tokens) == told]
            if not fits:
                lengths = " or ".join(str(each.count) for each in may)
                text = f"a prompt of {told} tokens: {len(turn.tokens)} after a history of {lengths}"
                wrong.append(Wrong("CLIENT-HISTORY", text, sid, turn.rid))
                return  # nothing is known of what comes after
            may = fits
            yield turn, fits
            cached = max(each["cached_tokens"] or 0 for each in _said(turn))
            if cached > (told - 1 if turn is not turns[0] and sid else 0):
                text = f"{cached} of its {told} tokens are cached, and nobody else has them"
                wrong.append(Wrong("CLIENT-CANARY", text, sid, turn.rid))
        if sid is None:
            continue
        if turn.finished:
            may = [each.with_turn(turn) for each in may]
        elif turn.final is None or turn.left is not None:  # it may have come to its end
            may = [*may, *(each.with_turn(turn) for each in may)]


def _said(turn: Turn) -> list[Noted]:
    """Answers with figures of the prompt."""
    said = [*turn.chunks, *([turn.final] if turn.final else [])]
    return [each for each in said if each.get("prompt_tokens") is not None and not turn.refused]


def _told_prompt(turn: Turn) -> int | None:
    """How long its prompt is by what the build says; None if it does not say."""
    said = _said(turn)
    if not said or (turn.final in said and said[-1].get("reason") == "abort" and len(said) == 1):
        return None
    return int(said[0]["prompt_tokens"])


Request = tuple[tuple[int, ...], int]
"""A prompt, and how many tokens are asked for."""


class _Missing(Exception):
    """The build was not asked for this yet, alone."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.request = request


class _Alone:
    """What the build answers to prompts alone."""

    def __init__(self, ask: Answers) -> None:
        self.ask = ask
        self.known: dict[Request, list[int]] = {}

    def answer(self, prompt: list[int], count: int) -> list[int]:
        """Raises :class:`_Missing`."""
        request = tuple(prompt), count
        if request not in self.known:
            raise _Missing(request)
        return self.known[request]

    def answers(self, history: History, turn: Turn) -> list[int]:
        """To a turn after a history, in which nobody heard some of the answers."""
        prompt: list[int] = []
        for each in history.turns:
            prompt += each.tokens
            heard = each.final["tokens"] if each.finished and each.final else None
            prompt += self.answer(prompt, _new(each)) if heard is None else heard
        return self.answer([*prompt, *turn.tokens], turn.action["max_new"])

    def learn(self, missing: set[Request]) -> None:
        """Ask for all of these."""
        asked = {f"alone{number:05}": each for number, each in enumerate(sorted(missing))}
        said = self.ask(
            [{"rid": rid, "tokens": list(p), "max_new": count} for rid, (p, count) in asked.items()]
        )
        self.known |= {request: said.get(rid, []) for rid, request in asked.items()}


def _contents(told: list[tuple[Turn, list[History]]], ask: Answers) -> Iterator[Wrong]:
    """Compare answers with those to the same tokens alone, after one of the histories."""
    alone = _Alone(ask)
    while True:
        missing: set[Request] = set()
        answers: list[tuple[Turn, list[list[int]]]] = []
        for turn, histories in told:
            found = []
            for history in histories:
                try:
                    found.append(alone.answers(history, turn))
                except _Missing as lacks:
                    missing.add(lacks.request)
            answers.append((turn, found))
        if not missing:
            break
        alone.learn(missing)
    for turn, found in answers:
        said = [*turn.chunks, *([turn.final] if turn.final and "tokens" in turn.final else [])]
        longest: list[int] = max((each["tokens"] for each in said), key=len, default=[])
        if not any(longest == each[: len(longest)] for each in found):
            text = f"{longest} is the answer, alone it is {' or '.join(map(str, found))}"
            yield Wrong("CLIENT-TOKENS", text, turn.action.get("session"), turn.rid)
