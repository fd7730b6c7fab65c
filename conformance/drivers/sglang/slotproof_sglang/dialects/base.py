"""What every layout has in common, and what a dialect has to say.

Where the state is in every layout; what differs is in the dialect's own table.

| spec | protocol | where |
|---|---|---|
| full.total | `pools.full.total` | `scheduler.max_total_num_tokens` |
| full.available | `pools.full.available`, `free` | the free list, deferred frees included |
| full.evictable | `pools.full.evictable` | `tree_cache.evictable_size()` |
| full.protected | `pools.full.protected` | `tree_cache.protected_size()` |
| rows.total | `rows.total` | `req_to_token_pool.size` |
| rows.free | `rows.free` | `req_to_token_pool.free_slots` |
| session.open | `sessions` | `session_controller.sessions`: a session that is in it |
| session.closing | `sessions[s].closing` | `session.close_on_finish` |
| turn.kind | `requests[r].kind` | noted when it is queued; *doomed* from its T-DOOM on |
| turn.phase | `requests[r].phase` | `waiting_queue`, `chunked_req` (parked), `last_batch`, \
`running_batch`; never *matched*: SGLang matches and admits in one iteration |
| turn.prompt | `requests[r].prompt`, `hash` | `req.origin_input_ids` |
| turn.output | `requests[r].output` | `req.output_ids` |
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import Any

from ..swa import FullSide, SwaPool


@dataclass(frozen=True)
class Kv:
    """The figures of one KV record, in the protocol's letters; row -1: none."""

    row: int = -1
    C: int = 0
    A: int = 0
    Q: int = 0
    E: int = 0


@dataclass(frozen=True)
class Slot:
    """A session's record between turns, and its tree locks."""

    kv: Kv
    locks: int


@dataclass(frozen=True)
class Figures:
    """The pools as the engine counts them, deferred frees included; tokens."""

    available: int
    evictable: int
    protected: int
    swa_available: int = 0
    swa_evictable: int = 0
    swa_protected: int = 0

    def __sub__(self, other: Figures) -> Figures:
        return Figures(*(a - b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def grown(self) -> int:
        """Tokens in the tree."""
        return self.evictable + self.protected

    @property
    def swa_grown(self) -> int:
        """Tokens in the tree, of the sliding-window pool."""
        return self.swa_evictable + self.swa_protected


NO_KV = Kv()


class Dialect(ABC):
    """Where the state is in one layout of the engine."""

    layout = ""
    profile = "sglang"

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.allocator = scheduler.token_to_kv_pool_allocator
        #: The second pool, where the model has a sliding window.
        self.swa: SwaPool | None = None
        if hasattr(self.allocator, "swa_attn_allocator"):
            self.swa = SwaPool(scheduler)
            self.allocator = FullSide(self.allocator)
        self.rows = scheduler.req_to_token_pool
        self.page_size: int = scheduler.page_size
        takes = inspect.signature(scheduler.get_next_batch_to_run).parameters
        self.plans = "running_batch" in takes

    @classmethod
    @abstractmethod
    def fits(cls, scheduler: Any) -> bool:
        """Whether this scheduler has this layout."""

    # The pool ---------------------------------------------------------------

    @property
    def total(self) -> int:
        return int(self.scheduler.max_total_num_tokens)

    @abstractmethod
    def free_pages(self) -> list[int]:
        """The free list, with what is staged or deferred; duplicates stay visible."""

    @abstractmethod
    def free_count(self) -> int:
        """How many pages `free_pages` has, without a list of a large pool."""

    def figures(self) -> Figures:
        """The pool's figures as they stand, in the midst of an iteration too."""
        tree, swa = self.scheduler.tree_cache, self.swa
        free = self.free_count() if swa is None else len(self.free_pages())
        available = free * self.page_size
        if swa is None:
            return Figures(available, int(tree.evictable_size()), int(tree.protected_size()))
        return Figures(
            available,
            int(tree.full_evictable_size()),
            int(tree.full_protected_size()),
            len(swa.free_pages()) * self.page_size,
            swa.evictable(),
            swa.protected(),
        )

    @abstractmethod
    def tree_pages(self) -> list[tuple[int, int]]:
        """Pages in the prefix tree with their lock counts."""

    @abstractmethod
    def swa_tree_pages(self) -> list[tuple[int, int]]:
        """The same of the sliding-window pool; only where there is one."""

    @abstractmethod
    def unlocked_on(self, node: Any) -> int:
        """Tokens on the way to ``node`` that no lock protects."""

    def row_indices(self, row: int, length: int) -> list[int]:
        """The KV indices of a row's first positions."""
        return [int(x) for x in self.rows.req_to_token[row, :length].tolist()]

    def pages_of(self, indices: Iterable[int]) -> list[int]:
        """KV indices as pages, each run of a page once."""
        pages: list[int] = []
        for index in indices:
            page = index // self.page_size
            if not pages or pages[-1] != page:
                pages.append(page)
        return pages

    # Requests ---------------------------------------------------------------

    @abstractmethod
    def kv(self, req: Any) -> Kv:
        """The record a request runs on, owned or borrowed."""

    @abstractmethod
    def request_locks(self, req: Any) -> int:
        """Tree locks that the request owns."""

    def waiting(self) -> list[Any]:
        return list(self.scheduler.waiting_queue)

    def parked(self) -> Any | None:
        return self.scheduler.chunked_req

    def batches(self) -> Iterator[tuple[str, list[Any]]]:
        """The requests of the last and of the running batch, finished ones left out."""
        for name in ("last_batch", "running_batch"):
            batch = getattr(self.scheduler, name)
            reqs = [] if batch is None else batch.reqs
            yield name, [req for req in reqs if not req.finished()]

    def live(self) -> list[tuple[Any, str]]:
        """Every unfinished request once, with its phase."""
        found: dict[int, tuple[Any, str]] = {}
        for req in self.waiting():
            found[id(req)] = (req, "waiting")
        if self.parked() is not None:
            found.setdefault(id(self.parked()), (self.parked(), "parked"))
        for _, reqs in self.batches():
            for req in reqs:
                found.setdefault(id(req), (req, "running"))
        return list(found.values())

    def is_session_turn(self, req: Any) -> bool:
        """Attached to a streaming session, whatever its fate."""
        return req.session is not None and bool(req.session.streaming)

    @abstractmethod
    def borrows(self, req: Any) -> str | None:
        """The session whose slot's KV the request runs on, if any."""

    @abstractmethod
    def grow(self, req: Any, allocated: int, committed: int) -> None:
        """Lengthen a request's KV by hand; only `draft.py` does that."""

    @abstractmethod
    def matched(self, req: Any) -> int:
        """How many tokens the last match found."""

    def accepted(self, session: Any, req: Any, busy: bool) -> bool:
        """Whether a submission that was just queued is the session's turn, not a stub."""
        return bool(session._inflight) and not busy and req.session is session

    # What is wrapped (owner, name) ----------------------------------------------

    @abstractmethod
    def eviction(self) -> tuple[Any, str]:
        """The method every eviction goes through."""

    @abstractmethod
    def insertion(self) -> tuple[Any, str]:
        """The method that shares an unfinished request's tokens."""

    @abstractmethod
    def key_insertion(self) -> tuple[Any, str]:
        """The method that puts a key into the tree."""

    # Sessions ---------------------------------------------------------------

    @abstractmethod
    def slots(self) -> dict[str, Slot]:
        """The slots that hold KV."""

    def sessions(self) -> dict[str, Any]:
        sessions: dict[str, Any] = self.scheduler.session_controller.sessions
        return sessions

    def inflight(self, session: Any) -> str | None:
        """The turn in flight, in the engine's words; None: none."""
        if not session._inflight:
            return None
        attached = [req for req, _ in self.live() if req.session is session]
        turns = [req for req in attached if req.to_finish is None] or attached
        return str(turns[0].rid) if turns else ""

    def history(self, session: Any, new_tokens: dict[str, int]) -> list[int]:
        """The tokens that the next turn's prompt would begin with."""
        if not session.req_nodes:
            return []
        req = next(iter(session.req_nodes.values())).req
        length = getattr(session, "committed_origin_len", None)
        prompt = [int(x) for x in req.origin_input_ids[:length]]
        return prompt + [int(x) for x in req.output_ids[: req.sampling_params.max_new_tokens]]

    def close_pending(self, session: Any) -> bool:
        return bool(getattr(session, "close_on_finish", False))

    # One iteration ----------------------------------------------------------

    def schedule(self) -> Any | None:
        """Choose the batch of this iteration, as the event loop does."""
        scheduler = self.scheduler
        if self.plans:
            plan = scheduler.get_next_batch_to_run(
                running_batch=scheduler.running_batch, last_batch=scheduler.last_batch
            )
            scheduler.running_batch = plan.running_batch
            return plan.batch_to_run
        return scheduler.get_next_batch_to_run()

    def set_current(self, batch: Any | None) -> None:
        """What the event loop notes as the current batch (aborts look there)."""
        for name in ("cur_batch", "cur_batch_for_debug"):
            if hasattr(self.scheduler, name):
                setattr(self.scheduler, name, batch)

    def reserve(self, share: float) -> None:
        """The share of max_new that admission sets aside."""
        tracker = getattr(self.scheduler, "new_token_ratio_tracker", None)
        if tracker is not None:
            tracker.init = tracker.min = tracker.current = share
            tracker.decay = 0.0
        else:
            scheduler = self.scheduler
            scheduler.init_new_token_ratio = scheduler.min_new_token_ratio = share
            scheduler.new_token_ratio, scheduler.new_token_ratio_decay = share, 0.0


def tensor_pages(tensors: Iterable[Any], page_size: int) -> list[int]:
    """Pages of deferred KV indices; each tensor is one free call."""
    pages: list[int] = []
    for tensor in tensors:
        pages.extend(sorted({int(x) // page_size for x in tensor.tolist()}))
    return pages


def swa_dup(dialect: Dialect, q: int, cursor: int, upto: int, change: Figures) -> int:
    """Private sliding-window tokens of [q, upto) that an insertion freed instead of giving
    them to the tree, which had them: what is not below the cursor and not in the tree now."""
    if dialect.swa is None:
        return 0
    return max(0, upto - max(q, cursor)) - change.swa_grown
