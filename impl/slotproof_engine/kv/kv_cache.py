"""Paged KV memory: pools, rows and prefix tree, and the moves of memory between owners.

Callers decide *when* memory moves, and this module moves the memory. No function here uses a
session object or emits a transition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from torch import Tensor

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.kernels import memory_kernels
from slotproof_engine.kernels.device import upload
from slotproof_engine.kernels.plain_memory import Span, new_pages
from slotproof_engine.memory.pool import KVPool, PageAllocator
from slotproof_engine.memory.rows import NO_ROW, ReqToTokenPool
from slotproof_engine.memory.stamps import PageStamps
from slotproof_engine.memory.tree import PrefixTree, TreeNode
from slotproof_engine.requests.req import KVRecord, Req

FULL, SWA = "full", "swa"


class KVCache:
    """Allocators and KV of the pools (``full``, and ``swa`` if any), the rows, the prefix tree."""

    def __init__(
        self,
        config: EngineConfig,
        head_dim: int,
        allocators: Mapping[str, type[PageAllocator]],
        rows: type[ReqToTokenPool],
        tree: type[PrefixTree],
    ) -> None:
        self.page_size = config.page_size
        self.window = config.window
        self.keeps_slack = config.keeps_slack
        self.device = config.device
        tokens = {FULL: config.total_tokens, SWA: config.swa_tokens}
        layers = {
            FULL: range(1 if config.window else config.num_layers),
            SWA: range(1, config.num_layers),
        }
        kernels = memory_kernels(config.device, config.page_size, config.kernels)
        self.kv_pools = {
            p: KVPool(tokens[p], layers[p], head_dim, config.device, kernels=kernels)
            for p in config.pools
        }
        self.stamps = {
            p: PageStamps(tokens[p] // config.page_size, config.device) for p in config.pools
        }
        self.allocators = {
            p: allocators[p](tokens[p], config.page_size, config.device) for p in config.pools
        }
        self.req_to_token_pool = rows(
            config.rows, config.row_width, config.page_size, config.pools, config.device, kernels
        )
        self.tree = tree(config.page_size)

    # Sizes. Nothing is read from the device, and no state changes. ----------

    def ceil_page(self, tokens: int) -> int:
        return -(-tokens // self.page_size) * self.page_size

    def floor_page(self, tokens: int) -> int:
        return tokens // self.page_size * self.page_size

    def private_size(self, kv: KVRecord, pool: str) -> int:
        """Return how many tokens of ``pool`` the row owns, from Q or the cursor up to ceil(A)."""
        lo = kv.cache_protected_len
        if pool == SWA:
            lo = max(lo, kv.swa_evicted_seqlen)
        return self.ceil_page(kv.kv_allocated_len) - lo

    def new_pages(self, kv: KVRecord, hi: int) -> int:
        """Return how many tokens, in whole pages, a pool allocates to extend a row to ``hi``."""
        return max(0, self.ceil_page(hi) - self.ceil_page(kv.kv_allocated_len))

    def shortage(self, tokens: int, swa_tokens: int | None = None) -> int:
        """Return how many tokens the tighter pool lacks to allocate ``tokens``. May be negative.

        ``swa_tokens``: tokens needed in the sliding-window pool, if different.
        """
        short = tokens - self.allocators[FULL].available_size()
        if SWA in self.allocators:
            wanted = tokens if swa_tokens is None else swa_tokens
            short = max(short, wanted - self.allocators[SWA].available_size())
        return short

    # Transfers of memory between owners. -------------------------------------

    def take_row(self, req: Req) -> None:
        """Give a matched request a row. Its first Q positions point to the tree's pages."""
        req.req_pool_idx = self.req_to_token_pool.alloc()
        if req.last_node is not None:
            self.point_to(req, req.last_node, 0, req.cache_protected_len)

    def alloc(self, targets: Iterable[tuple[KVRecord, int]]) -> None:
        """Extend each row to ``hi``: allocate the pages of ``[A, hi)`` in one allocation per pool.

        If A lies inside a page, the row already owns that page, and its positions need no other
        page.
        """
        spans: list[Span] = []
        for kv, hi in targets:
            spans.append((kv.req_pool_idx, kv.kv_allocated_len, hi))
            kv.kv_allocated_len = max(kv.kv_allocated_len, hi)
        count = new_pages(spans, self.page_size)
        if count:
            for pool, allocator in self.allocators.items():
                self.req_to_token_pool.extend(pool, spans, allocator.alloc(count))

    def free_kv(self, kv: KVRecord, lo: int, hi: int) -> None:
        """Free the pages of positions ``[lo, hi)`` of the row. ``hi`` is page-aligned.

        [lo, cursor)  the sliding-window pages were freed before and are left alone.
        [cursor, hi)  the pages are freed in every pool.
        """
        for pool in self.allocators:
            start = max(lo, kv.swa_evicted_seqlen) if pool == SWA else lo
            if start < hi:
                self._free(pool, self.req_to_token_pool.take_back(pool, kv.req_pool_idx, start, hi))

    def _free(self, pool: str, pages: Tensor) -> None:
        """Free pages that no longer have an owner: poison their KV and void their stamps."""
        self.kv_pools[pool].poison(pages, self.page_size)
        self.stamps[pool].free(pages)
        self.allocators[pool].free(pages)

    def release(self, kv: KVRecord) -> int:
        """Release the KV, the lock and the row described by ``kv``, and clear the record.

        [0, Q)        stays in the tree, unlocked.
        [Q, ceil(A))  is freed.

        Returns the number of tokens made evictable.
        """
        self.free_kv(kv, kv.cache_protected_len, self.ceil_page(kv.kv_allocated_len))
        unlocked = self.unlock(kv)
        if kv.req_pool_idx != NO_ROW:
            self.req_to_token_pool.free(kv.req_pool_idx)
        kv.clear_kv()
        return unlocked

    def unlock(self, kv: KVRecord) -> int:
        """Drop the lock owned by ``kv``, if any. Return the number of tokens made evictable."""
        return self.tree.unlock(kv.last_node) if kv.last_node is not None else 0

    def cut_point(self, kv: KVRecord, n: int) -> int:
        """Return the position where the row ends after a cut to ``n`` tokens.

        If the cursor is past ``n``, the cut moves down to a page boundary. The sliding-window KV of
        the page at the cut is already freed. A cut inside the page would later free this KV twice
        (#22900).
        """
        return n if kv.swa_evicted_seqlen <= n else self.floor_page(n)

    def tail_start(self, m: int) -> int:
        """Return the first position to free after a cut at ``m``. The page of m - 1 stays whole."""
        return self.ceil_page(m)

    def cut(self, kv: KVRecord, n: int) -> None:
        """Cut the row to at most ``n`` positions. Both free_tail and trim_overshoot use this rule.

        [0, m) is preserved, where m is n or a little less (see cut_point). [m, ceil(m)) stays
        allocated and will be written again. [ceil(m), ceil(A)) is freed, unless ``keeps_slack`` is
        set and the cursor is not past n.
        """
        m = self.cut_point(kv, n)
        if self.keeps_slack and kv.swa_evicted_seqlen <= n:
            self.uncount(kv, m)
            return
        self.free_kv(kv, self.tail_start(m), self.ceil_page(kv.kv_allocated_len))
        self.cap(kv, m)

    def uncount(self, kv: KVRecord, m: int) -> None:
        """Invalidate the KV past ``m``. The memory past ``m`` stays allocated to the row."""
        kv.kv_committed_len = min(kv.kv_committed_len, m)

    def cap(self, kv: KVRecord, m: int) -> None:
        """Cap every length of ``kv`` at ``m``, the cursor included (#22900). Moves no memory."""
        kv.kv_committed_len = min(kv.kv_committed_len, m)
        kv.kv_allocated_len = min(kv.kv_allocated_len, m)
        kv.swa_evicted_seqlen = min(kv.swa_evicted_seqlen, m)

    def advance_swa(self, kv: KVRecord) -> int | None:
        """Free sliding-window KV that no later token can attend to. Return the cursor if it moved.

        [max(Q, old cursor), new cursor) is freed. The new cursor is at most C minus the window.

        The cursor does not move if the tree owns all pages between the old and the new cursor. A
        slot whose window begins in these tree pages can then still be restored.
        """
        if not self.window:
            return None
        cursor = self.floor_page(kv.kv_committed_len - self.window)
        lo = max(kv.cache_protected_len, kv.swa_evicted_seqlen)
        if cursor <= lo:
            return None
        row = kv.req_pool_idx
        self._free(SWA, self.req_to_token_pool.take_back(SWA, row, lo, cursor, forget=True))
        kv.swa_evicted_seqlen = cursor
        return cursor

    # Content -----------------------------------------------------------------

    def stamp_pages(self, kv: KVRecord, session: int) -> None:
        """Stamp each page owned by the row with the session that saves it. Moves no memory."""
        for pool, pages, first in self._private_pages(kv):
            self.stamps[pool].save(pages, session, first)

    def verify_pages(self, kv: KVRecord, session: int) -> None:
        """Mark as suspect all owned pages that changed since the save (see ``engine.content``)."""
        for pool, pages, first in self._private_pages(kv):
            self.stamps[pool].verify(pages, session, first)

    def _private_pages(self, kv: KVRecord) -> Iterator[tuple[str, Tensor, int]]:
        """Yield, per pool, the pages that the row owns and the first page's number in the row."""
        for pool in self.allocators:
            lo = kv.cache_protected_len
            if pool == SWA:
                lo = max(lo, kv.swa_evicted_seqlen)
            if lo < kv.kv_allocated_len:
                pages = self.req_to_token_pool.pages(pool, kv.req_pool_idx, lo, kv.kv_allocated_len)
                yield pool, pages, lo // self.page_size

    # The tree ------------------------------------------------------------------

    def insert(self, req: Req, upto: int) -> tuple[TreeNode, int]:
        """Move KV of ``[Q, upto)`` to the tree. Return the last node and ``dup``, in tokens.

        [Q, Q + dup)     is already in the tree: the row's own pages are freed.
        [Q + dup, upto)  is owned by the tree from now on, unlocked.

        The row still points to the freed pages: ``point_to`` corrects the row.
        """
        lo, row = req.cache_protected_len, req.req_pool_idx
        pages = {
            pool: self.req_to_token_pool.pages(pool, row, lo, upto).tolist()
            for pool in self.allocators
        }
        assert req.last_node is not None
        tokens = req.fill_ids[lo:upto]
        node, dup = self.tree.insert(req.last_node, tokens, pages[FULL], pages.get(SWA, []))
        self.free_kv(req, lo, lo + dup)
        return node, dup

    def point_to(self, req: Req, node: TreeNode, lo: int, hi: int) -> None:
        """Write the tree's pages on the path to ``node`` into positions ``[lo, hi)`` of the row."""
        span = range(lo // self.page_size, hi // self.page_size)
        if not span:
            return
        path = node.path()
        for pool in self.allocators:
            pages = [path[i].page if pool == FULL else path[i].swa_page for i in span]
            row, first = req.req_pool_idx, span[0]
            self.req_to_token_pool.write(pool, row, first, upload(pages, self.device))

    def evict(self, tokens: int) -> int:
        """Evict up to ``tokens`` unlocked tokens, rounded up to pages. Return the number freed."""
        gone = self.tree.evict(self.ceil_page(tokens) // self.page_size)
        if gone:
            for pool in self.allocators:
                pages = [node.page if pool == FULL else node.swa_page for node in gone]
                self._free(pool, upload(pages, self.device))
        return len(gone) * self.page_size
