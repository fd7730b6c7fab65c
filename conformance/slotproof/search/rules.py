"""Rules: draws of client commands and of the passage of time, weighted to reach deep states.

The rules do not refer to the spec's transitions. Hypothesis draws the commands, the engine runs
them, and the referee judges. Shrinking works on the commands (:mod:`slotproof.search.shrinking`).
"""

from __future__ import annotations

from collections.abc import Collection

from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from hypothesis.strategies import booleans, integers, just, lists, one_of, sampled_from

from slotproof.protocol.config import EngineConfig
from slotproof.search import drawing
from slotproof.search.deliberate import deliberate
from slotproof.search.drawing import Again, Chosen, Limit, Prompt, chosen, prompts
from slotproof.search.sending import Host, Sender

TOGETHER = 52
"""Largest drawn length of one long turn. A larger draw gives two turns that fill the pool."""

PARTS = (250, 500, 750)
"""Parts of a second, in milliseconds. Engines may count whole seconds only."""

OPERATORS = ("flush", "flush_all", "pause", "continue", "continue", "abort_all", "evict", "evict")
"""Commands of an operator, with repetitions for more frequent commands."""

IDLE_STEPS = 18
"""Number of steps without events, enough for INV-PROGRESS.stalled to report a waiting request."""


def machine_for(
    host: Host, offered: Collection[str], config: EngineConfig
) -> type[RuleBasedStateMachine]:
    """Return a state machine class. Each instance sends its commands to one fresh engine.

    The draws depend only on the offered commands and on the configuration, never on the engine's
    behaviour. So an example can be drawn without running it.
    """
    width, topk = config.draft, config.topk
    drafts, rounds = (width > 0 and name in offered for name in ("draft", "accept"))
    accepted = integers(1, width + 2)  # A decoding round yields at most draft + 1 tokens.
    long = drawing.lengths(config.page_size)
    limits = sorted({config.timeout_of(session) for session in drawing.SESSIONS})
    waits = [1, 60, 1000, *(s for limit in limits for s in (limit - 1, limit) if s > 0)]
    ends = [limit for limit in (*limits, config.waiting_timeout, config.running_timeout) if limit]

    events = ["turn", "plain", "abort", "open", "close", "tick", *(["accept"] if rounds else [])]
    also = ("retract", "flush", "flush_all", "evict", "abort_all", "tick_ms")
    events += [name for name in also if name in offered]
    events += ["pause", "continue"] if {"pause", "continue"} <= {*offered} else []
    operators = ["open", *(name for name in OPERATORS if name in offered)]

    class Clients(Sender, RuleBasedStateMachine):
        def __init__(self) -> None:
            RuleBasedStateMachine.__init__(self)
            Sender.__init__(self, host, config)

        @initialize()
        def begin(self) -> None:
            self.do({"do": "open", "session": "s1"})

        def whole(self, session: str, prompt: Prompt, new: int) -> None:
            self.submit(session, prompt, new)
            self.step(new + 2)

        def draft(self, allocate: int, commit: int) -> None:
            allocate, commit = min(allocate, width * topk), min(commit, width)
            self.do({"do": "draft", "rid": self.sent[-1], "allocate": allocate, "commit": commit})

        @rule(session=drawing.sessions)
        def open(self, session: str) -> None:
            self.do({"do": "open", "session": session})

        @rule(who=chosen, prompt=prompts(long, drawing.families), new=drawing.new_tokens)
        def turn(self, who: Chosen, prompt: Prompt, new: int) -> None:
            self.submit(self.of(who), prompt, new)

        @rule(who=chosen, prompt=prompts(integers(0, 6), just(0)), new=drawing.new_tokens)
        def turn_and_step(self, who: Chosen, prompt: Prompt, new: int) -> None:
            self.submit(self.of(who), prompt, new)
            self.step()

        @rule(who=chosen, prompt=prompts(integers(1, 8), just(1)), new=integers(1, 4))
        def whole_turn(self, who: Chosen, prompt: Prompt, new: int) -> None:
            self.whole(self.of(who), prompt, new)

        @rule(who=chosen, length=integers(0, 1), new=integers(0, 1), more=booleans())
        def bare_turn(self, who: Chosen, length: int, new: int, more: bool) -> None:
            session = self.of(who)
            self.submit(session, Prompt(0, length), new)
            self.step()
            if more:
                self.submit(session, Prompt(0, 0), 1)
                self.step()

        @rule(
            who=one_of(chosen, just(None)),
            length=long,
            again=drawing.repeats,
            then=sampled_from(["", "", "", "retract"]),
        )
        def turn_with_stop(self, who: Chosen | None, length: int, again: Again, then: str) -> None:
            session = self.of(who) if who is not None else None
            asked, past = again.of(self.past(session), self.texts()), self.past(session)
            if asked is None and past and who is not None and who.opened:  # use a new session
                self.do({"do": "close", "session": session})
                self.do({"do": "open", "session": session})
                asked, past = again.of([], self.texts()), []
            if asked is None:
                self.submit(session, Prompt(2, length), 8, [again.otherwise])
            else:
                text, stops = asked
                self.send(session, past, text[len(past) :], 8, stops)
            if then in offered:
                self.step(2)
                self.do({"do": then})
                self.step()

        @rule(who=chosen, back=integers(0, 3))
        def conversation_again(self, who: Chosen, back: int) -> None:
            """Repeat two earlier turns. The first turn gets stop tokens found only in the second
            turn's answer. These tokens must not stop the second turn."""
            if not (known := drawing.conversations(self.texts())):
                for length in (2, 1):
                    self.whole(self.of(who), Prompt(1, length), 3)
                return
            first, then = known[-1 - back % len(known)]
            session = who.session
            self.do({"do": "close", "session": session})
            self.do({"do": "open", "session": session})
            stops = sorted({*then.answer} - {*first.answer})
            self.send(session, [], first.prompt, len(first.answer), stops)
            self.step(len(first.answer) + 2)
            past = self.past(session)
            if then.prompt[: len(past)] == past:
                self.send(session, past, then.prompt[len(past) :], len(then.answer), [])
                self.step(len(then.answer) + 2)

        @rule(prompt=prompts(long, drawing.families), new=drawing.new_tokens)
        def plain(self, prompt: Prompt, new: int) -> None:
            self.submit(None, prompt, new)

        @rule(length=integers(20, 60))
        def long_turn(self, length: int) -> None:
            if length <= TOGETHER:
                self.submit("s1", Prompt(0, length), 4)
            else:
                self.too_long_together(close=length % 2 == 0)

        def too_long_together(self, close: bool) -> None:
            """Send two turns that exceed the pool together, so that decoding must preempt one."""
            length = min(config.total_tokens * 3 // 8, config.context_len - 16)
            new = min(config.total_tokens // 8 + 2, 12)
            self.do({"do": "open", "session": "s2"})
            for session in ("s1", "s2"):
                self.submit(session, Prompt(0, length), new)
            self.step(2)
            if close:
                self.do({"do": "close", "session": "s1"})
            self.step(new)

        @rule(how=sampled_from(["abort", "close", "abort_all"]))
        def memory_comes_free(self, how: str) -> None:
            """Let a request wait for memory held by two running turns, then end both turns. No
            later event would wake the request."""
            length = min(config.total_tokens * 3 // 8, config.context_len - 16)
            sessions = ("s1", "s2")
            for session in sessions:
                self.of(Chosen(session, True))
                self.submit(session, Prompt(0, length), 8)
            running = self.sent[-2:]
            self.step()
            self.submit(None, Prompt(2, length), 2)
            self.step(2)
            if how == "abort":
                for rid in running:
                    self.do({"do": "abort", "rid": rid})
            elif how == "close":
                for session in sessions:
                    self.do({"do": "close", "session": session})
            elif how in offered:
                self.do({"do": how})
            self.step(IDLE_STEPS)

        @rule()
        def one_step(self) -> None:
            self.step()

        @rule()
        def one_more_step(self) -> None:
            self.step()

        @rule(count=integers(1, 4))
        def some_steps(self, count: int) -> None:
            self.step(count)

        @precondition(lambda self: bool(self.sent))
        @rule(back=integers(0, 3), live=sampled_from([True, True, True, False]))
        def abort(self, back: int, live: bool) -> None:
            self.do({"do": "abort", "rid": self.latest(back, live)})

        @rule()
        def abort_unknown(self) -> None:
            self.do({"do": "abort", "rid": "nobody"})

        @rule(session=drawing.sessions)
        def close(self, session: str) -> None:
            self.do({"do": "close", "session": session})

        @rule(who=chosen, length=integers(1, 4), new=integers(2, 4))
        def close_in_turn(self, who: Chosen, length: int, new: int) -> None:
            session = self.of(who)
            self.whole(session, Prompt(1, length), 1)
            self.submit(session, Prompt(0, length), new)
            self.step()
            self.do({"do": "close", "session": session})
            self.step()

        @rule(seconds=sampled_from(waits))
        def tick(self, seconds: int) -> None:
            self.do({"do": "tick", "seconds": seconds})

        @precondition(lambda _: "tick_ms" in offered and bool(ends))
        @rule(
            limit=sampled_from(ends or [1]),
            parts=lists(sampled_from(PARTS), min_size=1, max_size=5),
        )
        def tick_in_parts(self, limit: int, parts: list[int]) -> None:
            """Let time pass up to a second before a limit, then in parts of a second."""
            self.do({"do": "tick", "seconds": limit - 1})
            for part in parts:
                self.do({"do": "tick_ms", "ms": part})
            self.step()

        @precondition(lambda _: config.timeout > 2)
        @rule(who=chosen, between=sampled_from(["too long", "empty", "reopened", "read late"]))
        def two_pauses(self, who: Chosen, between: str) -> None:
            """Let time pass twice, with an event in the middle. Each interval is below the timeout,
            but both together are above the timeout."""
            seconds = config.timeout * 2 // 3
            session = self.of(who)
            self.step()
            self.do({"do": "tick", "seconds": seconds})
            if between == "too long":
                self.submit(session, Prompt(0, 0, Limit("context", 1)), 1)
            elif between == "empty":
                self.submit(session, Prompt(0, 0), 0)
            elif between == "reopened":
                self.do({"do": "close", "session": session})
                self.do({"do": "open", "session": session})
            else:
                self.submit(session, Prompt(1, 1), 2)
            self.step(1 if between == "read late" else 4)
            self.do({"do": "tick", "seconds": seconds})
            self.step()

        @rule(
            who=one_of(chosen, just(None)),
            prompt=prompts(long, drawing.families),
            new=drawing.new_tokens,
            before=integers(0, 4),
            one=sampled_from(events),
            between=integers(0, 2),
            two=sampled_from(events),
            after=integers(0, 2),
        )
        def two_events(
            self,
            who: Chosen | None,
            prompt: Prompt,
            new: int,
            before: int,
            one: str,
            between: int,
            two: str,
            after: int,
        ) -> None:
            """Send a request, then two events at any phase of the request."""
            session = self.of(who) if who is not None else None
            self.submit(session, prompt, new)
            rid = self.sent[-1]
            for steps, name in ((before, one), (between, two)):
                if steps:
                    self.step(steps)
                self.event(name, session, rid, new)
            if after:
                self.step(after)
            if "pause" in (one, two) and two != "continue":
                self.do({"do": "continue"})
                self.step()

        def event(self, name: str, session: str | None, rid: str, new: int) -> None:
            match name:
                case "turn":
                    self.submit(session, Prompt(0, 2), new)
                case "plain":
                    self.submit(None, Prompt(0, 3), new)
                case "abort":
                    self.do({"do": "abort", "rid": rid})
                case "open" | "close":
                    self.do({"do": name, "session": session or "s1"})
                case "tick":
                    self.do({"do": "tick", "seconds": waits[new % len(waits)]})
                case "tick_ms":
                    self.do({"do": "tick_ms", "ms": PARTS[new % len(PARTS)]})
                case "evict":
                    self.do({"do": "evict", "tokens": 4 + new})
                case "draft":
                    self.do({"do": "draft", "rid": rid, "allocate": topk, "commit": new % 2})
                case "accept":
                    self.do({"do": "accept", "rid": rid, "tokens": 1 + new % (width + 1)})
                case _:
                    self.do({"do": name})

        @precondition(lambda _: "retract" in offered)
        @rule(steps=integers(0, 1))
        def retract(self, steps: int) -> None:
            self.do({"do": "retract"})
            if steps:
                self.step()

        @precondition(lambda self: drafts and bool(self.sent))
        @rule(more=drawing.draft_sizes)
        def draft_last(self, more: tuple[int, int]) -> None:
            self.draft(*more)

        @precondition(lambda _: drafts)
        @rule(who=chosen, length=integers(1, 8), new=integers(1, 4), more=drawing.draft_sizes)
        def drafted_turn(self, who: Chosen, length: int, new: int, more: tuple[int, int]) -> None:
            self.submit(self.of(who), Prompt(1, length), new)
            self.draft(*more)
            self.step(new + 2)

        @rule(name=sampled_from(operators), new=integers(-3, 12))
        def operator(self, name: str, new: int) -> None:
            self.event(name, None, "", new)

    # A rule that never applies would make all other rules rarer.
    if not rounds:
        return deliberate(Clients, offered, config)

    class Speculating(Clients):
        def accept(self, tokens: int) -> None:
            self.do({"do": "accept", "rid": self.sent[-1], "tokens": tokens})

        @precondition(lambda self: bool(self.sent))
        @rule(tokens=accepted)
        def accept_last(self, tokens: int) -> None:
            self.accept(tokens)

        @rule(
            who=chosen,
            prompt=prompts(integers(1, 8), just(1)),
            new=integers(1, 12),
            tokens=lists(accepted, min_size=1, max_size=3),
            then=sampled_from(["step", "abort", "retract", "close", "reject"]),
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

    return deliberate(Speculating, offered, config)
