"""Bugs of what a profile may choose: to publish on loan, drop a last token, queue turns."""

from __future__ import annotations

from slotproof_engine.kv.kv_cache import KVCache
from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.req import KVRecord, Req, Session
from slotproof_engine.requests.slot import SessionSlot
from slotproof_engine.scheduling.scheduler import ABORT
from slotproof_engine.sessions.session_cache import SessionCache
from slotproof_engine.sessions.session_controller import SessionController
from slotproof_engine.sessions.turn_queue import Command, TurnQueue


class LeavesPrefix(SessionCache):
    def follow(self, slot: SessionSlot, req: Req) -> None:
        """What the turn published is not the slot's: its prefix and its lock stay as they were."""


class KeepsOldLock(SessionCache):
    def follow(self, slot: SessionSlot, req: Req) -> None:
        """The prefix is longer, the lock is that of the one before."""
        old, new = slot.last_node, req.last_node
        super().follow(slot, req)
        assert old is not None and new is not None
        self.kv.tree.lock(old)
        self.kv.tree.unlock(new)
        slot.last_node = req.last_node = old


class KeepsLastToken(SessionCache):
    def kept_len(self, finished_len: int) -> int:
        """All outputs, the last one included."""
        return finished_len


class CountsSlack(KVCache):
    def uncount(self, kv: KVRecord, m: int) -> None:
        """What a round accepted past the end of its turn stays valid, as it stays allocated."""


class RejectsThird(TurnQueue):
    def takes(self, session: Session) -> bool:
        """One turn may wait, and no more."""
        return super().takes(session) and not session.queue


class LosesThird(TurnQueue):
    def put(self, session: Session, command: Command) -> None:
        """There is room for one turn; another one is not kept."""
        if not session.queue:
            super().put(session, command)


class NewestFirst(TurnQueue):
    def next(self, session: Session) -> Command:
        """Takes the turn that came last."""
        return session.queue.pop()


class CloseAbortsQueue(SessionController):
    def close(self, sid: str) -> None:
        """Does not wait for the turns that are queued."""
        session = self.get(sid)
        for command in session.queue if session is not None else ():
            self.outbox.tell_finish(command["rid"], ABORT, [], "the session is closing")
        if session is not None:
            session.queue.clear()
        super().close(sid)


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
        "lent-keeps-lock",
        "a plain fault",
        "a turn on loan publishes, and what it published is not locked",
        ("INV-LOCK", "INV-STEP"),
        swap(cache=KeepsOldLock),
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
        "queue-rejects-third",
        "a plain fault",
        "a turn that finds another one waiting is rejected, and not queued",
        ("INV-ANSWER",),
        swap(queue=RejectsThird),
        QUEUES,
    ),
    Mutant(
        "queue-loses-third",
        "a plain fault",
        "a turn that finds another one waiting is lost",
        ("INV-ANSWER", "INV-PROGRESS", "INV-SESSION"),
        swap(queue=LosesThird),
        QUEUES,
    ),
    Mutant(
        "queue-newest-first",
        "a plain fault",
        "of the turns that wait the one that came last is taken first",
        ("INV-SESSION",),
        swap(queue=NewestFirst),
        QUEUES,
    ),
    Mutant(
        "queue-close-aborts",
        "a plain fault",
        "a close aborts the turns that wait, and does not wait for them",
        ("INV-ANSWER",),
        swap(controller=CloseAbortsQueue),
        QUEUES,
    ),
)
