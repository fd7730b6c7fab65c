"""The Hypothesis machine: client commands, weighted so that deep states are reached.

The machine knows no transitions. It does what clients and time can do; where
that leads is the engine's business, and the referee's to judge. Hypothesis draws;
shrinking is done on the commands, by :mod:`slotproof.conformance.search.shrinking`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from slotproof.conformance.lockstep.observation import Violation
from slotproof.conformance.lockstep.referee import Referee
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig

SESSIONS = ("s1", "s2", "s3")
FAMILIES = 3
"""Prompts of one family share their beginning, so that the prefix tree is used."""
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


def prompt(family: int, length: int) -> list[int]:
    """The first tokens of a family; never 0, below 200.

    >>> prompt(0, 3), prompt(1, 2)
    ([1, 2, 3], [61, 62])
    """
    return [family * 60 + 1 + position % 60 for position in range(length)]


sessions = st.sampled_from(SESSIONS)
families = st.integers(0, FAMILIES - 1)
lengths = st.one_of(st.integers(0, 10), st.integers(0, 24))
new_tokens = st.one_of(st.integers(1, 6), st.integers(0, 12))
draft_sizes = st.tuples(st.integers(1, 12), st.integers(0, 6))
"""Tokens allocated and committed; cut to what the configuration's drafts can do."""

TOGETHER = 52
"""Of long turns, those up to here are one; the others are two that fill the pool."""


def machine_for(
    host: Host, offered: Collection[str], config: EngineConfig
) -> type[RuleBasedStateMachine]:
    """A state machine class whose instances judge one fresh engine each.

    What is drawn depends on what is offered and on the configuration, never on what the engine
    does: an example can be drawn without being run.
    """
    width, topk = config.draft, config.topk
    drafts, rounds = (width > 0 and name in offered for name in ("draft", "accept"))
    accepted = st.integers(1, width + 1)

    class Clients(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.sent: list[str] = []
            self.broken = self.torn = False
            try:
                self.referee = host.begin()
            except BaseException as error:  # nothing of that is Hypothesis' business
                raise Leave(error) from error

        def do(self, command: Command) -> None:
            if self.broken or self.referee is None:
                return  # what is known already was found again: the rest shows nothing
            self.torn = True  # should it not come through, nobody knows where the engine is
            try:
                host.go_on()
                violations = self.referee.do(command)
            except BaseException as error:  # nothing of that is Hypothesis' business
                raise Leave(error) from error
            self.torn = False
            if violations:
                self.broken = True
                if host.saw(self.referee, violations):
                    raise Leave

        def submit(self, session: str | None, tokens: list[int], max_new: int, **more: Any) -> None:
            known = self.referee.client.history if self.referee is not None else {}
            if not tokens and not known.get(session or ""):
                tokens = prompt(0, 1)  # front ends refuse a request that has no token at all
            rid = f"r{len(self.sent) + 1}"
            self.sent.append(rid)
            stop = more.get("stop", [])
            self.do(
                {
                    "do": "submit",
                    "session": session,
                    "rid": rid,
                    "tokens": tokens,
                    "max_new": max_new,
                    "stop": stop,
                }
            )

        def step(self, count: int = 1) -> None:
            self.do({"do": "step", "n": count})

        def whole(self, session: str, length: int, new: int) -> None:
            self.submit(session, prompt(1, length), new)
            self.step(new + 2)

        def draft(self, allocate: int, commit: int) -> None:
            allocate, commit = min(allocate, width * topk), min(commit, width)
            rid = self.sent[-1]
            self.do({"do": "draft", "rid": rid, "allocate": allocate, "commit": commit})

        @initialize()
        def first(self) -> None:
            self.do({"do": "open", "session": "s1"})

        @rule(session=sessions)
        def open(self, session: str) -> None:
            self.do({"do": "open", "session": session})

        @rule(session=sessions, family=families, length=lengths, new=new_tokens)
        def turn(self, session: str, family: int, length: int, new: int) -> None:
            self.submit(session, prompt(family, length), new)

        @rule(session=sessions, length=st.integers(0, 6), new=new_tokens)
        def turn_and_step(self, session: str, length: int, new: int) -> None:
            self.submit(session, prompt(0, length), new)
            self.step()

        @rule(session=sessions, length=st.integers(1, 8), new=st.integers(1, 4))
        def whole_turn(self, session: str, length: int, new: int) -> None:
            self.whole(session, length, new)

        @rule(session=sessions, length=st.integers(0, 1), new=st.integers(0, 1))
        def bare_turn(self, session: str, length: int, new: int) -> None:
            self.submit(session, prompt(0, length), new)
            self.step()

        @rule(session=sessions, length=lengths, stop=st.integers(1, 240))
        def turn_with_stop(self, session: str, length: int, stop: int) -> None:
            self.submit(session, prompt(2, length), 8, stop=[stop])

        @rule(family=families, length=lengths, new=new_tokens)
        def plain(self, family: int, length: int, new: int) -> None:
            self.submit(None, prompt(family, length), new)

        @rule(length=st.integers(20, 60))
        def long_turn(self, length: int) -> None:
            if length <= TOGETHER:
                self.submit("s1", prompt(0, length), 4)
            else:
                self.too_long_together(close=length % 2 == 0)

        def too_long_together(self, close: bool) -> None:
            """Two turns, each of which fits: somebody has to give up memory in mid-decoding."""
            length = min(config.total_tokens * 3 // 8, config.context_len - 16)
            new = min(config.total_tokens // 8 + 2, 12)
            self.do({"do": "open", "session": "s2"})
            for session in ("s1", "s2"):
                self.submit(session, prompt(0, length), new)
            self.step(2)
            if close:
                self.do({"do": "close", "session": "s1"})
            self.step(new)

        @rule()
        def one_step(self) -> None:
            self.step()

        @rule()
        def one_more_step(self) -> None:
            self.step()

        @rule(count=st.integers(1, 4))
        def some_steps(self, count: int) -> None:
            self.step(count)

        @precondition(lambda self: self.sent)
        @rule(back=st.integers(0, 3))
        def abort(self, back: int) -> None:
            self.do({"do": "abort", "rid": self.sent[-1 - min(back, len(self.sent) - 1)]})

        @rule()
        def abort_unknown(self) -> None:
            self.do({"do": "abort", "rid": "nobody"})

        @rule(session=sessions)
        def close(self, session: str) -> None:
            self.do({"do": "close", "session": session})

        @rule(session=sessions, length=st.integers(1, 4), new=st.integers(2, 4))
        def close_in_turn(self, session: str, length: int, new: int) -> None:
            self.whole(session, length, 1)
            self.submit(session, prompt(0, length), new)
            self.step()
            self.do({"do": "close", "session": session})
            self.step()

        @rule(seconds=st.sampled_from([1, 60, 1000]))
        def tick(self, seconds: int) -> None:
            self.do({"do": "tick", "seconds": seconds})

        @precondition(lambda _: "evict" in offered)
        @rule(tokens=st.integers(1, 16))
        def evict(self, tokens: int) -> None:
            self.do({"do": "evict", "tokens": tokens})

        @precondition(lambda _: "retract" in offered)
        @rule(steps=st.integers(0, 1))
        def retract(self, steps: int) -> None:
            self.do({"do": "retract"})
            if steps:
                self.step()

        @precondition(lambda self: "retract" in offered and self.sent)
        @rule(back=st.integers(0, 1))
        def retract_and_abort(self, back: int) -> None:
            self.do({"do": "retract"})
            self.do({"do": "abort", "rid": self.sent[-1 - min(back, len(self.sent) - 1)]})
            self.step()

        @precondition(lambda self: drafts and self.sent)
        @rule(more=draft_sizes)
        def draft_last(self, more: tuple[int, int]) -> None:
            self.draft(*more)

        @precondition(lambda _: drafts)
        @rule(session=sessions, length=st.integers(1, 8), new=st.integers(1, 4), more=draft_sizes)
        def drafted_turn(self, session: str, length: int, new: int, more: tuple[int, int]) -> None:
            self.submit(session, prompt(1, length), new)
            self.draft(*more)
            self.step(new + 2)

        @rule(name=st.sampled_from(["flush", "pause", "continue", "abort_all"]))
        def operator(self, name: str) -> None:
            if name in offered:
                self.do({"do": name})

        def teardown(self) -> None:
            try:
                if self.referee is not None and not (self.broken or self.torn):
                    for command in drain(self.referee):
                        self.do(command)
            finally:
                if not self.torn:
                    host.end()

    if not rounds:
        return Clients  # without rules that never apply, which would thin out the others

    class Speculating(Clients):
        def accept(self, tokens: int) -> None:
            self.do({"do": "accept", "rid": self.sent[-1], "tokens": tokens})

        @precondition(lambda self: self.sent)
        @rule(tokens=accepted)
        def accept_last(self, tokens: int) -> None:
            self.accept(tokens)

        @rule(
            session=sessions,
            length=st.integers(1, 8),
            new=st.integers(1, 12),
            tokens=st.lists(accepted, min_size=1, max_size=3),
            then=st.sampled_from(["step", "abort", "retract", "close", "reject"]),
        )
        def speculative_turn(
            self, session: str, length: int, new: int, tokens: list[int], then: str
        ) -> None:
            self.submit(session, prompt(1, length), new)
            rid = self.sent[-1]
            self.step()
            for count in tokens:
                self.accept(count)
                self.step()
            if then == "abort":
                self.do({"do": "abort", "rid": rid})
            elif then == "close":
                self.do({"do": "close", "session": session})
            elif then == "reject":
                self.submit(session, prompt(0, length), new)
            elif then == "retract" and then in offered:
                self.do({"do": "retract"})
            self.step()

    return Speculating


def drain(referee: Referee) -> Iterator[Command]:
    """What ends every example: let all requests finish, close all sessions, look again."""
    if "continue" in referee.engine.capabilities.commands:
        yield {"do": "continue"}
    for _ in range(DRAIN_STEPS):
        yield {"do": "step", "n": 1}
        if not referee.snapshot["requests"] and not referee.client.unread:
            break
    for sid in sorted(referee.snapshot["sessions"]):
        yield {"do": "close", "session": sid}
    yield {"do": "step", "n": 2}
