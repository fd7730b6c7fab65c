"""Bugs of what a profile may choose: to publish on loan, drop a last token, queue turns."""

from __future__ import annotations

from slotproof_engine.kv.kv_cache import KVCache
from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.req import KVRecord, Req, Session
from slotproof_engine.requests.slot import SessionSlot
from slotproof_engine.sessions.session_cache import SessionCache
from slotproof_engine.sessions.turn_queue import Command, TurnQueue


class LeavesPrefix(SessionCache):
    def follow(self, slot: SessionSlot, req: Req) -> None:
        """What the turn published is not the slot's: its prefix and its lock stay as they were."""


class KeepsLastToken(SessionCache):
    def kept_len(self, finished_len: int) -> int:
        """All outputs, the last one included."""
        return finished_len


class CountsSlack(KVCache):
    def uncount(self, kv: KVRecord, m: int) -> None:
        """What a round accepted past the end of its turn stays valid, as it stays allocated."""


class NewestFirst(TurnQueue):
    def next(self, session: Session) -> Command:
        """Takes the turn that came last."""
        return session.queue.pop()


LENDS, QUEUES = {"loan_publishes": True}, {"queues_turns": True}
SLACK = {"keeps_slack": True}

MUTANTS = (
    Mutant(
        "lent-leaves-prefix",
        "a plain fault",
        "a turn on loan publishes, and the prefix of its slot stays as it was",
        ("INV-LOAN",),
        swap(cache=LeavesPrefix),
        LENDS,
    ),
    Mutant(
        "last-token-kept",
        "a plain fault",
        "the last token of an answer stays in a history that should leave it out",
        ("INV-HISTORY",),
        swap(cache=KeepsLastToken),
        {"drops_last": True},
    ),
    Mutant(
        "slack-counts",
        "vLLM up to 0.32.0",
        "what a round accepts past the end of its turn stays, and counts as the session's",
        ("INV-COVER", "INV-STEP"),
        swap(kv=CountsSlack),
        SLACK,
    ),
    Mutant(
        "queue-newest-first",
        "a plain fault",
        "of the turns that wait the one that came last is taken first",
        ("INV-SESSION",),
        swap(queue=NewestFirst),
        QUEUES,
    ),
)
