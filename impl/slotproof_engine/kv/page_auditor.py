"""Page audit of the engine's own pools, as an example of how to call the audit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.kernels.device import upload
from slotproof_engine.kv.audit import Audit, Ownership
from slotproof_engine.kv.kv_cache import FULL, SWA, KVCache
from slotproof_engine.requests.req import KVRecord


class PageAuditor:
    """One :class:`Audit` per pool. Owners are requests that have KV, and slots not on loan."""

    def __init__(self, config: EngineConfig, kv: KVCache) -> None:
        self.kv = kv
        self.device = config.device
        self.audits = {
            pool: Audit(
                allocator.total // config.page_size,
                config.page_size,
                device=config.device,
                kernels=config.kernels,
            )
            for pool, allocator in kv.allocators.items()
        }
        self._launched: set[str] = set()

    def launch(self, records: Sequence[KVRecord], pools: Iterable[str]) -> None:
        """Enqueue an audit of each pool, without waiting."""
        nodes = list(self.kv.tree.nodes())
        tree = upload([[node.page, node.swa_page] for node in nodes] or [[-1, -1]], self.device)
        owners = upload(
            [
                (
                    kv.req_pool_idx,
                    kv.kv_allocated_len,
                    kv.cache_protected_len,
                    kv.swa_evicted_seqlen,
                )
                for kv in records
            ]
            or [(-1, 0, 0, 0)],
            self.device,
        )
        rows, allocated, protected, evicted = owners.t().contiguous()
        for pool in pools:
            own = Ownership(
                req_to_token=self.kv.req_to_token_pool.req_to_token[pool],
                rows=rows,
                allocated=allocated,
                protected=protected,
                evicted=evicted if pool == SWA else None,
                free_pages=self.kv.allocators[pool].free_pages,
                tree_pages=tree[:, 0 if pool == FULL else 1].contiguous(),
            )
            self.audits[pool].launch(own)
            self._launched.add(pool)

    def wrong(self) -> list[str]:
        """Wait for the audits and return their findings. Because of the wait, equal commands give
        equal findings."""
        verdicts = [(pool, self.audits[pool].verdict(wait=True)) for pool in sorted(self._launched)]
        return [
            f"{pool}: {audit}" for pool, audit in verdicts if audit is not None and not audit.ok
        ]
