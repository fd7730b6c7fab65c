"""Events, recorded where the engine causes them.

The watcher wraps five methods. `KVCacheManager.allocate_slots` matches or restores, evicts, extends
or decodes, and inserts, in this order. `KVCacheManager.cache_blocks` inserts tokens once their
values are known. `KVCacheManager.free` releases a request's blocks. The remaining wrapped methods
are `Scheduler._preempt_request` and `BlockPool._maybe_evict_cached_block`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from .clients import Clients, Session
from .layout import Layout

Event = list[Any]
"""Event, as in the protocol: [transition, session, request, parameters]."""

UNLOCKED = {"u": 0, "swa_u": 0}
"""Event parameters of a lock that covers no tokens."""


class Watcher:
    """Wrapper of one scheduler's methods. It collects the events of an iteration."""

    def __init__(self, layout: Layout, clients: Clients, overlap: bool) -> None:
        self.layout, self.clients, self.overlap = layout, clients, overlap
        self.round = "T-LAUNCH" if overlap else "T-DECODE"
        self.width = int(layout.scheduler.max_model_len)
        self.events: list[Event] = []
        self.evicted = 0
        """Number of tokens evicted from the tree since the start."""
        self.freed: dict[str, tuple[int, dict[str, int]]] = {}
        """Requests that freed blocks in this iteration: Q, and number of tokens unlocked."""
        self.preempted = False
        """True if a request was preempted in this iteration."""
        self.parked: set[str] = set()
        """Requests that are between two chunks of their prompt."""
        self.rows: dict[str, int] = {}
        self.free_rows = list(range(layout.rows))
        self._given_up = 0
        self._extended: dict[str, Event] = {}
        self._rounds: dict[str, Event] = {}
        """Decoding event of each request whose round has no result yet."""
        self._reported: dict[str, Event] = {}
        """Event that reports the tokens of the output being processed, by request."""
        self._under_way: dict[str, list[tuple[int, int]]] = {}
        """Batches in flight for each request, each batch with its number of drafts."""
        self._stale: dict[str, list[int]] = {}
        """Batches in flight when their request was preempted. The request has not run since."""
        self.retracted: set[str] = set()
        """Preempted requests that have not run since."""
        self._scheduled: dict[str, Event] = {}
        """Events of rounds in the batch that is being scheduled."""
        self._fresh: dict[str, tuple[Event, list[tuple[Any, Any]]]] = {}
        """Insert events of the batch that is being scheduled, each with blocks and hashes."""
        self._never: list[tuple[Event, Event, list[tuple[Any, Any]]]] = []
        """Insert and preemption events of requests that were scheduled and then preempted, with the
        blocks that the preemption leaves unfilled."""
        self._install()

    def _install(self) -> None:
        layout = self.layout
        for owner, name, wrapper in (
            (layout.manager, "allocate_slots", self._allocate),
            (layout.manager, "cache_blocks", self._cache),
            (layout.manager, "free", self._free),
            (layout.scheduler, "_preempt_request", self._preempt),
            (layout.pool, "_maybe_evict_cached_block", self._evict),
        ):
            setattr(owner, name, partial(wrapper, getattr(owner, name)))

    def emit(
        self, transition: str, session: str | None, rid: str | None = None, **params: int
    ) -> Event:
        """Append an event and return it. Its parameters may be completed later."""
        event: Event = [transition, session, rid, params]
        self.events.append(event)
        if transition == "T-EVICT":
            self.evicted += params["n"]
        return event

    def take(self) -> list[Event]:
        """Return the events since the last call."""
        taken, self.events = self.events, []
        self.freed.clear()
        return taken

    def row(self, key: str) -> int:
        """Return the row of a request. A request without a row gets one."""
        if key not in self.rows:
            self.rows[key] = self.free_rows.pop(0)
        return self.rows[key]

    def left(self, key: str) -> dict[str, int]:
        """Return how many tokens a request unlocked when it freed its blocks in this iteration."""
        return self.freed.get(key, (0, UNLOCKED))[1]

    def launched(self, batch: Any) -> None:
        """Record a scheduled batch. A request with further prompt chunks is parked."""
        drafts = batch.scheduled_spec_decode_tokens
        for never in self._never:
            self._taken_back(*never)
        self._never.clear()
        self._fresh.clear()
        self._scheduled.clear()
        for key in batch.num_scheduled_tokens:
            event = self._extended.get(key)
            if event is None or event[3]["t"] >= self.layout.request(key).num_tokens:
                self._under_way.setdefault(key, []).append((id(batch), len(drafts.get(key, ()))))
                self._count(key)
                continue
            del self._extended[key]
            session, rid, _ = self.clients.of(key)
            self.emit("T-PARK", session, rid)
            self.parked.add(key)

    def _taken_back(self, shared: Event, preempted: Event, blocks: list[tuple[Any, Any]]) -> None:
        """Remove the insert event of blocks that were never filled, if the same batch reallocated
        them all. The event stays if one of the blocks still has its hash."""
        if any(block.block_hash is told for block, told in blocks):
            return
        self.events.pop(self._position(shared))
        preempted[3]["u"] -= shared[3]["locked"]
        left, since = shared[3]["locked"], self.events[self._position(preempted) :]
        for event in [later for later in since if later[0] == "T-EVICT"]:
            less = min(left, event[3]["n"])
            event[3]["n"], left, self.evicted = (
                event[3]["n"] - less,
                left - less,
                self.evicted - less,
            )
            if not event[3]["n"]:
                self.events.pop(self._position(event))

    def sampled(self, batch: Any, key: str, at: int, count: int) -> None:
        """Record that a request sampled tokens, the first of them at position ``at``. The caller
        then processes the batch's output."""
        self._reported.pop(key, None)
        if id(batch) in self._stale.get(key, ()):
            self._stale[key].remove(id(batch))
            self._late(key, at, count)
            return
        under_way = self._under_way.get(key, [])
        if not under_way or under_way[0][0] != id(batch):
            return  # The request has ended, or the batch runs a chunk of its prefill.
        under_way.pop(0)
        self._count(key)
        session, rid, _ = self.clients.of(key)
        extended, decoded = self._extended.pop(key, None), self._rounds.pop(key, None)
        if self.overlap:
            more = {"at": at, "k": count - 1, "sampled": count, "told": 0}
            self._reported[key] = self.emit("T-RESULT", session, rid, **more)
        elif extended is not None:
            extended[3].update(sampled=count, told=0)
            self._reported[key] = extended
        elif decoded is not None:
            decoded[3].update(k=count, told=0)
            self._reported[key] = decoded

    def told(self, key: str, count: int) -> None:
        """Record how many of the sampled tokens the client was told."""
        event = self._reported.pop(key, None)
        if event is None:
            return
        if event[0] == "T-LATE-RESULT":
            event[3]["sampled"] = count
            return
        sampled = event[3]["k" if event[0] == "T-DECODE" else "sampled"]
        event[3]["told"] = min(count, sampled)

    def _late(self, key: str, at: int, count: int) -> None:
        """Record a result that was in flight when its request was preempted, unless the scheduler
        drops the result."""
        request = self.layout.request(key)
        dropped = ("drop_stale_output", "async_tokens_to_discard", "discard_latest_async_tokens")
        if request is None or any(getattr(request, name, False) for name in dropped):
            return
        session, rid, _ = self.clients.of(key)
        self._reported[key] = self.emit("T-LATE-RESULT", session, rid, at=at, sampled=count)

    def _unshared(self, shared: Event, blocks: list[tuple[Any, Any]]) -> None:
        """Correct an insert event, because a preemption removed the hashes of unfilled blocks."""
        less = sum(block.block_hash is not told for block, told in blocks) * self.layout.page_size
        shared[3]["q"] -= less
        shared[3]["locked"] -= less
        if not shared[3]["locked"]:
            self.events.pop(self._position(shared))

    def _position(self, event: Event) -> int:
        return next(at for at, other in enumerate(self.events) if other is event)

    def over(self, key: str) -> None:
        """Drop the records of a request's rounds in flight, because its turn is over."""
        self._under_way.pop(key, None)
        self.layout.unsure.pop(key, None)
        self._extended.pop(key, None)
        self._rounds.pop(key, None)

    def _count(self, key: str) -> None:
        self.layout.unsure[key] = sum(drafts for _, drafts in self._under_way.get(key, ()))

    # Wrappers ----------------------------------------------------------------------------

    def _allocate(self, original: Any, request: Any, new: int, *args: Any, **kwargs: Any) -> Any:
        """Record an allocation. Cached blocks and lookahead may be positional arguments."""
        hit = int(kwargs.get("num_new_computed_tokens", args[0] if args else 0) or 0)
        cached = kwargs.get("new_computed_blocks", args[1] if len(args) > 1 else None)
        ahead = int(kwargs.get("num_lookahead_tokens", args[2] if len(args) > 2 else 0))
        key, page, layout = request.request_id, self.layout.page_size, self.layout
        fresh = sum(block.ref_cnt == 0 for block in cached.blocks[0]) * page if cached else 0
        before, admitted = layout.shared(key), request.status.name != "RUNNING"
        self._given_up = 0
        result = original(request, new, *args, **kwargs)
        if result is None:
            return result
        self.retracted.discard(key)
        self._stale.pop(key, None)
        session, rid, of = self.clients.of(key)
        if admitted and of is not None and of.slot:
            self.emit("T-RESTORE", session, rid)
        elif admitted:
            self.emit("T-MATCH", session, rid, m=hit, locked=fresh, swa_locked=0)
            before = hit
        if self._given_up:
            self.emit("T-EVICT", None, None, n=self._given_up * page, swa_n=0)
        upto = int(request.num_computed_tokens) + hit + new
        known = int(request.num_computed_tokens) + hit - layout.unsure.get(key, 0)
        had = max(known, layout.asked.get(key, 0))
        layout.asked[key] = max(had, min(upto + ahead, self.width))
        if admitted or key in self.parked:
            self.parked.discard(key)
            upto = min(upto, int(request.num_tokens))  # Later positions are for drafts and padding.
            more = layout.asked[key] - upto if layout.asked[key] > max(had, upto) else 0
            told = {"sampled": 0, "told": 0, "row": self.row(key)}
            self._extended[key] = self.emit("T-EXTEND", session, rid, t=upto, ahead=more, **told)
        else:
            told = {} if self.overlap else {"at": int(request.num_computed_tokens) + 1, "told": 0}
            d, k = layout.asked[key] - had, int(self.overlap)
            event = self.emit(self.round, session, rid, d=d, k=k, **told)
            self._rounds[key] = self._scheduled[key] = event
        shared = self._shared(request, before)
        if shared is not None:  # The blocks are still unfilled.
            blocks = layout.owned[key][before // page : layout.shared(key) // page]
            self._fresh[key] = shared, [(block, block.block_hash) for block in blocks]
        return result

    def _cache(self, original: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.layout.shared(request.request_id)
        result = original(request, *args, **kwargs)
        self._shared(request, before)
        return result

    def _shared(self, request: Any, before: int) -> Event | None:
        """Record that blocks of a request now have a hash. Return the event, or None."""
        after = self.layout.shared(request.request_id)
        if after <= before:
            return None
        session, rid, _ = self.clients.of(request.request_id)
        more = {"dup": 0, "swa_dup": 0, "locked": after - before, "swa_locked": 0, "swa_u": 0}
        return self.emit("T-INSERT", session, rid, q=after, **more)

    def _free(self, original: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        key = request.request_id
        shared, before = self.layout.shared(key), self.layout.protected()
        result = original(request, *args, **kwargs)
        self.freed[key] = shared, {"u": before - self.layout.protected(), "swa_u": 0}
        self.parked.discard(key)
        self.over(key)
        self.layout.asked.pop(key, None)
        if key in self.rows:
            self.free_rows.append(self.rows.pop(key))
        if request.status.name == "WAITING":  # Only a patched build frees a waiting request.
            of = self.clients.keys[key]
            assert isinstance(of, Session)
            of.slot = False
            self.emit("T-DISCARD", of.sid, None, **self.freed.pop(key)[1])
        return result

    def _preempt(self, original: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        key = request.request_id
        under_way = [batch for batch, _ in self._under_way.get(key, ())]
        fresh, decoded = self._fresh.pop(key, None), self._scheduled.get(key)
        if decoded is not None:
            decoded[3]["k"] = 0  # The round will never run.
        if fresh is not None and any(block.block_hash is not told for block, told in fresh[1]):
            self._unshared(*fresh)
            fresh = None
        result = original(request, *args, **kwargs)
        self.preempted = True
        session, rid, of = self.clients.of(key)
        if of is not None:
            of.slot = False
        transition = "T-PLAIN-RETRACT" if of is None else "T-RETRACT-WIPE"
        event = self.emit(transition, session, rid, **self.left(key))
        if fresh is not None:
            self._never.append((fresh[0], event, fresh[1]))
        self.retracted.add(key)
        self._stale[key] = under_way
        return result

    def _evict(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        self._given_up += bool(result)
        return result
