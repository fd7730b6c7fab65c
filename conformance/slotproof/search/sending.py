"""Sends what a machine draws: to one fresh engine, through its referee, or to nobody.

What refers to something that was said before, or to a session that is open, is looked up here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Protocol

from slotproof.lockstep.observation import Violation
from slotproof.lockstep.reached import Reached
from slotproof.lockstep.referee import Referee
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.search.drawing import Chosen, Prompt, Text, family
from slotproof.support import bounds

DRAIN_STEPS = 600
"""More than INV-PROGRESS.starved waits."""


class Leave(KeyboardInterrupt):
    """Out of Hypothesis, at once; ``because`` of an error, or as that was enough.

    To Hypothesis it is Ctrl-C. After anything else it would still look at the example, wonder why
    it broke off, or run it again and have that judged too.
    """

    def __init__(self, because: BaseException | None = None) -> None:
        super().__init__()
        self.because = because


class Host(Protocol):
    """Who wants the examples."""

    def begin(self) -> Referee | None:
        """A judge for the next example; none for one that is drawn and not run."""

    def go_on(self) -> None:
        """Asked before each command; raises what ends the example there."""

    def saw(self, referee: Referee, violations: list[Violation]) -> bool:
        """Told of the example's first violations; whether that was enough."""

    def end(self) -> None:
        """The example is over, and was run to its end or to its first violation."""


def may_be_sent(token: int) -> bool:
    """Whether a token that an engine answered is one that a client may send.

    >>> [may_be_sent(token) for token in (-1, 0, 1, 249)]
    [False, False, True, True]
    """
    return 0 < token <= bounds.TOKENS


class Sender:
    """One example, without rules."""

    def __init__(self, host: Host, config: EngineConfig) -> None:
        self.host, self.config = host, config
        self.sent: list[str] = []
        self.said: dict[str, list[int]] = {}
        """The prompts of those, with what their sessions had said before."""
        self.broken = self.torn = False
        try:
            self.referee = host.begin()
        except BaseException as error:  # nothing of that is Hypothesis' business
            raise Leave(error) from error
        if self.referee is not None:
            self.reached = Reached(config, self.referee.coverage)

    def do(self, command: Command) -> None:
        if self.broken or self.referee is None:
            return  # what is known already was found again: the rest shows nothing
        self.torn = True  # should it not come through, nobody knows where the engine is
        try:
            self.host.go_on()
            self.reached.sends(command, self.referee.client)
            violations = self.referee.do(command)
            self.reached.saw(self.referee.log[-1], self.referee.client)
        except BaseException as error:  # nothing of that is Hypothesis' business
            raise Leave(error) from error
        self.torn = False
        if violations:
            self.broken = True
            if self.host.saw(self.referee, violations):
                raise Leave

    def first(self) -> None:
        """What every example begins with."""
        self.do({"do": "open", "session": "s1"})

    def last(self) -> None:
        """What every example ends with, unless a violation or an error did."""
        try:
            if self.referee is not None and not (self.broken or self.torn):
                for command in drain(self.referee):
                    self.do(command)
        finally:
            if not self.torn:
                self.host.end()

    def past(self, session: str | None) -> list[int]:
        """What a session has said, in turns that were answered."""
        if (
            self.referee is None
            or {"do": "close", "session": session} in self.referee.client.unread
        ):
            return []
        said = self.referee.client.history.get(session or "")
        return said if isinstance(said, list) else []

    def texts(self) -> list[Text]:
        """All that was said so far, in the order in which it was sent."""
        requests = self.referee.client.requests if self.referee is not None else {}
        answers = {rid: each.output for rid, each in requests.items()}
        return [
            Text(prompt, list(takewhile(may_be_sent, output)))
            for rid, prompt in self.said.items()
            if isinstance(output := answers.get(rid), list)
        ]

    def of(self, who: Chosen) -> str:
        """The session of a turn, opened first if that was drawn and it is not open."""
        client = self.referee.client if self.referee is not None else None
        if who.opened and client is not None and who.session not in client.history:
            opening = {"do": "open", "session": who.session}
            if opening not in client.unread:
                self.do(opening)
        return who.session

    def latest(self, back: int, live: bool = False) -> str:
        """A request that was sent, from the last one back; one without an answer, if any."""
        known = self.referee.client.requests if self.referee is not None else {}
        waiting = [rid for rid in self.sent if rid in known and not known[rid].answers]
        among = waiting if live and waiting else self.sent
        return among[-1 - min(back, len(among) - 1)]

    def submit(
        self, session: str | None, prompt: Prompt, new: int, stop: Sequence[int] = ()
    ) -> None:
        past = self.past(session)
        self.send(session, past, prompt.tokens(past, self.texts(), self.config, new), new, stop)

    def send(
        self,
        session: str | None,
        past: list[int],
        tokens: list[int],
        max_new: int,
        stop: Sequence[int],
    ) -> None:
        if not (tokens or past):
            tokens = family(0, 1)  # front ends refuse a request that has no token at all
        rid = f"r{len(self.sent) + 1}"
        self.sent.append(rid)
        self.said[rid] = past + tokens
        asked = {"session": session, "rid": rid, "tokens": tokens, "max_new": max_new}
        self.do({"do": "submit", **asked, "stop": list(stop)})

    def step(self, count: int = 1) -> None:
        self.do({"do": "step", "n": count})


def drain(referee: Referee) -> Iterator[Command]:
    """What ends every example: let all requests finish, close all sessions, look again."""
    if "continue" in referee.engine.capabilities.commands:
        yield {"do": "continue"}
    for _ in range(DRAIN_STEPS):
        yield {"do": "step", "n": 1}
        if not referee.snapshot["requests"] and not referee.client.unread:
            break
    for sid, seen in sorted(referee.snapshot["sessions"].items()):
        if seen["open"]:
            yield {"do": "close", "session": sid}
    yield {"do": "step", "n": 2}
