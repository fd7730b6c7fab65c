"""Paged KV memory: pools, rows and prefix tree, and the few ways memory changes hands.

Everything above this file says *when* memory moves, this file moves it. Nothing
here knows of sessions or emits a transition.
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
    """Allocators and KV per pool (``full``, and ``swa`` where there is a window), rows, tree."""

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

    # Sizes. No read-backs, nothing changes. ---------------------------------

    def ceil_page(self, tokens: int) -> int:
        return -(-tokens // self.page_size) * self.page_size

    def floor_page(self, tokens: int) -> int:
        return tokens // self.page_size * self.page_size

    def private_size(self, kv: KVRecord, pool: str) -> int:
        """Tokens of ``pool`` that the row of ``kv`` owns: from Q, or the cursor, to A in pages."""
        lo = kv.cache_protected_len
        if pool == SWA:
            lo = max(lo, kv.swa_evicted_seqlen)
        return self.ceil_page(kv.kv_allocated_len) - lo

    def new_pages(self, kv: KVRecord, hi: int) -> int:
        """Tokens to allocate, in each pool, to extend the row to ``hi``; whole pages."""
        return max(0, self.ceil_page(hi) - self.ceil_page(kv.kv_allocated_len))

    def shortage(self, tokens: int, swa_tokens: int | None = None) -> int:
        """Tokens missing in the tighter pool to allocate ``tokens``; may be negative.

        ``swa_tokens``: how many of the sliding-window pool, where that differs.
        """
        short = tokens - self.allocators[FULL].available_size()
        if SWA in self.allocators:
            wanted = tokens if swa_tokens is None else swa_tokens
            short = max(short, wanted - self.allocators[SWA].available_size())
        return short

    # Memory changes hands. ---------------------------------------------------

    def take_row(self, req: Req) -> None:
        """Give a matched request a row whose first Q positions are the tree's pages."""
        req.req_pool_idx = self.req_to_token_pool.alloc()
        if req.last_node is not None:
            self.point_to(req, req.last_node, 0, req.cache_protected_len)

    def alloc(self, targets: Iterable[tuple[KVRecord, int]]) -> None:
        """Allocate each row up to ``hi``: the pages of ``[A, hi)``, one allocation per pool.

        Positions at and past A in a page that the row owns already need none.
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
        """Free the pages of positions ``[lo, hi)`` of the row; ``hi`` is page-aligned.

        [lo, cursor)  sliding-window pages: given back before, not touched
        [cursor, hi)  freed in every pool
        """
        for pool in self.allocators:
            start = max(lo, kv.swa_evicted_seqlen) if pool == SWA else lo
            if start < hi:
                self._free(pool, self.req_to_token_pool.take_back(pool, kv.req_pool_idx, start, hi))

    def _free(self, pool: str, pages: Tensor) -> None:
        """Nobody owns these any more: their KV is poisoned, their stamps are void."""
        self.kv_pools[pool].poison(pages, self.page_size)
        self.stamps[pool].free(pages)
        self.allocators[pool].free(pages)

    def release(self, kv: KVRecord) -> int:
        """Give back all that ``kv`` describes, its lock and its row, and clear it.

        [0, Q)        stays in the tree, unlocked
        [Q, ceil(A))  freed

        Returns the tokens that became evictable.
        """
        self.free_kv(kv, kv.cache_protected_len, self.ceil_page(kv.kv_allocated_len))
        unlocked = self.unlock(kv)
        if kv.req_pool_idx != NO_ROW:
            self.req_to_token_pool.free(kv.req_pool_idx)
        kv.clear_kv()
        return unlocked

    def unlock(self, kv: KVRecord) -> int:
        """Drop the lock that ``kv`` owns, if any; returns what became evictable."""
        return self.tree.unlock(kv.last_node) if kv.last_node is not None else 0

    def cut_point(self, kv: KVRecord, n: int) -> int:
        """Where a cut to ``n`` tokens really cuts.

        Inside a page at or below the cursor it moves down to the page boundary:
        the page's sliding-window half is gone, and cutting in the middle would
        have it handed back a second time later (#22900).
        """
        return n if kv.swa_evicted_seqlen <= n else self.floor_page(n)

    def tail_start(self, m: int) -> int:
        """Where freeing begins after a cut at ``m``: the page that holds m - 1 stays whole."""
        return self.ceil_page(m)

    def cut(self, kv: KVRecord, n: int) -> None:
        """Keep at most ``n`` positions: the one rule behind free_tail and trim_overshoot.

        [0, m)              kept; m is n or, see cut_point, a little less
        [m, ceil(m))        stays allocated with the page it is in, to be written again
        [ceil(m), ceil(A))  freed; where slack is kept, and the cursor is not past n, it stays
        """
        m = self.cut_point(kv, n)
        if self.keeps_slack and kv.swa_evicted_seqlen <= n:
            self.uncount(kv, m)
            return
        self.free_kv(kv, self.tail_start(m), self.ceil_page(kv.kv_allocated_len))
        self.cap(kv, m)

    def uncount(self, kv: KVRecord, m: int) -> None:
        """What is past ``m`` is not valid any more, and stays allocated. Moves no memory."""
        kv.kv_committed_len = min(kv.kv_committed_len, m)

    def cap(self, kv: KVRecord, m: int) -> None:
        """No length of ``kv`` is past ``m``, the cursor included (#22900). Moves no memory."""
        kv.kv_committed_len = min(kv.kv_committed_len, m)
        kv.kv_allocated_len = min(kv.kv_allocated_len, m)
        kv.swa_evicted_seqlen = min(kv.swa_evicted_seqlen, m)

    def advance_swa(self, kv: KVRecord) -> int | None:
        """Give back sliding-window KV that no later token attends to; the new cursor if it moved.

        [max(Q, old), new)  freed in the sliding-window pool; new <= C - W

        It stays where it is as long as it would only pass what the tree keeps: a slot whose window
        begins there can be restored.
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
        """The pages that the row owns hold what the session saved. Moves no memory."""
        for pool, pages, first in self._private_pages(kv):
            self.stamps[pool].save(pages, session, first)

    def verify_pages(self, kv: KVRecord, session: int) -> None:
        """Those of them that do not are suspect from now on; ``engine.content`` tells."""
        for pool, pages, first in self._private_pages(kv):
            self.stamps[pool].verify(pages, session, first)

    def _private_pages(self, kv: KVRecord) -> Iterator[tuple[str, Tensor, int]]:
        """Per pool: the pages that the row owns, and the logical number of the first."""
        for pool in self.allocators:
            lo = kv.cache_protected_len
            if pool == SWA:
                lo = max(lo, kv.swa_evicted_seqlen)
            if lo < kv.kv_allocated_len:
                pages = self.req_to_token_pool.pages(pool, kv.req_pool_idx, lo, kv.kv_allocated_len)
                yield pool, pages, lo // self.page_size

    # The tree ------------------------------------------------------------------

    def insert(self, req: Req, upto: int) -> tuple[TreeNode, int]:
        """Move KV of ``[Q, upto)`` to the tree; returns the end node and the tokens it had.

        [Q, Q + dup)     the tree had it: the row's own pages are freed
        [Q + dup, upto)  the tree's from now on, unlocked

        The row still points to the freed pages: ``point_to`` corrects that.
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
        """Write the tree's pages of ``[lo, hi)`` on the path to ``node`` into the row."""
        span = range(lo // self.page_size, hi // self.page_size)
        if not span:
            return
        path = node.path()
        for pool in self.allocators:
            pages = [path[i].page if pool == FULL else path[i].swa_page for i in span]
            row, first = req.req_pool_idx, span[0]
            self.req_to_token_pool.write(pool, row, first, upload(pages, self.device))

    def evict(self, tokens: int) -> int:
        """Free unlocked pages of the tree, ``tokens`` or a little more; returns how many."""
        gone = self.tree.evict(self.ceil_page(tokens) // self.page_size)
        if gone:
            for pool in self.allocators:
                pages = [node.page if pool == FULL else node.swa_page for node in gone]
                self._free(pool, upload(pages, self.device))
        return len(gone) * self.page_size
