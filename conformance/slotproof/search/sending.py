"""Sender of drawn commands. If an example is run, a referee passes the commands to a new engine.

References to earlier requests, answers and open sessions are resolved when a command is sent.
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
"""Maximum steps at the end of an example, enough for INV-PROGRESS.starved to report a request."""


class Leave(KeyboardInterrupt):
    """Immediate exit from Hypothesis, ``because`` of an error or after enough findings.

    Hypothesis treats this exception as Ctrl-C. After any other exception, Hypothesis would analyse
    the example, or run it again and have the second run judged too.
    """

    def __init__(self, because: BaseException | None = None) -> None:
        super().__init__()
        self.because = because


class Host(Protocol):
    """Owner of the examples: starts, judges and counts them."""

    def begin(self) -> Referee | None:
        """Return a referee for the next example, or None if the example is drawn and not run."""

    def go_on(self) -> None:
        """Raise an exception to end the example. Called before each command."""

    def saw(self, referee: Referee, violations: list[Violation]) -> bool:
        """Record the example's first violations. Return True if the search may stop."""

    def end(self) -> None:
        """Count an example that ran to its end or to its first violation."""


def may_be_sent(token: int) -> bool:
    """Return True if a client may send a token that an engine generated.

    >>> [may_be_sent(token) for token in (-1, 0, 1, 249)]
    [False, False, True, True]
    """
    return 0 < token <= bounds.TOKENS


class Sender:
    """Sender of one example's commands. The rules that draw the commands are in a subclass."""

    def __init__(self, host: Host, config: EngineConfig) -> None:
        self.host, self.config = host, config
        self.sent: list[str] = []
        self.said: dict[str, list[int]] = {}
        """Prompt of each request sent, by request ID, including the history of its session."""
        self.broken = self.torn = False
        try:
            self.referee = host.begin()
        # Hypothesis must not analyse an error of the engine.
        except BaseException as error:
            raise Leave(error) from error
        if self.referee is not None:
            self.reached = Reached(config, self.referee.coverage)

    def do(self, command: Command) -> None:
        if self.broken or self.referee is None:
            return  # Later commands show nothing new.
        self.torn = True  # If the command fails, the engine's state is unknown.
        try:
            self.host.go_on()
            self.reached.sends(command, self.referee.client)
            violations = self.referee.do(command)
            self.reached.saw(self.referee.log[-1], self.referee.client)
        except BaseException as error:  # Hypothesis must not analyse the error.
            raise Leave(error) from error
        self.torn = False
        if violations:
            self.broken = True
            if self.host.saw(self.referee, violations):
                raise Leave

    def teardown(self) -> None:
        """Send the last commands of every example, unless a violation or an error came first."""
        try:
            if self.referee is not None and not (self.broken or self.torn):
                for command in drain(self.referee):
                    self.do(command)
        finally:
            if not self.torn:
                self.host.end()

    def past(self, session: str | None) -> list[int]:
        """Return the tokens of a session's answered turns."""
        close = {"do": "close", "session": session}
        if self.referee is None or close in self.referee.client.unread:
            return []
        said = self.referee.client.history.get(session or "")
        return said if isinstance(said, list) else []

    def texts(self) -> list[Text]:
        """Return the text of all answered requests, in the order of sending."""
        requests = self.referee.client.requests if self.referee is not None else {}
        answers = {rid: request.output for rid, request in requests.items()}
        return [
            Text(prompt, list(takewhile(may_be_sent, output)))
            for rid, prompt in self.said.items()
            if isinstance(output := answers.get(rid), list)
        ]

    def of(self, who: Chosen) -> str:
        """Return the session of a turn. Open the session first if the draw asks for it."""
        client = self.referee.client if self.referee is not None else None
        if who.opened and client is not None and who.session not in client.history:
            opening = {"do": "open", "session": who.session}
            if opening not in client.unread:
                self.do(opening)
        return who.session

    def latest(self, back: int, live: bool = False) -> str:
        """Return the ID of a request, counted from the last. ``live``: prefer unanswered ones."""
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
            tokens = family(0, 1)  # Front ends refuse a request without tokens.
        rid = f"r{len(self.sent) + 1}"
        self.sent.append(rid)
        self.said[rid] = past + tokens
        asked = {"session": session, "rid": rid, "tokens": tokens, "max_new": max_new}
        self.do({"do": "submit", **asked, "stop": list(stop)})

    def step(self, count: int = 1) -> None:
        self.do({"do": "step", "n": count})


def drain(referee: Referee) -> Iterator[Command]:
    """Yield the last commands of every example: finish all requests, close all sessions, step."""
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
