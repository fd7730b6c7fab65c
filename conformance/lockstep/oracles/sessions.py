"""INV-SESSION: opens and closes are answered, once and rightly; time-outs come when due."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.conformance.lockstep.client import Conversation
from slotproof.conformance.lockstep.observation import Observation, Violation, violated

CLOSES = "answers to close"
"""What an engine names in ``not_observed`` that never says ``closed``, nor ``refused`` to a close.
Then only its answers to opens are judged."""
TIMEOUTS = "timeouts"
"""What an engine names there that closes no session by itself."""
PATIENCE = 2
"""Iterations, pauses apart, within which a close is done once no turn is in flight."""


def judge(seen: Observation) -> Iterator[Violation]:
    client = seen.client
    silent = CLOSES in seen.capabilities.not_observed
    if silent:
        for session in client.sessions.values():
            session.asked = [each for each in session.asked if each.do == "open"]
    for message in seen.snapshot["messages"]:
        if message["type"] == "finish" or message["session"] is None:
            continue
        sid, told = message["session"], message["type"]
        session = client.sessions.setdefault(sid, Conversation())
        seen.coverage.checked["INV-SESSION"] += 1
        if session.hears(told) or _permitted(seen, session, told):
            continue
        meant = {"opened": "open", "closed": "close"}.get(told)
        wrongly = next((each for each in session.asked if meant in (None, each.do)), None)
        if wrongly is not None:  # an answer, if a wrong one
            session.asked.remove(wrongly)
        words = "{session} was told “{told}”: " + _WRONG[told]
        yield violated(f"INV-SESSION.{told}", words, session=sid, told=told)
    runs = not client.paused and seen.snapshot["iter"] > seen.previous["iter"]
    for sid, session in client.sessions.items():
        busy = client.busy(sid)
        if busy:
            session.idle = client.clock
        for asked in tuple(session.asked):
            asked.waits += runs and not busy
            if "closed" not in asked.answers or asked.waits > PATIENCE:
                session.asked.remove(asked)
                words = "{session}: no answer to its {do}"
                yield violated("INV-SESSION.answered", words, session=sid, do=asked.do)
        if silent:
            session.open = _shown_open(seen, sid)
        elif not session.asked:
            session.open = sid in client.history
        yield from _overdue(seen, sid, session)


_WRONG = {
    "opened": "it was open, or nobody asked for it",
    "refused": "it could be opened or closed, or nobody asked for it",
    "closed": "nobody closed it, and its time was not over",
}


def _permitted(seen: Observation, session: Conversation, told: str) -> bool:
    """Whether the engine may say so unasked, or in the place of what should be said."""
    if told == "closed":
        return 0 < seen.config.timeout <= seen.client.clock - session.used
    opens = [each for each in session.asked if each.do == "open"]
    if told == "refused" and opens and "refused" in seen.capabilities.answers:
        session.asked.remove(opens[0])
        session.open = None
        return True
    return False


def _shown_open(seen: Observation, sid: str) -> bool | None:
    """Whether a session is open, of an engine that does not say when one is closed."""
    shown = seen.snapshot["sessions"].get(sid)
    if shown is None or not shown["open"]:
        return False
    return None if shown["closing"] else True


def _overdue(seen: Observation, sid: str, session: Conversation) -> Iterator[Violation]:
    """Time has passed: is there a session that should have been reaped?"""
    timeout, idle = seen.config.timeout, seen.client.clock - session.idle
    if TIMEOUTS in seen.capabilities.not_observed:
        return
    ticked = seen.snapshot["iter"] == seen.previous["iter"]
    shown = seen.snapshot["sessions"].get(sid)
    if ticked and session.open and shown and shown["open"] and 0 < timeout < idle:
        session.idle = seen.client.clock
        words = "{session} has been idle for {engine} s, and is reaped after {spec}"
        yield violated("INV-SESSION.overdue", words, session=sid, spec=timeout, engine=idle)
