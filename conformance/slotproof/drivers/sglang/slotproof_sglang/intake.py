"""Events of client requests: sessions, submissions, flushes, and aborts of queued requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .dialects.base import META, Dialect, Slot
from .tracker import Meta, Tracker


class Intake:
    """Wrappers around the request dispatcher and the session controller."""

    def __init__(self, scheduler: Any, dialect: Dialect, tracker: Tracker) -> None:
        self.scheduler = scheduler
        self.dialect = dialect
        self.tracker = tracker
        self.reaping = False
        self.aborting = False
        #: Sessions with a deferred close. The reaper clears the engine's flag before the close.
        self.closing: set[str] = set()
        #: Requests that a full queue turned away and whose slots are not released yet. While the
        #: engine reads a request, the events of such requests wait in the second list.
        self.away: list[tuple[Any, dict[str, Slot]]] = []
        self.turned_away: list[tuple[Any, dict[str, Slot]]] | None = None

    def dispatch(self, original: Any, message: Any) -> Any:
        """Wrap the dispatch of a client's message. Its type decides which events are recorded."""
        kind = type(message).__name__
        if kind == "OpenSessionReqInput":
            output = original(message)
            if output is not None and output.success:
                self.tracker.emit("T-OPEN", message.session_id, None)
            return output
        if kind == "TokenizedGenerateReqInput":
            return self._submit(original, message)
        if kind == "AbortReq":
            return self.abort(original, message)
        if kind == "FlushCacheReqInput":
            return self._flush(original, message)
        return original(message)

    # Submissions ------------------------------------------------------------------

    def _submit(self, original: Any, message: Any) -> Any:
        sid = None if message.session_params is None else message.session_params.id
        if sid and self.dialect.branches(sid):
            sid = None
        session = self.dialect.sessions().get(sid) if sid else None
        busy = session is not None and self.dialect.inflight(session) is not None
        claimed = session is not None and self.dialect.claimed(session)
        history = 0
        if session:
            _, *parts = self.dialect.history_place(session, self.tracker.new_tokens)
            history = sum(parts)
        new = len(message.input_ids)
        known = {id(req) for req in self.scheduler.waiting_queue}
        self.turned_away = []
        result = original(message)
        gone, self.turned_away = self.turned_away, None
        queued = [req for req in self.scheduler.waiting_queue if id(req) not in known]
        if queued:
            req = queued[-1]
            if sid and session and self.dialect.accepted(session, req, claimed):
                self._accepted(req, sid, history, new)
            else:
                full = busy or (session is not None and self.dialect.close_pending(session))
                self._alone(req, sid, new, full)
        for entry in gone:  # These requests were still queued when this request came.
            self._left_queue(*entry)
        return result

    def _alone(self, req: Any, sid: str | None, new: int, full: bool) -> None:
        """Record a request outside a session. Either its session is missing, not named or accepts
        no turn now (``full``), or no token is to be computed."""
        prompt = len(req.origin_input_ids)
        self.tracker.enrol(req, Meta("stub" if sid else "plain", sid, new, prompt))
        if full:
            self.tracker.emit("T-REJECT", sid, req.rid, prompt=prompt)
        else:
            self.tracker.emit("T-PLAIN-SUBMIT", None, req.rid, prompt=prompt)

    def _accepted(self, req: Any, sid: str, history: int, new: int) -> None:
        # A prompt over the limit is already cut to one token. As long as the turn is in its
        # session, events report the prompt that the client sent.
        aborting = req.to_finish is not None
        asked = history + new if aborting else len(req.origin_input_ids)
        self.tracker.enrol(req, Meta("turn", sid, new, asked, doomed=aborting))
        self.tracker.emit("T-SUBMIT", sid, req.rid, new=asked - history)

    # Aborts in the queue ------------------------------------------------------------

    def abort(self, original: Any, message: Any) -> Any:
        """Wrap an abort by a client or by the engine itself."""
        before, slots = self.dialect.waiting(), self.dialect.slots()
        with self._aborts():
            result = original(message)
        for req in reversed(self._gone(before)):
            self._left_queue(req, slots)
        return result

    def queue_limit(self, original: Any, req: Any) -> Any:
        """Wrap the check for a full queue. The build refuses the new request or a queued one. A
        refusal is recorded as an event only if the refused request was queued before."""
        before, slots = self.dialect.waiting(), self.dialect.slots()
        refused = original(req)
        gone = self._gone(before)
        gone += [req] if refused and hasattr(req, META) else []
        self.away += [(gone_req, slots) for gone_req in gone]
        return refused

    def queue(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Wrap the queueing of a request, which may drive another request from the queue."""
        with self._aborts():
            result = original(*args, **kwargs)
        gone, self.away = self.away, []
        if self.turned_away is not None:
            self.turned_away += gone
        else:
            for entry in gone:
                self._left_queue(*entry)
        return result

    @contextmanager
    def _aborts(self) -> Iterator[None]:
        """Count slots released inside the `with` block as slots of aborted turns."""
        before, self.aborting = self.aborting, True
        try:
            yield
        finally:
            self.aborting = before

    def too_late(self, original: Any, *args: Any) -> Any:
        """Wrap the search for requests whose waiting time is over."""
        before, slots = self.dialect.waiting(), self.dialect.slots()
        result = original(*args)
        for req in self._gone(before):
            self._left_queue(req, slots)
        return result

    def _gone(self, before: list[Any]) -> list[Any]:
        """Return the requests that left the queue, in the queue's order."""
        left = {id(req) for req in self.dialect.waiting()}
        return [req for req in before if id(req) not in left]

    def _left_queue(self, req: Any, slots: dict[str, Slot]) -> None:
        meta = self.tracker.meta(req)
        sid = meta.event_session
        if sid is None:
            self.tracker.emit("T-PLAIN-ABORT", None, req.rid, u=0, swa_u=0)
        elif slots.get(sid) != self.dialect.slots().get(sid, slots.get(sid)):
            self.tracker.emit("T-ABORT-PARTIAL", sid, req.rid)
        else:
            self.tracker.emit("T-ABORT-WAITING", sid, req.rid)
        self.tracker.end(req)

    def release(self, original: Any, sid: str) -> Any:
        """Wrap the release of a slot. During the abort of a queued turn, it is a separate event."""
        had_slot, before = sid in self.dialect.slots(), self.dialect.figures()
        result = original(sid)
        if self.aborting and had_slot:
            change = self.dialect.figures() - before
            self.tracker.emit("T-DISCARD", sid, None, **change.dropped)
        return result

    # Sessions -------------------------------------------------------------------------

    def reap(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        """Wrap the reaper. It closes sessions, recorded as T-REAP, or defers a close again."""
        self.reaping = True
        try:
            return original(*args, **kwargs)
        finally:
            self.reaping = False

    def close(self, original: Any, sid: str) -> Any:
        """Wrap the close of a session, immediate or deferred."""
        session = self.dialect.sessions().get(sid)
        # A doomed turn delayed this close, whose event is already recorded.
        if session is None:
            return original(sid)
        pending = sid in self.closing or self.dialect.close_pending(session)
        before = self.dialect.figures()
        result = original(sid)
        if sid not in self.dialect.sessions() or (not pending and self.dialect.parts(session)):
            self.closing.discard(sid)
            change = self.dialect.figures() - before
            # Once the turn is over, a second close of a closing session acts as the reaper does.
            name = "T-REAP" if self.reaping or pending else "T-CLOSE"
            self.tracker.emit(name, sid, None, **change.dropped)
        elif self.dialect.close_pending(session) and not pending:
            self.closing.add(sid)
            self.tracker.emit("T-CLOSE-DEFER", sid, None)
        return result

    # Flush ------------------------------------------------------------------------------

    def _flush(self, original: Any, message: Any) -> Any:
        """Wrap a flush. A flush that succeeds discards every slot and evicts the whole tree."""
        dialect = self.dialect
        slots, before = dialect.slots(), dialect.figures()
        paths = {sid: list(dialect.path(dialect.locked_by(sid))) for sid in slots}
        locks = {node: count for path in paths.values() for node, _, count in path}
        result = original(message)
        if dialect.figures() == before and dialect.slots() == slots:
            return result
        evictable, swa_left = before.evictable, before.swa_protected
        for sid, path in paths.items():
            for node, _, _ in path:
                locks[node] -= 1
            free = sum(tokens for node, tokens, _ in path if locks[node] == 0)
            evictable += free
            # A flush drops all locks, so the share of each slot in the window does not matter.
            swa_free = min(swa_left, slots[sid].kv.Q)
            swa_left -= swa_free
            self.tracker.emit("T-DISCARD", sid, None, u=free, swa_u=swa_free)
        swa_evictable = before.swa_grown
        if evictable or swa_evictable:
            self.tracker.emit("T-EVICT", None, None, n=evictable, swa_n=swa_evictable)
        return result
