"""INV-SESSION: opens and closes are answered, once and rightly; time-outs come when due."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.client import Conversation
from slotproof.lockstep.observation import Observation, Violation, violated

TIMEOUTS = "timeouts"
"""What an engine names in ``not_observed`` that closes no session by itself."""


def judge(seen: Observation) -> Iterator[Violation]:
    client = seen.client
    for sid, told in client.unexpected:
        session = client.sessions[sid]
        if _permitted(seen, sid, told):
            continue
        meant = {"opened": "open", "closed": "close"}.get(told)
        wrongly = next((each for each in session.asked if meant in (None, each.do)), None)
        if wrongly is not None:  # an answer, if a wrong one
            session.asked.remove(wrongly)
        words = "{session} was told “{told}”: " + _WRONG[told]
        yield violated(f"INV-SESSION.{told}", words, session=sid, told=told)
    runs = seen.snapshot["iter"] > seen.previous["iter"]
    for sid, session in client.sessions.items():
        seen.coverage.checked["INV-SESSION"] += 1
        for asked in session.asked:
            if asked.do != "abort" and asked.due(client.free(sid, runs)):
                words = "{session}: no answer to its {do}"
                yield violated("INV-SESSION.answered", words, session=sid, do=asked.do)
        if not runs:
            yield from _overdue(seen, sid, session)
        if not client.hears_closes:
            yield from _early(seen, sid, session)
    yield from _overtaken(seen) if client.queues else ()


_WRONG = {
    "opened": "it was open, or nobody asked for it",
    "refused": "it could be opened or closed, or nobody asked for it",
    "closed": "nobody closed it, and its time was not over",
}


def _permitted(seen: Observation, sid: str, told: str) -> bool:
    """Whether the engine may say so unasked, or in the place of what should be said."""
    session = seen.client.sessions[sid]
    if told == "closed":
        return 0 < seen.config.timeout_of(sid) <= seen.client.clock - session.used
    opens = [each for each in session.asked if each.do == "open"]
    if told == "refused" and opens and "refused" in seen.capabilities.answers:
        session.asked.remove(opens[0])
        return True
    return False


def _overtaken(seen: Observation) -> Iterator[Violation]:
    """Is a turn in flight though another one of its session was read before it, and waits?"""
    shown = seen.snapshot["requests"]
    waits: dict[str | None, str] = {}
    for rid, sent in seen.client.unanswered.items():
        if rid not in shown:
            waits.setdefault(sent.session, rid)
        elif shown[rid]["kind"] == "turn" and sent.session in waits:
            first = waits[sent.session]
            words = "{rid} is in flight in {session}, and {first}, which was sent before it, waits"
            yield violated("INV-SESSION.order", words, session=sent.session, rid=rid, first=first)


def _early(seen: Observation, sid: str, session: Conversation) -> Iterator[Violation]:
    """Where nobody is told of it: was a session closed whose time was not over?"""
    timeout, passed = seen.config.timeout_of(sid), seen.client.clock - session.taken
    before, now = (each["sessions"].get(sid) for each in (seen.previous, seen.snapshot))
    was_open = before is not None and before["open"] and not before["closing"]
    if was_open and (now is None or not now["open"]) and passed < timeout and not session.closes:
        words = "{session} is closed after {engine} s: nobody closed it, and it has {spec}"
        yield violated("INV-SESSION.closed", words, session=sid, spec=timeout, engine=passed)


def _overdue(seen: Observation, sid: str, session: Conversation) -> Iterator[Violation]:
    """Time has passed: should the session have been reaped?"""
    timeout, idle = seen.config.timeout_of(sid), seen.client.clock - session.idle
    shown = seen.snapshot["sessions"].get(sid)
    open_still = session.open and shown is not None and shown["open"]
    idle_for_long = 0 < timeout < idle and not seen.client.busy(sid)
    if open_still and idle_for_long and TIMEOUTS not in seen.capabilities.not_observed:
        session.idle = seen.client.clock
        words = "{session} has been idle for {engine} s, and is reaped after {spec}"
        yield violated("INV-SESSION.overdue", words, session=sid, spec=timeout, engine=idle)
