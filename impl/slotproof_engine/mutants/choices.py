"""Bugs of behaviour that a profile chooses: publishing on loan, dropping the last token, queues."""

from __future__ import annotations

from slotproof_engine.kv.kv_cache import KVCache
from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.req import KVRecord, Req, Session
from slotproof_engine.requests.slot import SessionSlot
from slotproof_engine.sessions.session_cache import SessionCache
from slotproof_engine.sessions.turn_queue import Command, TurnQueue


class LeavesPrefix(SessionCache):
    def follow(self, slot: SessionSlot, req: Req) -> None:
        """Leave the slot's prefix and lock as they were before the turn published KV."""


class KeepsLastToken(SessionCache):
    def kept_len(self, finished_len: int) -> int:
        """Return the number of all outputs, the last output included."""
        return finished_len


class CountsSlack(KVCache):
    def uncount(self, kv: KVRecord, m: int) -> None:
        """Leave KV past a turn's end valid, although only the memory should stay."""


class NewestFirst(TurnQueue):
    def next(self, session: Session) -> Command:
        """Remove and return the newest waiting turn."""
        return session.queue.pop()


LENDS, QUEUES = {"loan_publishes": True}, {"queues_turns": True}
SLACK = {"keeps_slack": True}

MUTANTS = (
    Mutant(
        "lent-leaves-prefix",
        "a plain fault",
        "a turn publishes while its slot is on loan, but the slot's prefix is not updated",
        ("INV-LOAN",),
        swap(cache=LeavesPrefix),
        LENDS,
    ),
    Mutant(
        "last-token-kept",
        "a plain fault",
        "the last token of an answer stays in the history despite drops_last",
        ("INV-HISTORY",),
        swap(cache=KeepsLastToken),
        {"drops_last": True},
    ),
    Mutant(
        "slack-counts",
        "vLLM up to 0.32.0",
        "KV accepted past the end of a turn stays valid and counts as the session's",
        ("INV-COVER", "INV-STEP"),
        swap(kv=CountsSlack),
        SLACK,
    ),
    Mutant(
        "queue-newest-first",
        "a plain fault",
        "the newest waiting turn is taken first",
        ("INV-SESSION",),
        swap(queue=NewestFirst),
        QUEUES,
    ),
)
