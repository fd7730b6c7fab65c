"""What every layout has in common, and what a dialect has to say.

Where the state is in every layout; what differs is in the dialect's own table.

| spec | protocol | where |
|---|---|---|
| full.total | `pools.full.total` | `scheduler.max_total_num_tokens` |
| full.available | `pools.full.available`, `free` | the free list, deferred frees included: \
see `free_list.py` |
| full.evictable | `pools.full.evictable` | `tree_cache.evictable_size()` |
| full.protected | `pools.full.protected` | `tree_cache.protected_size()` |
| rows.total | `rows.total` | `req_to_token_pool.size` |
| rows.free | `rows.free` | `req_to_token_pool.free_slots` |
| session.open | `sessions` | `session_controller.sessions`: a session that is in it |
| session.closing | `sessions[s].closing` | `session.close_on_finish` |
| req.kind | `requests[r].kind` | noted when it is queued; *doomed* from its T-DOOM on |
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


class Figures(NamedTuple):
    """The trees as the engine counts them; tokens. Asked for in the midst of an iteration, and
    no tensor is read for them."""

    evictable: int
    protected: int
    swa_evictable: int = 0
    swa_protected: int = 0

    def __sub__(self, other: Figures) -> Figures:
        return Figures(*(a - b for a, b in zip(self, other, strict=True)))

    @property
    def grown(self) -> int:
        """Tokens in the tree."""
        return self.evictable + self.protected

    @property
    def swa_grown(self) -> int:
        """Tokens in the tree, of the sliding-window pool."""
        return self.swa_evictable + self.swa_protected


NO_KV = Kv()
META = "_slotproof"
"""The attribute of a request with what is known of it (`tracker.Meta`)."""
PARTED = "_slotproof_parted"
"""The attribute of a session whose close was told before the engine got to it."""


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
        self.free = FreeList(self.allocator, self.page_size)

    @classmethod
    @abstractmethod
    def fits(cls, scheduler: Any) -> bool:
        """Whether this scheduler has this layout."""

    # The pool ---------------------------------------------------------------

    @property
    def total(self) -> int:
        return int(self.scheduler.max_total_num_tokens)

    def free_pages(self) -> list[int]:
        """The free list, with what is staged or deferred; duplicates stay visible."""
        return self.free.pages()

    def free_count(self) -> int:
        """How many pages `free_pages` has; a tensor is read only for what is `deferred`."""
        return self.free.count()

    def deferred(self) -> bool:
        """Whether frees wait for the end of a group: what pages they are, their tensors know."""
        return self.free.deferred()

    @property
    def device(self) -> str:
        """Where the free list and the tables lie: on anything but a CPU, who reads them waits."""
        return str(self.rows.req_to_token.device)

    def available(self) -> int:
        """Free tokens of the full pool."""
        return self.free_count() * self.page_size

    def figures(self) -> Figures:
        """The tree's figures as they stand, in the midst of an iteration too."""
        tree, swa = self.scheduler.tree_cache, self.swa
        if swa is None:
            return Figures(int(tree.evictable_size()), int(tree.protected_size()))
        return Figures(
            int(tree.full_evictable_size()),
            int(tree.full_protected_size()),
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
    def path(self, node: Any) -> Iterable[tuple[Any, int, int]]:
        """The nodes on the way to ``node``: which, tokens, locks. No tensor is read."""

    @abstractmethod
    def locked_by(self, sid: str) -> Any:
        """The node that a slot locks; None: none."""

    def unlocked_on(self, node: Any) -> int:
        """Tokens on the way to ``node`` that no lock protects."""
        return sum(tokens for _, tokens, locks in self.path(node) if not locks)

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
    def record_of(self, req: Any) -> Kv:
        """The record a request runs on, owned or borrowed."""

    def kv(self, req: Any) -> Kv:
        """The same, with what a speculative round that is under way computes for certain: the KV
        of the last token before it. The build's C takes it in with the round's result."""
        kv = self.record_of(req)
        ahead = rounds_ahead(req)
        return kv._replace(C=kv.C + ahead) if ahead and kv.row >= 0 else kv

    def lengths(self, req: Any) -> tuple[int, int]:
        """C and A of a request that has KV: asked for at each of its tokens."""
        kv = self.kv(req)
        return kv.C, kv.A

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

    def accepted(self, session: Any, req: Any, claimed: bool) -> bool:
        """Whether a submission that was just queued is the session's turn, not a stub;
        ``claimed``: another turn was there."""
        return self.claimed(session) and not claimed and req.session is session

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
        """The sessions that keep a slot, without those whose close was told already
        (:meth:`parts`)."""
        sessions: dict[str, Any] = self.scheduler.session_controller.sessions
        return {
            sid: each
            for sid, each in sessions.items()
            if each.streaming and not hasattr(each, PARTED)
        }

    def branches(self, sid: str) -> bool:
        """Whether a session keeps no slot: its turns are requests with their whole prompt."""
        session = self.scheduler.session_controller.sessions.get(sid)
        return session is not None and not session.streaming

    def parts(self, session: Any) -> bool:
        """Whether the close that was just asked for is one at once, but for a doomed turn which
        goes on alone and keeps the engine from it. The session is then no longer told."""
        if not (self.close_pending(session) and self.claimed(session)):
            return False
        if self.inflight(session) is not None:
            return False
        setattr(session, PARTED, True)
        return True

    def claimed(self, session: Any) -> bool:
        """Whether the engine takes no other turn for now."""
        return bool(session._inflight)

    def inflight(self, session: Any) -> str | None:
        """The turn in flight, in the engine's words; None: none.

        With overlap scheduling a doomed turn that the engine never detaches has the flag for an
        iteration more, in which it goes on alone: then the flag is no turn's.
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
        """Where the tokens are that the next turn's prompt would begin with: the request, how
        many of its prompt, how many of its output."""
        if not session.req_nodes:
            return None, 0, 0
        req = next(iter(session.req_nodes.values())).req
        length, prompt = getattr(session, "committed_origin_len", None), len(req.origin_input_ids)
        return req, prompt if length is None else min(length, prompt), finished_output(req)

    def close_pending(self, session: Any) -> bool:
        return bool(getattr(session, "close_on_finish", False))

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


def finished_output(req: Any) -> int:
    """Tokens of the output that count."""
    most = req.sampling_params.max_new_tokens
    return len(req.output_ids) if most is None else min(most, len(req.output_ids))


def rounds_ahead(req: Any) -> int:
    """Speculative rounds of the request that are under way."""
    return int(getattr(getattr(req, META, None), "ahead", 0))


def swa_dup(dialect: Dialect, q: int, cursor: int, upto: int, change: Figures) -> int:
    """Private sliding-window tokens of [q, upto) that an insertion freed instead of giving
    them to the tree, which had them: what is not below the cursor and not in the tree now."""
    if dialect.swa is None:
        return 0
    return max(0, upto - max(q, cursor)) - change.swa_grown
