"""The Hypothesis machine: client commands, weighted so that deep states are reached.

The machine knows no transitions. It does what clients and time can do; where
that leads is the engine's business, and the referee's to judge. Hypothesis draws;
shrinking is done on the commands, by :mod:`slotproof.conformance.search.shrinking`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from slotproof.conformance.lockstep.referee import Referee
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.search.drawing import (
    Again,
    Chosen,
    Prompt,
    chosen,
    draft_sizes,
    families,
    lengths,
    new_tokens,
    prompts,
    repeats,
    sessions,
)
from slotproof.conformance.search.sending import Host, Sender

DRAIN_STEPS = 600
"""More than INV-PROGRESS.starved waits."""

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
    accepted = st.integers(1, width + 2)  # a round has one more than it drafts, and no more
    long = lengths(config.page_size)
    waits = [1, 60, 1000, *(s for s in (config.timeout - 1, config.timeout) if s > 0)]

    class Clients(Sender):
        def __init__(self) -> None:
            super().__init__(host, config)

        def whole(self, session: str, prompt: Prompt, new: int) -> None:
            self.submit(session, prompt, new)
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

        @rule(who=chosen, prompt=prompts(long, families), new=new_tokens)
        def turn(self, who: Chosen, prompt: Prompt, new: int) -> None:
            self.submit(self.of(who), prompt, new)

        @rule(who=chosen, prompt=prompts(st.integers(0, 6), st.just(0)), new=new_tokens)
        def turn_and_step(self, who: Chosen, prompt: Prompt, new: int) -> None:
            self.submit(self.of(who), prompt, new)
            self.step()

        @rule(who=chosen, prompt=prompts(st.integers(1, 8), st.just(1)), new=st.integers(1, 4))
        def whole_turn(self, who: Chosen, prompt: Prompt, new: int) -> None:
            self.whole(self.of(who), prompt, new)

        @rule(who=chosen, length=st.integers(0, 1), new=st.integers(0, 1), more=st.booleans())
        def bare_turn(self, who: Chosen, length: int, new: int, more: bool) -> None:
            session = self.of(who)
            self.submit(session, Prompt(0, length), new)
            self.step()
            if more:
                self.submit(session, Prompt(0, 0), 1)
                self.step()

        @rule(who=st.one_of(chosen, st.none()), length=long, again=repeats)
        def turn_with_stop(self, who: Chosen | None, length: int, again: Again) -> None:
            session = self.of(who) if who is not None else None
            asked, past = again.of(self.past(session), self.texts()), self.past(session)
            if asked is None and past and who is not None and who.opened:  # ask in a new session
                self.do({"do": "close", "session": session})
                self.do({"do": "open", "session": session})
                asked, past = again.of([], self.texts()), []
            if asked is None:
                self.submit(session, Prompt(2, length), 8, [again.otherwise])
            else:
                text, stop = asked
                self.send(session, past, text[len(past) :], 8, [stop])

        @rule(prompt=prompts(long, families), new=new_tokens)
        def plain(self, prompt: Prompt, new: int) -> None:
            self.submit(None, prompt, new)

        @rule(length=st.integers(20, 60))
        def long_turn(self, length: int) -> None:
            if length <= TOGETHER:
                self.submit("s1", Prompt(0, length), 4)
            else:
                self.too_long_together(close=length % 2 == 0)

        def too_long_together(self, close: bool) -> None:
            """Two turns, each of which fits: somebody has to give up memory in mid-decoding."""
            length = min(config.total_tokens * 3 // 8, config.context_len - 16)
            new = min(config.total_tokens // 8 + 2, 12)
            self.do({"do": "open", "session": "s2"})
            for session in ("s1", "s2"):
                self.submit(session, Prompt(0, length), new)
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
        @rule(back=st.integers(0, 3), live=st.sampled_from([True, True, True, False]))
        def abort(self, back: int, live: bool) -> None:
            self.do({"do": "abort", "rid": self.latest(back, live)})

        @rule()
        def abort_unknown(self) -> None:
            self.do({"do": "abort", "rid": "nobody"})

        @rule(session=sessions)
        def close(self, session: str) -> None:
            self.do({"do": "close", "session": session})

        @rule(who=chosen, length=st.integers(1, 4), new=st.integers(2, 4))
        def close_in_turn(self, who: Chosen, length: int, new: int) -> None:
            session = self.of(who)
            self.whole(session, Prompt(1, length), 1)
            self.submit(session, Prompt(0, length), new)
            self.step()
            self.do({"do": "close", "session": session})
            self.step()

        @rule(seconds=st.sampled_from(waits))
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
            self.do({"do": "abort", "rid": self.latest(back)})
            self.step()

        @precondition(lambda self: drafts and self.sent)
        @rule(more=draft_sizes)
        def draft_last(self, more: tuple[int, int]) -> None:
            self.draft(*more)

        @precondition(lambda _: drafts)
        @rule(who=chosen, length=st.integers(1, 8), new=st.integers(1, 4), more=draft_sizes)
        def drafted_turn(self, who: Chosen, length: int, new: int, more: tuple[int, int]) -> None:
            self.submit(self.of(who), Prompt(1, length), new)
            self.draft(*more)
            self.step(new + 2)

        @rule(name=st.sampled_from(["flush", "pause", "continue", "continue", "abort_all"]))
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
            who=chosen,
            prompt=prompts(st.integers(1, 8), st.just(1)),
            new=st.integers(1, 12),
            tokens=st.lists(accepted, min_size=1, max_size=3),
            then=st.sampled_from(["step", "abort", "retract", "close", "reject"]),
        )
        def speculative_turn(
            self, who: Chosen, prompt: Prompt, new: int, tokens: list[int], then: str
        ) -> None:
            session = self.of(who)
            self.submit(session, prompt, new)
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
                self.submit(session, Prompt(0, 2), new)
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
    for sid, seen in sorted(referee.snapshot["sessions"].items()):
        if seen["open"]:
            yield {"do": "close", "session": sid}
    yield {"do": "step", "n": 2}
