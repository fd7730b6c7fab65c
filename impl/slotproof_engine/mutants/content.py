"""Bugs invisible in sums and owners: every page is in its place, but its KV is wrong."""

from __future__ import annotations

from torch import Tensor

from slotproof_engine.kv.kv_cache import KVCache
from slotproof_engine.models.model import StampModel
from slotproof_engine.models.paged_model import PagedModel
from slotproof_engine.models.transformer import PagedTransformer
from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.req import Req
from slotproof_engine.scheduling.scheduler import ExtendSpan, Scheduler


class StaleFirst(Scheduler):
    def extend_span(self, req: Req) -> ExtendSpan:
        """Treat the first position after a restore as already written. Its KV stays stale."""
        _, lo, tokens = super().extend_span(req)
        skip = int(len(tokens) > 1 and self.cache.lent_slot(req) is not None)
        return req, lo + skip, tokens[skip:]


class PrefixOutOfOrder(KVCache):
    def take_row(self, req: Req) -> None:
        """Write the pages of a matched prefix into the row in reverse order."""
        super().take_row(req)
        rows, row, q = self.req_to_token_pool, req.req_pool_idx, req.cache_protected_len
        if q:
            for pool in self.allocators:
                rows.write(pool, row, 0, rows.pages(pool, row, 0, q).flip(0))


class _ShortSight(PagedModel):
    def visible(
        self, table: Tensor, rows: Tensor, ends: Tensor, longest: int, window: int
    ) -> tuple[Tensor, Tensor]:
        """Let a layer see one position less than its window."""
        return super().visible(table, rows, ends, longest, window - (window > 1))


class ShortSightStamps(_ShortSight, StampModel):
    """Stamp model with a window that is one position too short."""


class ShortSightTransformer(_ShortSight, PagedTransformer):
    """Transformer with a window that is one position too short."""


SHORT_SIGHT = {"stamps": ShortSightStamps, "transformer": ShortSightTransformer}

MUTANTS = (
    Mutant(
        "stale-first-position",
        "a plain fault",
        "the first position after a restore is not written: stale KV is read",
        ("INV-CONTENT",),
        swap(scheduler=StaleFirst),
    ),
    Mutant(
        "prefix-out-of-order",
        "a plain fault",
        "the pages of a matched prefix are in the row in reverse order",
        ("INV-CONTENT",),
        swap(kv=PrefixOutOfOrder),
    ),
    Mutant(
        "short-window",
        "a plain fault",
        "sliding-window layers attend to one position less than the window",
        ("INV-CONTENT",),
        swap(models=SHORT_SIGHT),
        {"window": 2},
    ),
)
