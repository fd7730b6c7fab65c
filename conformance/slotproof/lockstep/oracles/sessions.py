"""INV-SESSION: each open and close gets one correct answer, and sessions respect their timeouts."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.client import Conversation
from slotproof.lockstep.observation import Observation, Violation, violated

TIMEOUTS = "timeouts"
"""Key in the ``not_observed`` of an engine that never closes a session by itself."""


def judge(seen: Observation) -> Iterator[Violation]:
    client = seen.client
    for sid, told in client.unexpected:
        session = client.sessions[sid]
        if _permitted(seen, sid, told):
            continue
        meant = {"opened": "open", "closed": "close"}.get(told)
        wrongly = next((asked for asked in session.asked if meant in (None, asked.do)), None)
        if wrongly is not None:  # A wrong answer still counts as the command's answer.
            session.asked.remove(wrongly)
        words = "{session} got the answer “{told}”, but " + _WRONG[told]
        yield violated(f"INV-SESSION.{told}", words, session=sid, told=told)
    runs = seen.snapshot["iter"] > seen.previous["iter"]
    for sid, session in client.sessions.items():
        seen.coverage.checked["INV-SESSION"] += 1
        for asked in session.asked:
            if asked.do != "abort" and asked.due(client.free(sid, runs)):
                words = "{session}: the engine did not answer the {do}"
                yield violated("INV-SESSION.answered", words, session=sid, do=asked.do)
        if not runs:
            yield from _overdue(seen, sid, session)
        if not client.hears_closes:
            yield from _early(seen, sid, session)
    yield from _overtaken(seen) if client.queues else ()


_WRONG = {
    "opened": "the session was open, or no client opened it",
    "refused": "the open or close was valid, or no client sent an open or close",
    "closed": "no client closed the session, and its timeout was not over",
}


def _permitted(seen: Observation, sid: str, told: str) -> bool:
    """Return True if the answer is allowed without a command, or in place of another answer."""
    session = seen.client.sessions[sid]
    if told == "closed":
        return 0 < seen.config.timeout_of(sid) <= seen.client.clock - session.used
    opens = [asked for asked in session.asked if asked.do == "open"]
    if told == "refused" and opens and "refused" in seen.capabilities.answers:
        session.asked.remove(opens[0])
        return True
    return False


def _overtaken(seen: Observation) -> Iterator[Violation]:
    """Check that no turn is in flight while an earlier turn of the same session waits."""
    shown = seen.snapshot["requests"]
    waits: dict[str | None, str] = {}
    for rid, sent in seen.client.unanswered.items():
        if rid not in shown:
            waits.setdefault(sent.session, rid)
        elif shown[rid]["kind"] == "turn" and sent.session in waits:
            first = waits[sent.session]
            words = "{rid} is in flight in {session} while {first}, which was sent earlier, waits"
            yield violated("INV-SESSION.order", words, session=sent.session, rid=rid, first=first)


def _early(seen: Observation, sid: str, session: Conversation) -> Iterator[Violation]:
    """Check, for engines without answers to closes, that no session closes before its timeout."""
    timeout, passed = seen.config.timeout_of(sid), seen.client.clock - session.taken
    before, now = (snapshot["sessions"].get(sid) for snapshot in (seen.previous, seen.snapshot))
    was_open = before is not None and before["open"] and not before["closing"]
    if was_open and (now is None or not now["open"]) and passed < timeout and not session.closes:
        words = "{session} was closed by the engine after {engine} s, its timeout is {spec} s"
        yield violated(
            "INV-SESSION.closed", words, session=sid, spec=timeout, engine=_shown(passed)
        )


def _overdue(seen: Observation, sid: str, session: Conversation) -> Iterator[Violation]:
    """Check that an idle session was closed after its timeout, when whole seconds have passed."""
    timeout, idle = seen.config.timeout_of(sid), seen.client.clock - session.idle
    shown = seen.snapshot["sessions"].get(sid)
    open_still = session.open and shown is not None and shown["open"]
    idle_for_long = 0 < timeout < idle and not seen.client.busy(sid) and not seen.client.hasty
    if open_still and idle_for_long and TIMEOUTS not in seen.capabilities.not_observed:
        session.idle = seen.client.clock
        words = "{session} has been idle for {engine} s and is open, but its timeout is {spec} s"
        yield violated("INV-SESSION.overdue", words, session=sid, spec=timeout, engine=_shown(idle))


def _shown(seconds: float) -> int | str:
    """Return a time as a trace stores it: a number of whole seconds, or a text."""
    return int(seconds) if seconds == int(seconds) else f"{seconds:g}"
