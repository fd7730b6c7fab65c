"""Deliberate rules: draws of a command with the phase of its target, and of two rare turns.

Other rules reach many of these pairs by chance only. Both rules draw uniformly from all pairs that
the configuration allows, so draws depend neither on an engine nor on earlier rounds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, rule
from hypothesis.strategies import booleans, integers, sampled_from

from slotproof.lockstep.reached import drawable
from slotproof.protocol.config import EngineConfig
from slotproof.search import drawing
from slotproof.search.drawing import Chosen, Limit, Prompt, family

LONG = 12
"""New tokens of a turn that is still running when a command meets it."""
WAITS = 15
"""Largest number of step commands, of two iterations each, that wait for an answer."""
_RUNS = ("stop", "aborted", "retracted", "accepted")
"""Rare values of turns that run."""


def deliberate(
    base: Any, offered: Collection[str], config: EngineConfig
) -> type[RuleBasedStateMachine]:
    """Return a subclass of a state machine, with rules for pairs that are rare by chance."""
    phases, pairs = drawable(offered, [config])
    retract = "retract" if "retract" in offered else "flush_all"
    most = min(config.context_len, config.total_tokens)

    class Deliberate(base):  # type: ignore[misc]
        @rule(
            pair=sampled_from([*phases.values()]),
            session=drawing.sessions,
            plain=booleans(),
            new=integers(0, 5),
        )
        def in_phase(self, pair: tuple[str, str], session: str, plain: bool, new: int) -> None:
            """Bring a request, a session or the engine into a phase, then send a command."""
            command, phase = pair
            self.quiet(session)
            without = plain and phase != "slots" and command not in ("open", "submit", "close")
            rid = self.reach(phase, session, None if without else session)
            self.event("turn" if command == "submit" else command, session, rid, new)
            self.step(2)
            if "pause" in (command, retract) or phase in ("retracted", "paused"):
                self.resume()

        def reach(self, phase: str, session: str, where: str | None) -> str:
            """Return the request that the phase belongs to, sent to the session ``where``."""
            if phase == "unknown":
                return "nobody"
            for sid in drawing.SESSIONS if phase == "nothing" else ():
                self.do({"do": "close", "session": sid})
            if phase in ("none", "opening", "empty"):
                self.do({"do": "close", "session": session})
                self.step()
            if phase in ("opening", "empty"):
                self.do({"do": "open", "session": session})
            for _ in range(config.running if phase == "waiting" else 0):
                self.fresh(None, 1, LONG)
            if phase not in ("nothing", "none", "opening", "empty"):
                length = config.chunk + config.page_size + 1 if phase == "parked" else 2
                short = phase in ("idle", "slots", "answered")
                self.fresh(where, min(length, most - 2), 1 if short else LONG)
                if short:
                    self.finish()
            if phase in ("retracted", "running", "decoding", "closing"):
                self.step(1 if phase == "closing" else config.batches)
            if phase == "closing":
                self.do({"do": "close", "session": session})
            elif phase == "retracted" and not config.pause_retracts:
                self.do({"do": retract})
            if phase in ("retracted", "paused"):
                self.do({"do": "pause"})
            if phase not in ("unread", "opening", "running", "decoding"):
                self.step()
            return self.sent[-1] if self.sent else "nobody"

        @rule(pair=sampled_from([*pairs.values()]), session=drawing.sessions, new=integers(2, 6))
        def rare_turns(self, pair: tuple[str, str], session: str, new: int) -> None:
            """Send two turns with rare values. A stop token is known from an earlier answer, so
            a pair with a stop is sent again. A turn at a limit stops early if the next turn must
            run."""
            self.quiet(session)
            early = pair[0] == "limit" and pair[1] in _RUNS
            stops: list[list[int]] = [[], []]
            passes = 1 + early + pair.count("stop")
            for _ in range(passes):
                if passes > 1:
                    self.reopen(session)
                if "no token" in pair and not self.past(session):
                    self.submit(session, Prompt(2, 2), 1)
                    self.finish()
                answers = [
                    self.rare(session, value, stop, LONG if early and value == "limit" else new)
                    for value, stop in zip(pair, stops, strict=True)
                ]
                stops = [
                    answer[1:2] if value == "stop" or (early and value == "limit") else []
                    for value, answer in zip(pair, answers, strict=True)
                ]

        def rare(self, session: str, value: str, stop: Sequence[int], new: int) -> list[int]:
            """Send a turn with a rare value. Return its answer."""
            room = max(0, most - len(self.past(session)))
            paged = Limit("page", 0) if new % 2 and room > config.page_size + new else None
            length, how, new = {
                "one token": (1, None, new),
                "no token": (0, None, new),
                "no answer": (2, None, 0),
                "whole pages": (2, Limit("page", 0), new),
                "limit": (0, Limit("pool", 0), min(new, room)),
                "too long": (0, Limit("context", 1), 1),
            }.get(value, (1, paged, new))
            self.submit(session, Prompt(1, length, how), new, stop)
            rid = self.sent[-1]
            if value in ("aborted", "retracted", "accepted"):
                self.step()
                name = {"aborted": "abort", "retracted": retract}.get(value, "accept")
                self.event(name, session, rid, config.draft)  # accepts all drafts
            self.finish()
            texts = self.texts()
            return texts[-1].answer if texts else []

        def fresh(self, session: str | None, length: int, new: int) -> None:
            """Send a request whose first token differs from those of most requests before."""
            first = 181 + len(self.sent) % 19
            self.send(session, self.past(session), [first, *family(1, length - 1)], new, [])

        def finish(self) -> None:
            """Step until the last request is answered."""
            for _ in range(WAITS):
                if self.referee is None or self.broken:
                    return
                if self.referee.client.requests[self.sent[-1]].answers:
                    return
                self.step(2)

        def resume(self) -> None:
            self.do({"do": "continue"})
            self.step()

        def reopen(self, session: str) -> None:
            self.do({"do": "close", "session": session})
            self.do({"do": "open", "session": session})
            self.step()

        def quiet(self, session: str) -> None:
            """Resume, abort all requests, and leave the session open with a short history."""
            if self.referee is None:
                return
            client = self.referee.client
            if client.paused or {"do": "pause"} in client.unread:
                self.do({"do": "continue"})
            for rid in [rid for rid, sent in client.requests.items() if not sent.answers]:
                self.do({"do": "abort", "rid": rid})
            if client.unread or self.referee.snapshot["requests"]:
                self.step(2)
            if len(self.past(session)) > most // 4:
                self.reopen(session)
            self.of(Chosen(session, True))
            if client.unread:
                self.step()

    return Deliberate
