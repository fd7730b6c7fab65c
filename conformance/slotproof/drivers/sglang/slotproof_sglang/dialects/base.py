"""Common parts of all layouts, and the interface of a dialect.

The table lists the locations common to all layouts. Each dialect's table lists other locations.

| spec | protocol | where |
|---|---|---|
| full.total | `pools.full.total` | `scheduler.max_total_num_tokens` |
| full.available | `pools.full.available`, `free` | the free list with deferred frees: \
see `free_list.py` |
| full.evictable | `pools.full.evictable` | `tree_cache.evictable_size()` |
| full.protected | `pools.full.protected` | `tree_cache.protected_size()` |
| rows.total | `rows.total` | `req_to_token_pool.size` |
| rows.free | `rows.free` | `req_to_token_pool.free_slots` |
| session.open | `sessions` | a session in `session_controller.sessions` |
| session.closing | `sessions[s].closing` | `session.close_on_finish` |
| req.kind | `requests[r].kind` | recorded when the request is queued; *doomed* from its T-DOOM on |
| req.phase | `requests[r].phase` | `waiting_queue`, `chunked_req` (parked), `last_batch`, \
`running_batch`; never *matched*: SGLang matches and admits in one iteration |
| req.prompt | `requests[r].prompt`, `hash` | `req.origin_input_ids` |
| req.output | `requests[r].output` | `req.output_ids` |
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..free_list import FreeList
from ..swa import FullSide, SwaPool


class Kv(NamedTuple):
    """KV record of a slot or a request, under the protocol's letters. Row -1: no record."""

    row: int = -1
    C: int = 0
    A: int = 0
    Q: int = 0
    E: int = 0


@dataclass(frozen=True)
class Slot:
    """KV record of a session between turns, with the session's locks in the tree."""

    kv: Kv
    locks: int


class Figures(NamedTuple):
    """Sizes of the prefix tree in each pool, in tokens, from the engine's own counters. The
    counters are correct even in the middle of an iteration. Reads no tensor."""

    evictable: int
    protected: int
    swa_evictable: int = 0
    swa_protected: int = 0

    def __sub__(self, other: Figures) -> Figures:
        return Figures(*(a - b for a, b in zip(self, other, strict=True)))

    @property
    def grown(self) -> int:
        """Number of tokens in the prefix tree."""
        return self.evictable + self.protected

    @property
    def swa_grown(self) -> int:
        """Number of the prefix tree's tokens in the sliding-window pool."""
        return self.swa_evictable + self.swa_protected

    @property
    def dropped(self) -> dict[str, int]:
        """Event parameters of the tokens that this change of sizes unlocked."""
        return {"u": -self.protected, "swa_u": -self.swa_protected}


NO_KV = Kv()
META = "_slotproof"
"""Name of the attribute of a request that holds the driver's record (`tracker.Meta`)."""
PARTED = "_slotproof_parted"
"""Name of the attribute of a session whose close was reported before the engine closed it."""


class Dialect(ABC):
    """Places at which one layout of the engine stores its state."""

    layout = ""
    profile = "sglang"

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.allocator = scheduler.token_to_kv_pool_allocator
        #: Sliding-window pool. None for an engine without a window.
        self.swa: SwaPool | None = None
        if hasattr(self.allocator, "swa_attn_allocator"):
            self.swa = SwaPool(scheduler)
            self.allocator = FullSide(self.allocator)
        self.rows = scheduler.req_to_token_pool
        self.page_size: int = scheduler.page_size
        #: False with `--disable-radix-cache`: requests and slots then share no KV.
        self.has_tree = not scheduler.disable_radix_cache
        self.free = FreeList(self.allocator, self.page_size)

    @classmethod
    @abstractmethod
    def fits(cls, scheduler: Any) -> bool:
        """Return True if this scheduler has this layout."""

    # The pool ---------------------------------------------------------------

    @property
    def total(self) -> int:
        return int(self.scheduler.max_total_num_tokens)

    @property
    def device(self) -> str:
        """Device of the free list and tables. Reads wait for any device but a CPU."""
        return str(self.rows.req_to_token.device)

    def available(self) -> int:
        """Return the number of free tokens in the full pool."""
        return self.free.count() * self.page_size

    def figures(self) -> Figures:
        """Return the tree's current sizes. Works even in the middle of an iteration."""
        tree = self.scheduler.tree_cache
        if self.swa is None:
            return Figures(int(tree.evictable_size()), int(tree.protected_size()))
        return Figures(
            int(tree.full_evictable_size()),
            int(tree.full_protected_size()),
            int(tree.swa_evictable_size()),
            int(tree.swa_protected_size()),
        )

    @abstractmethod
    def tree_pages(self) -> list[tuple[int, int]]:
        """Return the pages in the prefix tree with their lock counts."""

    @abstractmethod
    def swa_tree_pages(self) -> list[tuple[int, int]]:
        """Return the tree's sliding-window pages with lock counts, if the second pool exists."""

    @abstractmethod
    def path(self, node: Any) -> Iterable[tuple[Any, int, int]]:
        """Return ID, token count and lock count of each node up to ``node``. Reads no tensor."""

    @abstractmethod
    def locked_by(self, sid: str) -> Any:
        """Return the node locked by a slot, or None."""

    def unlocked_on(self, node: Any) -> int:
        """Return the number of unlocked tokens on the path to ``node``."""
        return sum(tokens for _, tokens, locks in self.path(node) if not locks)

    def row_indices(self, row: int, length: int) -> list[int]:
        """Return the KV indices of the first ``length`` positions of a row."""
        return [int(x) for x in self.rows.req_to_token[row, :length].tolist()]

    def pages_of(self, indices: Iterable[int]) -> list[int]:
        """Return the pages of KV indices. Adjacent indices of one page give the page once."""
        pages: list[int] = []
        for index in indices:
            page = index // self.page_size
            if not pages or pages[-1] != page:
                pages.append(page)
        return pages

    # Requests ---------------------------------------------------------------

    @abstractmethod
    def record_of(self, req: Any) -> Kv:
        """Return the KV record of a running request. A turn may borrow its slot's record."""

    def kv(self, req: Any) -> Kv:
        """Return a request's KV record. During a speculative round, C includes the last token
        before the round, whose KV is certain. The build adds this token with the result."""
        kv = self.record_of(req)
        ahead = rounds_ahead(req)
        return kv._replace(C=kv.C + ahead) if ahead and kv.row >= 0 else kv

    def lengths(self, req: Any) -> tuple[int, int]:
        """Return C and A of a request with KV. Called for each token, so it must be cheap."""
        kv = self.kv(req)
        return kv.C, kv.A

    @abstractmethod
    def request_locks(self, req: Any) -> int:
        """Return the number of tree locks owned by the request."""

    def waiting(self) -> list[Any]:
        return list(self.scheduler.waiting_queue)

    def parked(self) -> Any | None:
        return self.scheduler.chunked_req

    def batches(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield the name and the unfinished requests of the last batch and of the running batch."""
        for name in ("last_batch", "running_batch"):
            batch = getattr(self.scheduler, name)
            reqs = [] if batch is None else batch.reqs
            yield name, [req for req in reqs if not req.finished()]

    def live(self) -> list[tuple[Any, str]]:
        """Return every unfinished request once, with its phase."""
        phases: dict[int, tuple[Any, str]] = {}
        for req in self.waiting():
            phases[id(req)] = (req, "waiting")
        if self.parked() is not None:
            phases.setdefault(id(self.parked()), (self.parked(), "parked"))
        for _, reqs in self.batches():
            for req in reqs:
                phases.setdefault(id(req), (req, "running"))
        return list(phases.values())

    def is_session_turn(self, req: Any) -> bool:
        """Return True if the request belongs to a streaming session, even if rejected."""
        return req.session is not None and bool(req.session.streaming)

    @abstractmethod
    def borrows(self, req: Any) -> str | None:
        """Return the session that owns the slot from which the request borrows KV, or None."""

    @abstractmethod
    def grow(self, req: Any, allocated: int, committed: int) -> None:
        """Lengthen a request's KV. Only `draft.py` calls this."""

    @abstractmethod
    def matched(self, req: Any) -> int:
        """Return the number of tokens matched by the last lookup."""

    def accepted(self, session: Any, req: Any, claimed: bool) -> bool:
        """Return True if the queued request is the session's turn, not a rejected turn.
        ``claimed``: True if another turn was in flight before."""
        return self.claimed(session) and not claimed and req.session is session

    # Wrapped methods (owner, name) ----------------------------------------------

    @abstractmethod
    def eviction(self) -> tuple[Any, str]:
        """Return the method that every eviction calls."""

    @abstractmethod
    def insertion(self) -> tuple[Any, str]:
        """Return the method that inserts an unfinished request's tokens."""

    @abstractmethod
    def key_insertion(self) -> tuple[Any, str]:
        """Return the method that inserts a key into the tree."""

    # Sessions ---------------------------------------------------------------

    @abstractmethod
    def slots(self) -> dict[str, Slot]:
        """Return the slots with KV."""

    def sessions(self) -> dict[str, Any]:
        """Return the sessions that have slots. Sessions reported by :meth:`parts` are left out."""
        sessions: dict[str, Any] = self.scheduler.session_controller.sessions
        return {
            sid: session
            for sid, session in sessions.items()
            if session.streaming and not hasattr(session, PARTED)
        }

    def branches(self, sid: str) -> bool:
        """Return True if a session has no slot. Each of its turns then carries its whole prompt."""
        session = self.scheduler.session_controller.sessions.get(sid)
        return session is not None and not session.streaming

    def parts(self, session: Any) -> bool:
        """Return True if a requested close takes effect in the spec now, although a doomed turn
        without a session delays the engine's close. If True, snapshots leave the session out."""
        if not (self.close_pending(session) and self.claimed(session)):
            return False
        if self.inflight(session) is not None:
            return False
        setattr(session, PARTED, True)
        return True

    def claimed(self, session: Any) -> bool:
        """Return True if the session accepts no further turn at present."""
        return bool(session._inflight)

    def inflight(self, session: Any) -> str | None:
        """Return the engine's ID of the turn in flight, or None.

        With overlap scheduling, a doomed turn that the engine has not detached holds the session's
        flag for one more iteration. Such a session has no turn in flight.
        """
        if not self.claimed(session):
            return None
        attached = [req for req, _ in self.live() if req.session is session]
        kinds = {getattr(getattr(req, META, None), "kind", None) for req in attached}
        if "doomed" in kinds and "turn" not in kinds:
            return None
        turns = [req for req in attached if req.to_finish is None] or attached
        return str(turns[0].rid) if turns else ""

    def history_place(self, session: Any, new_tokens: dict[str, int]) -> tuple[Any, int, int]:
        """Return the place of the history's tokens: a request, and how many tokens of its prompt
        and of its output belong to the history."""
        if not session.req_nodes:
            return None, 0, 0
        req = next(iter(session.req_nodes.values())).req
        length, prompt = getattr(session, "committed_origin_len", None), len(req.origin_input_ids)
        return req, prompt if length is None else min(length, prompt), finished_output(req)

    def close_pending(self, session: Any) -> bool:
        return bool(getattr(session, "close_on_finish", False))

    def reserve(self, share: float) -> None:
        """Set the share of max_new that an admission reserves."""
        tracker = getattr(self.scheduler, "new_token_ratio_tracker", None)
        if tracker is not None:
            tracker.init = tracker.min = tracker.current = share
            tracker.decay = 0.0
        else:
            scheduler = self.scheduler
            scheduler.init_new_token_ratio = scheduler.min_new_token_ratio = share
            scheduler.new_token_ratio, scheduler.new_token_ratio_decay = share, 0.0


def finished_output(req: Any) -> int:
    """Return the number of output tokens, at most max_new."""
    most = req.sampling_params.max_new_tokens
    return len(req.output_ids) if most is None else min(most, len(req.output_ids))


def rounds_ahead(req: Any) -> int:
    """Return how many speculative rounds of the request are in flight."""
    return int(getattr(getattr(req, META, None), "ahead", 0))


def swa_dup(dialect: Dialect, q: int, cursor: int, upto: int, change: Figures) -> int:
    """Return how many private sliding-window tokens of [q, upto) an insertion freed, because the
    tree already had them. The count is all tokens from the cursor on, less the tree's growth."""
    if dialect.swa is None:
        return 0
    return max(0, upto - max(q, cursor)) - change.swa_grown
