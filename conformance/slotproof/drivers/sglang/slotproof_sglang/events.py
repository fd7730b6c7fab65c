"""Wrappers around the build's own methods. They record the list of events.

Event parameters are differences between token counts before and after the wrapped call. No wrapper
reimplements its call. In the order of one iteration:

| wrapped method | events |
|---|---|
| the request dispatcher | T-OPEN, T-SUBMIT, T-REJECT, T-PLAIN-SUBMIT, aborts in the queue, flush |
| the cache's `release_session`, while a queued turn is aborted | T-DISCARD |
| `abort_request`, `_abort_on_queued_limit`, `_add_request_to_queue`, `…_waiting_timeout` \
| aborts by the engine itself |
| `SessionController._close` | T-CLOSE, T-CLOSE-DEFER, T-REAP |
| `SchedulePolicy.calc_priority` | T-DOOM, if the sort looks prompts up |
| `Req.init_next_round_input` with a tree | T-DOOM, T-RESTORE, T-MATCH |
| `PrefillAdder.add_one_req` | T-REFUSE; the lock of T-MATCH |
| `ScheduleBatch.prepare_for_extend`, `prepare_for_decode` | T-EXTEND; T-DECODE, or with overlap \
scheduling T-LAUNCH |
| `Scheduler.run_batch` | T-PARK |
| `free_swa_out_of_window_slots`, or its predecessor | T-SWA-ADVANCE |
| the tree's eviction | T-EVICT |
| the tree's insertion of an unfinished request | T-INSERT |
| `ScheduleBatch.retract_decode` | none: decides between T-RETRACT and T-OOM for a release |
| `Scheduler.process_batch_result` | `sampled` and `told` of T-EXTEND, `told` of T-DECODE; with \
overlap scheduling T-RESULT |
| `release_kv_cache` | T-SAVE, T-ABORT, T-OOM, T-RETRACT, T-PLAIN-FINISH, -ABORT, -RETRACT |
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from slotproof_driver.usage import UsageError

from .dialects.base import Dialect, swa_dup
from .draft import Drafts
from .endings import Endings, finished_length
from .intake import Intake
from .messages import outer_rid
from .tracker import Event, Tracker

POSITIONS = "slotproof_positions"
"""Attribute of a batch's result: the position of the first sampled token, by request."""


class Wrapper:
    """Installer of the wrappers. They are installed once per process."""

    def __init__(
        self, scheduler: Any, dialect: Dialect, tracker: Tracker, drafts: Drafts | None = None
    ) -> None:
        self.scheduler = scheduler
        self.dialect = dialect
        self.tracker = tracker
        self.intake = Intake(scheduler, dialect, tracker)
        self.endings = Endings(dialect, tracker, drafts)
        self.overlap = bool(scheduler.enable_overlap)
        self.speculates = not scheduler.spec_algorithm.is_none()
        self.runs_ahead = self.overlap and self.speculates
        #: Event of the round whose result a request awaits. The result completes it.
        self.rounds: dict[int, Event] = {}
        #: By request, before the result is processed: C, number of output tokens, and position of
        #: the first reported token.
        self.results: dict[int, tuple[int, int, int]] = {}
        #: True if the result being processed belongs to a speculative round launched ahead.
        self.landing = False

    def install(self) -> None:
        """Wrap all methods in the module's table."""
        self._wrap(self.scheduler, "_request_dispatcher", self.intake.dispatch)
        self._wrap(self.scheduler.session_controller, "_close", self.intake.close)
        self._wrap(self.scheduler.session_controller, "maybe_reap", self.intake.reap)
        self._wrap(self.scheduler.tree_cache, "release_session", self.intake.release)
        self._wrap(self.scheduler, "_abort_on_queued_limit", self.intake.queue_limit)
        self._wrap(self.scheduler, "_add_request_to_queue", self.intake.queue)
        self._wrap(self.scheduler, "abort_request", self.intake.abort)
        if hasattr(self.scheduler, "_abort_on_waiting_timeout"):  # newer builds send aborts instead
            self._wrap(self.scheduler, "_abort_on_waiting_timeout", self.intake.too_late)
        batch_module: Any = importlib.import_module("sglang.srt.managers.schedule_batch")
        policy: Any = importlib.import_module("sglang.srt.managers.schedule_policy")
        self._wrap(batch_module.Req, "init_next_round_input", self._match)
        self._wrap(policy.PrefillAdder, "add_one_req", self._admit)
        self._wrap(policy.SchedulePolicy, "calc_priority", self._sort)
        self._wrap(batch_module.ScheduleBatch, "prepare_for_extend", self._extend)
        self._wrap(batch_module.ScheduleBatch, "prepare_for_decode", self._decode)
        self._wrap(batch_module.ScheduleBatch, "retract_decode", self.endings.retract)
        if self.dialect.swa is not None:
            self._wrap_cursor(batch_module.ScheduleBatch)
        self._wrap(self.scheduler, "run_batch", self._run)
        self._wrap(self.scheduler, "process_batch_result", self._process)
        self._wrap(*self.dialect.eviction(), self._evict)
        self._wrap(*self.dialect.insertion(), self._insert)
        self._wrap(*self.dialect.key_insertion(), self.endings.key_inserted)
        self._wrap_release()

    def _wrap(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        """Replace the method `owner.name(…)` by `wrapper(original, …)`."""
        original = getattr(owner, name, None)
        if original is None:
            who = owner if isinstance(owner, type) else type(owner)
            raise UsageError(f"unknown layout: {who.__module__}.{who.__name__} has no {name}")
        setattr(owner, name, self._around(original, wrapper))

    def _around(self, original: Any, wrapper: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that replaces ``original``."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        return wrapped

    def _wrap_release(self) -> None:
        """Wrap the release of KV. A round's event is completed before the release."""
        common: Any = importlib.import_module("sglang.srt.mem_cache.common")
        original = getattr(common, "release_kv_cache", None)
        if original is None:
            raise UsageError(f"unknown layout: {common.__name__} has no release_kv_cache")
        replace_everywhere(original, self._around(original, self._release))

    def _release(self, original: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
        self._settle(req)
        result = self.endings.release(original, req, *args, **kwargs)
        self.tracker.meta(req).ahead = 0  # A round in flight writes to KV that is already released.
        return result

    def _wrap_cursor(self, batch: Any) -> None:
        """Wrap the move of the window cursor: a method in builds up to 0.5.12, a function later."""
        common: Any = importlib.import_module("sglang.srt.mem_cache.common")
        original = getattr(common, "free_swa_out_of_window_slots", None)
        if original is None:
            self._wrap(batch, "_evict_swa", self._advance_in)
        else:
            replace_everywhere(original, self._around(original, self._advance))

    # Matching and admission ---------------------------------------------------

    def _sort(self, original: Any, policy: Any, queue: list[Any], *args: Any, **kw: Any) -> Any:
        """Wrap the queue's sort. In a sort by matched prefix, a doomed turn leaves its session."""
        attached = {id(req): req.session for req in queue}
        result = original(policy, queue, *args, **kw)
        for req in queue:
            meta = self.tracker.meta(req)
            if meta.doomed and meta.kind == "turn" and req.session is not attached[id(req)]:
                self._doom(req)
        return result

    def _match(self, original: Any, req: Any, tree_cache: Any = None, *args: Any, **kw: Any) -> Any:
        attached = req.session
        result = original(req, tree_cache, *args, **kw)
        if tree_cache is None:  # A later chunk of a prompt matches nothing.
            return result
        tracker, meta = self.tracker, self.tracker.meta(req)
        meta.match = None
        if self.dialect.borrows(req) is not None:
            meta.match = tracker.of(req, "T-RESTORE")
            return result
        if meta.doomed and meta.kind == "turn":
            if req.session is attached:
                return result  # The turn leaves its session when it is admitted, not before.
            self._doom(req)
        meta.match = self._matched(req)
        return result

    def _matched(self, req: Any) -> Any:
        unlocked = self.dialect.unlocked_on(req.last_node)
        matched = self.dialect.matched(req)
        return self.tracker.of(req, "T-MATCH", m=matched, locked=unlocked, swa_locked=0)

    def _doom(self, req: Any) -> None:
        self.tracker.of(req, "T-DOOM", prompt=len(req.origin_input_ids))
        self.tracker.meta(req).kind = "doomed"

    def _admit(self, original: Any, adder: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.dialect.figures()
        result = original(adder, req, *args, **kwargs)
        meta = self.tracker.meta(req)
        if any(req is other for other in adder.can_run_list):
            if meta.match is None:
                self._doom(req)
                meta.match = self._matched(req)
            if meta.match[0] == "T-MATCH":
                locked = self.dialect.figures() - before
                meta.match[3].update(locked=locked.protected, swa_locked=locked.swa_protected)
            return result
        if meta.match is not None:
            params = meta.match[3]
            if meta.match[0] == "T-MATCH":
                params["swa_locked"] = self._pinned_swa(params["m"], before.swa_protected)
            self.tracker.of(
                req, "T-REFUSE", u=params.get("locked", 0), swa_u=params.get("swa_locked", 0)
            )
        return result

    def _pinned_swa(self, m: int, protected: int) -> int:
        """Return how many window tokens a prefix locks if its request is matched and then refused.

        The driver can't see the build's lock during the decision, and assumes the smallest lock.
        """
        swa = self.dialect.swa
        if swa is None:
            return 0
        gone = max(0, m - swa.window) // self.dialect.page_size * self.dialect.page_size
        return max(0, m - gone - protected)

    # Running --------------------------------------------------------------------

    def _extend(self, original: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        events, count = self.tracker.events, len(self.tracker.events)
        fresh = {outer_rid(req.rid) for req in batch.reqs if not req.extend_batch_idx}
        result = original(batch, *args, **kwargs)
        # Without a tree, the engine moves cursors first, even of requests that never ran.
        moves = [event for event in events[count:] if event[0] == "T-SWA-ADVANCE"]
        moves = [event for event in moves if event[2] in fresh]
        events[count:] = [event for event in events[count:] if event not in moves]
        for req in batch.reqs:
            kv = self.dialect.kv(req)
            told = {"sampled": 0, "told": 0, "row": kv.row}
            event = self.tracker.of(req, "T-EXTEND", t=kv.C, ahead=0, **told)
            self.rounds[id(req)] = event
        events.extend(moves)
        return result

    def _decode(self, original: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        lengths = [self.dialect.lengths(req) for req in batch.reqs]
        result = original(batch, *args, **kwargs)
        name = "T-LAUNCH" if self.overlap else "T-DECODE"
        for req, (C, A) in zip(batch.reqs, lengths, strict=True):
            committed, allocated = self.dialect.lengths(req)
            if self.runs_ahead and committed == C:  # 0.5.13 itself adds the round to C.
                self.tracker.meta(req).ahead += 1
                committed += 1
            round_ = {"d": allocated - A, "k": committed - C}
            more = {} if self.overlap else {"at": C + 1, "told": 0}
            self.rounds[id(req)] = self.tracker.of(req, name, **round_, **more)
        return result

    def _run(self, original: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(batch, *args, **kwargs)
        vars(result)[POSITIONS] = self._positions(batch, result)
        parked = self.dialect.parked()
        if parked is not None and any(req is parked for req in batch.reqs):
            self.tracker.of(parked, "T-PARK")
        return result

    def _positions(self, batch: Any, result: Any) -> dict[int, int]:
        """Return the position of the first token that a launched batch samples, by request."""
        accepted = getattr(result, "accept_lens", None)
        if self.speculates and batch.forward_mode.is_decode() and accepted is not None:
            firsts = (result.new_seq_lens - accepted + 1).tolist()
        else:
            firsts = [self.dialect.kv(req).C for req in batch.reqs]
        return {id(req): int(first) for req, first in zip(batch.reqs, firsts, strict=True)}

    def _process(self, original: Any, batch: Any, answer: Any, *args: Any, **kwargs: Any) -> Any:
        firsts = vars(answer)[POSITIONS]
        self.results = {
            id(req): (self._computed(req), len(req.output_ids), firsts[id(req)])
            for req in batch.reqs
        }
        self.landing = self.runs_ahead and batch.forward_mode.is_decode()
        result = original(batch, answer, *args, **kwargs)
        for req in batch.reqs:
            self._settle(req)
        return result

    def _computed(self, req: Any) -> int:
        """Return C, or 0 without speculation. Only the result of a speculative round changes C."""
        return self.dialect.kv(req).C if self.speculates else 0

    def _settle(self, req: Any) -> None:
        """Complete the event of a request's round when the round's result is processed."""
        event = self.rounds.pop(id(req), None)
        before = self.results.pop(id(req), None)
        if before is None:
            return
        meta = self.tracker.meta(req)
        meta.ahead -= self.landing and meta.ahead > 0
        computed, outputs, at = before
        k, n = self._computed(req) - computed, len(req.output_ids) - outputs
        told = min(n, max(0, finished_length(req) - outputs))
        if self.overlap:
            if k or n:
                self.tracker.of(req, "T-RESULT", at=at, k=k, sampled=n, told=told)
        elif event is not None and event[0] == "T-EXTEND":
            event[3].update(sampled=n, told=told)
        elif event is not None:  # A speculative round commits its accepted tokens.
            event[3].update(k=event[3]["k"] + k, told=told)

    # The tree ---------------------------------------------------------------------

    def _evict(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.dialect.figures()
        result = original(*args, **kwargs)
        change = self.dialect.figures() - before
        gone, swa_gone = -change.grown, -change.swa_grown
        if gone or swa_gone:
            self.tracker.emit("T-EVICT", None, None, n=gone, swa_n=swa_gone)
        return result

    def _insert(self, original: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
        plain = self.endings.finishing_plain or not self.dialect.has_tree
        if plain or self.dialect.borrows(req) is not None:
            return original(req, *args, **kwargs)
        self._settle(req)
        was, before, events = self.dialect.kv(req), self.dialect.figures(), self.tracker.events
        count = len(events)
        result = original(req, *args, **kwargs)
        change, q = self.dialect.figures() - before, self.dialect.kv(req).Q
        dup = q - was.Q - change.grown
        # Some builds move the cursor before the insertion and again after it.
        told, events[count:] = events[count:], []
        first = [event for event in told if event[3].get("e", 0) <= q]
        cursor = max([was.E, *(event[3]["e"] for event in first if "e" in event[3])])
        events.extend(first)
        self.tracker.of(
            req,
            "T-INSERT",
            q=q,
            dup=dup,
            swa_dup=swa_dup(self.dialect, was.Q, cursor, q, change),
            locked=change.protected,
            swa_locked=max(0, change.swa_protected),
            swa_u=max(0, -change.swa_protected),
        )
        events.extend(event for event in told if event not in first)
        return result

    # The window ---------------------------------------------------------------------

    def _advance_in(self, original: Any, batch: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
        return self._advance(partial(original, batch), req, *args, **kwargs)

    def _advance(self, original: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
        """Record a move of the cursor. A cursor below Q has no meaning, because the tree owns the
        pages. SGLang sets the cursor to Q before it moves the cursor further."""
        was = self.dialect.kv(req)
        result = original(req, *args, **kwargs)
        cursor = self.dialect.kv(req).E
        if cursor > max(was.E, was.Q):
            self.tracker.of(req, "T-SWA-ADVANCE", e=cursor)
        return result


def replace_everywhere(original: Any, wrapped: Any) -> None:
    """Replace a function in every module that has imported this function by its name."""
    called = str(original.__name__)
    for name, module in list(sys.modules.items()):
        if name.startswith("sglang.") and module is not None:  # noqa: SIM102  # vars(None)
            if vars(module).get(called) is original:
                setattr(module, called, wrapped)
