"""Events, told where the engine does what they are about.

Five methods of a scheduler are wrapped: `KVCacheManager.allocate_slots` (match or restore, evict,
extend or decode, insert: in the order in which it does them), `KVCacheManager.cache_blocks`
(insert, of what became known), `KVCacheManager.free` (what a request gives up),
`Scheduler._preempt_request`, `BlockPool._maybe_evict_cached_block`.
"""

from __future__ import annotations

from typing import Any

from .clients import Clients
from .layout import Layout

Event = list[Any]
"""[transition, session, request, parameters], as the protocol lists them."""

UNLOCKED = {"u": 0, "swa_u": 0}
"""The parameters of what drops a lock that holds nothing."""


class Watcher:
    """Wraps the methods of one scheduler; gathers what they did in an iteration."""

    def __init__(self, layout: Layout, clients: Clients, overlap: bool) -> None:
        self.layout, self.clients, self.overlap = layout, clients, overlap
        self.round = "T-LAUNCH" if overlap else "T-DECODE"
        self.width = int(layout.scheduler.max_model_len)
        self.events: list[Event] = []
        self.evicted = 0
        """Tokens that the tree gave up since the start."""
        self.freed: dict[str, tuple[int, dict[str, int]]] = {}
        """Of requests that gave up their blocks in this iteration: Q, and what was unlocked."""
        self.parked: set[str] = set()
        """Requests between two chunks."""
        self.rows: dict[str, int] = {}
        self.free_rows = list(range(layout.rows))
        self._given_up = 0
        self._extended: dict[str, Event] = {}
        self._rounds: dict[str, Event] = {}
        """Decoding rounds whose result is to come."""
        self._under_way: dict[str, list[tuple[int, int]]] = {}
        """By request, the batches whose output is to come, and how many drafts are in each."""
        self._stale: dict[str, list[int]] = {}
        """The same of requests that were preempted in this iteration,"""
        self._preempted: dict[str, Event] = {}
        """and how that was told."""
        self._scheduled: dict[str, Event] = {}
        """Rounds of the batch that is being scheduled."""
        self._fresh: dict[str, tuple[Event, list[tuple[Any, Any]]]] = {}
        """What was shared while this batch is scheduled: how it was told, blocks and hashes."""
        self._never: list[tuple[Event, Event, list[tuple[Any, Any]]]] = []
        """The same of requests that were preempted after they were scheduled, and how that was
        told: what was to fill these blocks never runs."""
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
            setattr(owner, name, bound(getattr(owner, name), wrapper))

    def emit(
        self, transition: str, session: str | None, rid: str | None = None, **params: int
    ) -> Event:
        """Append an event; its parameters may be completed later."""
        event: Event = [transition, session, rid, params]
        self.events.append(event)
        if transition == "T-EVICT":
            self.evicted += params["n"]
        return event

    def take(self) -> list[Event]:
        """The events since the last call."""
        taken, self.events = self.events, []
        for each in (self.freed, self._stale, self._preempted):
            each.clear()
        return taken

    def row(self, key: str) -> int:
        """The row of a request, taken where it has none."""
        if key not in self.rows:
            self.rows[key] = self.free_rows.pop(0)
        return self.rows[key]

    def left(self, key: str) -> dict[str, int]:
        """What a request that gave up its blocks in this iteration unlocked."""
        return self.freed.get(key, (0, UNLOCKED))[1]

    def launched(self, batch: Any) -> None:
        """A batch is scheduled: who is extended and knows more tokens has more prefill to do."""
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
        """Blocks that were shared and never filled are no harm where the same batch took them for
        somebody else: then they were never shared. Where nobody did, anybody can find them."""
        if any(block.block_hash is told for block, told in blocks):
            return
        self.events.pop(self._position(shared))
        preempted[3]["u"] -= shared[3]["u"]
        left, since = shared[3]["u"], self.events[self._position(preempted) :]
        for event in [each for each in since if each[0] == "T-EVICT"]:
            less = min(left, event[3]["n"])
            event[3]["n"], left, self.evicted = (
                event[3]["n"] - less,
                left - less,
                self.evicted - less,
            )
            if not event[3]["n"]:
                self.events.pop(self._position(event))

    def sampled(self, batch: Any, key: str, count: int) -> None:
        """The output of a batch is processed: the request sampled so many tokens."""
        if id(batch) in self._stale.get(key, ()):
            self._late(key, count)
            return
        under_way = self._under_way.get(key, [])
        if not under_way or under_way[0][0] != id(batch):
            return  # it ended, or runs a chunk of its prefill
        under_way.pop(0)
        self._count(key)
        session, rid, _ = self.clients.of(key)
        extended, decoded = self._extended.pop(key, None), self._rounds.pop(key, None)
        if self.overlap:
            self.emit("T-RESULT", session, rid, k=count - 1, n=count)
        elif extended is not None:
            extended[3]["sampled"] = count
        elif decoded is not None:
            decoded[3]["k"] = count

    def _late(self, key: str, count: int) -> None:
        """What was under way when a request was preempted becomes known to one that waits. For the
        spec it became known just before: nothing in between depends on it."""
        if getattr(self.layout.request(key), "drop_stale_output", False):
            return
        session, rid, _ = self.clients.of(key)
        at = self._position(self._preempted[key])
        self.events.insert(at, ["T-RESULT", session, rid, {"k": count - 1, "n": count}])

    def ends_late(self, key: str, transition: str, **params: int) -> bool:
        """Whether a request ends by a token that was under way when it was preempted: it is told
        to end, with its KV, and not to be preempted. What a slot would have is given up then."""
        event = self._preempted.pop(key, None)
        if event is None:
            return False
        self._stale.pop(key)
        left = event[3]
        event[0], event[3] = transition, params
        if transition == "T-SAVE":
            self.freed.pop(key, None)  # told by the T-DISCARD
            self.events.insert(self._position(event) + 1, ["T-DISCARD", event[1], None, left])
        return True

    def _unshared(self, shared: Event, blocks: list[tuple[Any, Any]]) -> None:
        """The build took back, before it preempts a request, blocks that are never filled."""
        less = sum(block.block_hash is not told for block, told in blocks) * self.layout.page_size
        shared[3]["q"] -= less
        shared[3]["u"] -= less
        if not shared[3]["u"]:
            self.events.pop(self._position(shared))

    def _position(self, event: Event) -> int:
        return next(at for at, each in enumerate(self.events) if each is event)

    def over(self, key: str) -> None:
        """Of what is under way for a request nothing will be told: its turn is over."""
        self._under_way.pop(key, None)
        self.layout.unsure.pop(key, None)
        self._extended.pop(key, None)
        self._rounds.pop(key, None)

    def _count(self, key: str) -> None:
        self.layout.unsure[key] = sum(drafts for _, drafts in self._under_way.get(key, ()))

    # Wrappers ----------------------------------------------------------------------------

    def _allocate(self, original: Any, request: Any, new: int, *args: Any, **kwargs: Any) -> Any:
        """Positional in some builds: computed tokens that were found, their blocks, lookahead."""
        hit = int(kwargs.get("num_new_computed_tokens", args[0] if args else 0) or 0)
        found = kwargs.get("new_computed_blocks", args[1] if len(args) > 1 else None)
        ahead = int(kwargs.get("num_lookahead_tokens", args[2] if len(args) > 2 else 0))
        key, page, layout = request.request_id, self.layout.page_size, self.layout
        fresh = sum(each.ref_cnt == 0 for each in found.blocks[0]) * page if found else 0
        before, admitted = layout.shared(key), request.status.name != "RUNNING"
        self._given_up = 0
        result = original(request, new, *args, **kwargs)
        if result is None:
            return result
        session, rid, of = self.clients.of(key)
        if admitted and of is not None and of.slot:
            self.emit("T-RESTORE", session, rid)
        elif admitted:
            self.emit("T-MATCH", session, rid, m=hit, u=fresh, swa_u=0)
            before = hit
        if self._given_up:
            self.emit("T-EVICT", None, None, n=self._given_up * page, swa_n=0)
        upto = int(request.num_computed_tokens) + hit + new
        known = int(request.num_computed_tokens) + hit - layout.unsure.get(key, 0)
        had = max(known, layout.asked.get(key, 0))
        layout.asked[key] = max(had, min(upto + ahead, self.width))
        if admitted or key in self.parked:
            self.parked.discard(key)
            upto = min(upto, int(request.num_tokens))  # past that are drafts, and what pads them
            self._extended[key] = self.emit(
                "T-EXTEND", session, rid, t=upto, sampled=0, row=self.row(key)
            )
            more = layout.asked[key] - max(had, upto)
            if more > 0:
                self.emit(self.round, session, rid, d=more, k=0)
        else:
            event = self.emit(
                self.round, session, rid, d=layout.asked[key] - had, k=int(self.overlap)
            )
            self._rounds[key] = self._scheduled[key] = event
        shared = self._shared(request, before)
        if shared is not None:  # before it is filled
            blocks = layout.owned[key][before // page : layout.shared(key) // page]
            self._fresh[key] = shared, [(each, each.block_hash) for each in blocks]
        return result

    def _cache(self, original: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        before = self.layout.shared(request.request_id)
        result = original(request, *args, **kwargs)
        self._shared(request, before)
        return result

    def _shared(self, request: Any, before: int) -> Event | None:
        """Blocks of it may have got their hash."""
        after = self.layout.shared(request.request_id)
        if after <= before:
            return None
        session, rid, _ = self.clients.of(request.request_id)
        more = {"dup": 0, "swa_dup": 0, "u": after - before, "swa_u": 0, "swa_x": 0}
        return self.emit("T-INSERT", session, rid, q=after, **more)

    def _free(self, original: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        key = request.request_id
        shared, before = self.layout.shared(key), self.layout.protected()
        result = original(request, *args, **kwargs)
        if key not in self._stale:  # else nothing is left of it
            self.freed[key] = shared, {"u": before - self.layout.protected(), "swa_u": 0}
        self.parked.discard(key)
        self.over(key)
        self.layout.asked.pop(key, None)
        if key in self.rows:
            self.free_rows.append(self.rows.pop(key))
        if request.status.name == "WAITING":  # patched: else nobody who waits gives up anything
            session, _, of = self.clients.of(key)
            assert of is not None
            of.slot = False
            self.emit("T-DISCARD", session, None, **self.freed.pop(key)[1])
        return result

    def _preempt(self, original: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        key = request.request_id
        under_way = [batch for batch, _ in self._under_way.get(key, ())]
        fresh, decoded = self._fresh.pop(key, None), self._scheduled.get(key)
        if decoded is not None:
            decoded[3]["k"] = 0  # it never runs
        if fresh is not None and any(block.block_hash is not told for block, told in fresh[1]):
            self._unshared(*fresh)
            fresh = None
        result = original(request, *args, **kwargs)
        session, rid, of = self.clients.of(key)
        if of is not None:
            of.slot = False
        transition = "T-PLAIN-RETRACT" if of is None else "T-RETRACT-WIPE"
        event = self.emit(transition, session, rid, **self.left(key))
        if fresh is not None:
            self._never.append((fresh[0], event, fresh[1]))
        if under_way:
            self._stale[key], self._preempted[key] = under_way, event
        return result

    def _evict(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        self._given_up += bool(result)
        return result


def bound(original: Any, wrapper: Any) -> Any:
    """A method that calls the wrapper with the original first."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrapper(original, *args, **kwargs)

    return wrapped
