"""The event list, by wrapping the build's own methods.

Parameters are figures before and after the wrapped call (free, evictable, protected
tokens; the request's lengths), not a second implementation of what it does. In the order
of one iteration:

| what is wrapped | events |
|---|---|
| the request dispatcher | T-OPEN, T-SUBMIT, T-REJECT, T-PLAIN-SUBMIT, aborts in the queue, flush |
| `SessionController._close` | T-CLOSE, T-CLOSE-DEFER, T-REAP |
| `Req.init_next_round_input` with a tree | T-DOOM, T-RESTORE, T-MATCH |
| `PrefillAdder.add_one_req` | T-REFUSE; the lock of T-MATCH |
| `ScheduleBatch.prepare_for_extend`, `prepare_for_decode` | T-EXTEND, T-DECODE |
| `free_swa_out_of_window_slots`, or what it was before | T-SWA-ADVANCE |
| the tree's eviction | T-EVICT |
| the tree's insertion of an unfinished request | T-INSERT |
| `ScheduleBatch.retract_decode` | whether a release in it is T-RETRACT or T-OOM |
| `Scheduler.process_batch_result` | T-PARK; whether T-EXTEND sampled |
| `release_kv_cache` | T-SAVE, T-ABORT, T-OOM, T-RETRACT, T-PLAIN-FINISH, -ABORT, -RETRACT |
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from .boot import UsageError
from .dialects.base import Dialect, swa_dup
from .draft import Drafts
from .endings import Endings
from .intake import Intake
from .tracker import Tracker


class Wrapper:
    """Puts the wrappers in place, once per process."""

    def __init__(self, scheduler: Any, dialect: Dialect, tracker: Tracker, drafts: Drafts) -> None:
        self.scheduler = scheduler
        self.dialect = dialect
        self.tracker = tracker
        self.intake = Intake(scheduler, dialect, tracker)
        self.endings = Endings(scheduler, dialect, tracker, drafts)
        #: Requests of the batch that is being prefilled: their event, outputs before it.
        self.extending: dict[int, tuple[Any, list[Any], int]] = {}

    def install(self) -> None:
        """Wrap everything in the table above."""
        self._wrap(self.scheduler, "_request_dispatcher", self.intake.dispatch)
        self._wrap(self.scheduler.session_controller, "_close", self.intake.close)
        self._wrap(self.scheduler.session_controller, "maybe_reap", self.intake.reap)
        batch_module: Any = importlib.import_module("sglang.srt.managers.schedule_batch")
        policy: Any = importlib.import_module("sglang.srt.managers.schedule_policy")
        self._wrap(batch_module.Req, "init_next_round_input", self._match)
        self._wrap(policy.PrefillAdder, "add_one_req", self._admit)
        self._wrap(batch_module.ScheduleBatch, "prepare_for_extend", self._extend)
        self._wrap(batch_module.ScheduleBatch, "prepare_for_decode", self._decode)
        self._wrap(batch_module.ScheduleBatch, "retract_decode", self.endings.retract)
        if self.dialect.swa is not None:
            self._wrap_cursor(batch_module.ScheduleBatch)
        self._wrap(self.scheduler, "process_batch_result", self._process)
        self._wrap(*self.dialect.eviction(), self._evict)
        self._wrap(*self.dialect.insertion(), self._insert)
        self._wrap(*self.dialect.key_insertion(), self.endings.key_inserted)
        self._wrap_release()

    def _wrap(self, owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        """`owner.name(…)` becomes `wrapper(original, …)`."""
        original = getattr(owner, name, None)
        if original is None:
            who = owner if isinstance(owner, type) else type(owner)
            raise UsageError(f"unknown layout: {who.__module__}.{who.__name__} has no {name}")
        setattr(owner, name, self._around(original, wrapper))

    def _around(self, original: Any, wrapper: Callable[..., Any]) -> Callable[..., Any]:
        """What is called in the place of ``original``."""

        def wrapped(*args: Any, **kwargs: Any) -> Any:
            return wrapper(original, *args, **kwargs)

        return wrapped

    def _wrap_release(self) -> None:
        """Settle the prefill before the request goes."""
        common: Any = importlib.import_module("sglang.srt.mem_cache.common")
        original = getattr(common, "release_kv_cache", None)
        if original is None:
            raise UsageError(f"unknown layout: {common.__name__} has no release_kv_cache")
        replace_everywhere(original, self._around(original, self._release))

    def _release(self, original: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
        self._settle(req)
        return self.endings.release(original, req, *args, **kwargs)

    def _wrap_cursor(self, batch: Any) -> None:
        """Builds up to 0.5.12 move the cursor in a method, newer ones in a function."""
        common: Any = importlib.import_module("sglang.srt.mem_cache.common")
        original = getattr(common, "free_swa_out_of_window_slots", None)
        if original is None:
            method = batch._evict_swa

            def _evict_swa(batch: Any, req: Any, *args: Any, **kwargs: Any) -> Any:
                return self._advance(lambda: method(batch, req, *args, **kwargs), req)

            batch._evict_swa = _evict_swa
        else:

            def free_swa_out_of_window_slots(req: Any, *args: Any, **kwargs: Any) -> Any:
                return self._advance(lambda: original(req, *args, **kwargs), req)

            replace_everywhere(original, free_swa_out_of_window_slots)

    # Matching and admission ---------------------------------------------------

    def _match(self, original: Any, req: Any, tree_cache: Any = None, *args: Any, **kw: Any) -> Any:
        attached = req.session
        result = original(req, tree_cache, *args, **kw)
        if tree_cache is None:  # a further chunk: nothing is matched
            return result
        tracker, meta = self.tracker, self.tracker.meta(req)
        meta.match = None
        if self.dialect.borrows(req) is not None:
            meta.match = tracker.of(req, "T-RESTORE")
            return result
        if meta.doomed and meta.kind == "turn":
            if req.session is attached:
                return result  # it leaves its session when, and if, it is admitted
            self._doom(req)
        meta.match = self._matched(req)
        return result

    def _matched(self, req: Any) -> Any:
        unlocked = self.dialect.unlocked_on(req.last_node)
        matched = self.dialect.matched(req)
        return self.tracker.of(req, "T-MATCH", m=matched, u=unlocked, swa_u=0)

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
                meta.match[3].update(u=locked.protected, swa_u=locked.swa_protected)
            return result
        if meta.match is not None:
            self.tracker.of(req, "T-REFUSE", u=meta.match[3].get("u", 0), swa_u=0)
        return result

    # Running --------------------------------------------------------------------

    def _extend(self, original: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(batch, *args, **kwargs)
        self.extending = {}
        for req in batch.reqs:
            kv = self.dialect.kv(req)
            event = self.tracker.of(req, "T-EXTEND", t=kv.C, sampled=0, row=kv.row)
            self.extending[id(req)] = (req, event, len(req.output_ids))
        return result

    def _decode(self, original: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        lengths = [self.dialect.kv(req) for req in batch.reqs]
        result = original(batch, *args, **kwargs)
        for req, old in zip(batch.reqs, lengths, strict=True):
            new = self.dialect.kv(req)
            self.tracker.of(req, "T-DECODE", d=new.A - old.A, k=new.C - old.C)
        return result

    def _process(self, original: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(batch, *args, **kwargs)
        for req, _, _ in list(self.extending.values()):
            self._settle(req)
        parked = self.dialect.parked()
        if parked is not None and any(req is parked for req in batch.reqs):
            self.tracker.of(parked, "T-PARK")
        return result

    def _settle(self, req: Any) -> None:
        """Whether a prefill sampled is known only when its result was processed."""
        found = self.extending.pop(id(req), None)
        if found is not None:
            _, event, outputs = found
            event[3]["sampled"] = int(len(req.output_ids) > outputs)

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
        if self.endings.finishing_plain or self.dialect.borrows(req) is not None:
            return original(req, *args, **kwargs)
        was, before, events = self.dialect.kv(req), self.dialect.figures(), self.tracker.events
        count = len(events)
        result = original(req, *args, **kwargs)
        change, q = self.dialect.figures() - before, self.dialect.kv(req).Q
        dup = q - was.Q - change.grown
        # Some builds move the cursor before they insert, and once more afterwards.
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
            u=change.protected,
            swa_u=max(0, change.swa_protected),
            swa_x=max(0, -change.swa_protected),
        )
        events.extend(event for event in told if event not in first)
        return result

    # The window ---------------------------------------------------------------------

    def _advance(self, move: Callable[[], Any], req: Any) -> Any:
        """The cursor may move. Up to Q it stands on the tree's pages: there it means nothing,
        and SGLang sets it to Q before it moves on."""
        was = self.dialect.kv(req)
        result = move()
        cursor = self.dialect.kv(req).E
        if cursor > max(was.E, was.Q):
            self.tracker.of(req, "T-SWA-ADVANCE", e=cursor)
        return result


def replace_everywhere(original: Any, wrapped: Any) -> None:
    """A function that several modules imported by name."""
    called = str(original.__name__)
    for name, module in list(sys.modules.items()):
        if name.startswith("sglang.") and module is not None:  # noqa: SIM102  # vars(None)
            if vars(module).get(called) is original:
                setattr(module, called, wrapped)
