"""The reference engine, in this process.

| protocol | reference engine |
|---|---|
| pools | ``kv.allocators[pool]``, ``kv.tree.evictable``, ``kv.tree.protected`` |
| tree | ``kv.tree.nodes()``: ``page``, ``swa_page``, ``lock_ref`` |
| rows | ``kv.req_to_token_pool.free_slots`` and the rows of ``req_to_token`` in use |
| sessions, slots | ``controller.sessions``, ``cache.slots`` |
| requests | ``scheduler.reqs``; ``loan``: the request has the row of its session's slot |
| checker | ``checker.ran``, ``figures``, ``verdict``, ``held_rows``, ``counted``, ``recent`` |
| C, A, Q, E | ``kv_committed_len``, ``kv_allocated_len``, ``cache_protected_len``, \
``swa_evicted_seqlen`` |
"""

from __future__ import annotations

from typing import Any

import torch

from slotproof.engines.base import Capabilities, EngineUnusable, its_own_fault
from slotproof.protocol import snapshot as views
from slotproof.protocol.commands import FIELDS, TICKS, Command
from slotproof.protocol.config import CHOSEN, EngineConfig
from slotproof_engine.assembly.engine import ReferenceEngine
from slotproof_engine.assembly.parts import Parts
from slotproof_engine.base.config import EngineConfig as ImplConfig
from slotproof_engine.models.model import expected_next
from slotproof_engine.models.transformer import expected_tokens
from slotproof_engine.mutants import MUTANTS, mutant_named
from slotproof_engine.requests.req import KVRecord, Req
from slotproof_model.spec.state import config
from slotproof_model.spec.transitions import TRANSITIONS

COMMANDS = frozenset(FIELDS) - {"draft"}

_TRANSITIONS = frozenset(
    id_ for id_, spec in TRANSITIONS.items() if spec.possible({config.abort_publishes.name: False})
)
"""All transitions except one: no configuration makes this engine publish an aborted turn."""
_NOT_OBSERVED = {
    "real attention": "tokens are computed from stamps read back through the row table"
}


class InProcessEngine:
    """An engine that answers the protocol from the objects of a :class:`ReferenceEngine`."""

    name = "reference"
    engine: ReferenceEngine
    """Engine under test. Unset until the first :meth:`reset`."""

    def __init__(
        self, mutant: str | None = None, device: str = "cpu", model: str = "stamps"
    ) -> None:
        for name in mutant.split("+") if mutant is not None else ():
            if name not in MUTANTS:
                raise EngineUnusable(
                    f"there is no mutant {name!r} of the reference engine; "
                    "`slotproof list mutants` shows them"
                )
        self.version = "1" if mutant is None else f"1 with {mutant}"
        self.mutant, self.device, self.model = mutant, device, model
        if model == "transformer":
            self.name = "reference-transformer"
            torch.set_num_threads(1)  # tensors are tiny: more threads would only wait
        self.capabilities = Capabilities(
            commands=COMMANDS,
            pools=("full", "swa"),
            page_sizes=(1, 2, 4, 8, 16, 32, 64),
            events=True,
            transitions=_TRANSITIONS,
            profile="reference",
            recompute=True,
            config={**{name: [False, True] for name in sorted(CHOSEN)}, "batches": [2, 3]},
            not_observed=_NOT_OBSERVED if model == "stamps" else {},
        )
        self._config = EngineConfig()
        self._logged = 0
        """Number of lines logged by the engine's memory check since the last snapshot."""

    def reset(self, config: EngineConfig, seed: int) -> None:
        self._config = config
        if (reason := config.too_large()) is not None:
            raise EngineUnusable(f"the reference engine would be too large: {reason}")
        own: dict[str, Any] = {"seed": seed, "device": self.device, "model": self.model}
        own["audit"] = self.device != "cpu"  # The audit is cheap on a GPU only.
        # Level 2 logs every line at once. Level 1 stores the lines.
        own["checker_level"] = 1 if config.page_size == 1 else 2
        try:
            wanted = ImplConfig.of({**config.to_json(), **own})
        except ValueError as error:
            raise EngineUnusable(str(error)) from None
        parts = Parts() if self.mutant is None else mutant_named(self.mutant).apply(Parts())
        with its_own_fault():  # The fault may be a mutant's.
            try:
                self.engine = ReferenceEngine(wanted, parts, self._log)
            except RuntimeError as error:
                reason = str(error).splitlines()[0]
                raise EngineUnusable(f"the reference engine can't be built: {reason}") from None

    def do(self, command: Command) -> list[views.Snapshot]:
        engine = self.engine
        with its_own_fault():
            if command["do"] == "step":
                snapshots = []
                for _ in range(command["n"]):
                    engine.step()
                    snapshots.append(self._snapshot())
                return snapshots
            engine.do(command)
            return [self._snapshot()] if command["do"] in TICKS else []

    def recompute(self, tokens: list[int], count: int) -> list[int]:
        if self.model == "transformer":
            return expected_tokens(tokens, count, self._config.window)
        known = list(tokens)
        for _ in range(count):
            known.append(expected_next(known, self._config.window))
        return known[len(tokens) :]

    def close(self) -> None:
        vars(self).pop("engine", None)

    # Snapshots ------------------------------------------------------------------

    def _snapshot(self) -> views.Snapshot:
        engine = self.engine
        slots: dict[str, views.SlotView] = {
            sid: {
                **_lengths(slot),  # type: ignore[typeddict-item]
                "lent": slot.is_active,
                "locks": int(slot.last_node is not None),
            }
            for sid, slot in engine.cache.slots.items()
        }
        requests = {rid: self._request(req) for rid, req in engine.scheduler.reqs.items()}
        committed, allocated = dict[int, int](), dict[int, int]()
        for view in (*slots.values(), *requests.values()):
            if (row := view["row"]) >= 0:
                committed[row] = max(committed.get(row, 0), view["C"])
                allocated[row] = max(allocated.get(row, 0), view["A"])
        return {
            "iter": engine.iter,
            "consumed": len(engine.consumed),
            "messages": list(engine.messages),  # type: ignore[arg-type]
            "pools": {name: self._pool(name) for name in engine.kv.allocators},
            "tree": self._tree(),
            "rows": self._rows(allocated),
            "sessions": {
                sid: {
                    "open": session.open,
                    "closing": session.closing,
                    "inflight": session.inflight.rid if session.inflight is not None else None,
                    "history": len(session.history),
                    "hash": views.token_hash(session.history),
                }
                for sid, session in engine.controller.sessions.items()
            },
            "slots": slots,
            "requests": requests,
            "ended": [{"rid": request["rid"]} for request in engine.ended],
            "checker": self._check(),
            "events": list(engine.events),
            "content": {str(row): stamps for row, stamps in engine.content(committed).items()},
        }

    def _check(self) -> views.CheckerView:
        checker = self.engine.checker
        logged, self._logged = self._logged, 0
        shown: views.CheckerView = {
            "ran": checker.ran,
            "level": checker.level,
            "pools": {name: dict(vars(f)) for name, f in checker.figures.items()},  # type: ignore[misc]
            "verdict": checker.verdict,  # type: ignore[typeddict-item]
            "message": checker.message,
            "logged": logged,
            "kept": len(checker.recent),
        }
        if checker.held_rows is not None:
            shown |= {"held_rows": checker.held_rows, "counted": checker.counted}
        return shown

    def _log(self, _line: str) -> None:
        self._logged += 1

    def _pool(self, name: str) -> views.PoolView:
        kv = self.engine.kv
        allocator = kv.allocators[name]
        return {
            "total": allocator.total,
            "available": allocator.available_size(),
            "evictable": kv.tree.evictable,
            "protected": kv.tree.protected,
            "free": allocator.free_pages.tolist(),
            "evicted": kv.tree.evicted,
        }

    def _tree(self) -> dict[str, list[tuple[int, int]]]:
        nodes = self.engine.kv.tree.nodes()
        tree = {"full": [(node.page, node.lock_ref) for node in nodes]}
        if "swa" in self.engine.kv.allocators:
            tree["swa"] = [(node.swa_page, node.lock_ref) for node in nodes]
        return tree

    def _rows(self, lengths: dict[int, int]) -> Any:
        pool = self.engine.kv.req_to_token_pool
        used: dict[str, views.RowPages] = {str(row): {"full": []} for row in lengths}
        if lengths:
            rows = list(lengths)
            widest = max(lengths.values())
            for name, table in pool.req_to_token.items():
                for row, indices in zip(rows, table[rows, :widest].tolist(), strict=True):
                    used[str(row)][name] = indices[: lengths[row]]  # type: ignore[literal-required]
        return {"total": pool.size, "free": list(pool.free_slots), "used": used}

    def _request(self, req: Req) -> views.RequestView:
        scheduler = self.engine.scheduler
        last = scheduler.last_batch
        slot, row = self.engine.cache.slots.get(req.session_id or ""), req.req_pool_idx
        on_loan = slot is not None and row >= 0 and slot.req_pool_idx == row
        return {
            "session": req.session_id,
            "kind": req.kind,
            "phase": req.phase.value,
            "in_last": last is not None and req in last.reqs,
            "in_running": req in scheduler.running_batch.reqs,
            "loan": req.session_id if on_loan else None,
            **_lengths(req),  # type: ignore[typeddict-item]
            "locks": int(req.last_node is not None and not on_loan),
            "prompt": len(req.origin_input_ids),
            "hash": views.token_hash(req.origin_input_ids),
            "output": len(req.output_ids),
        }


def _lengths(record: KVRecord) -> dict[str, int]:
    return {
        "row": record.req_pool_idx,
        "C": record.kv_committed_len,
        "A": record.kv_allocated_len,
        "Q": record.cache_protected_len,
        "E": record.swa_evicted_seqlen,
    }
