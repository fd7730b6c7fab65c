"""Driver for an engine, and a deliberately simple audit of all its memory."""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from collections.abc import Iterator
from typing import Any, Protocol

import pytest
import torch

from slotproof_engine import EngineConfig, ReferenceEngine, build, expected_next
from slotproof_engine.requests.req import KVRecord

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel's module is imported
torch.set_num_threads(1)  # tensors are tiny: threads would only wait for each other
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


@pytest.fixture
def gpu() -> str:
    """Device of tests on a GPU, skipped without a GPU."""
    if INTERPRETED or not torch.cuda.is_available():
        pytest.skip("there is no GPU, or Triton kernels are interpreted")
    return "cuda"


@pytest.fixture(params=["interpreter", pytest.param("gpu", marks=pytest.mark.gpu)])
def triton_device(request: pytest.FixtureRequest) -> str:
    """Where Triton kernels run: on CPU tensors through the interpreter, or on the GPU."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("there is no Triton: pip install 'slotproof[test]'")
    if request.param == "gpu":
        return str(request.getfixturevalue("gpu"))
    if not INTERPRETED:
        pytest.skip("with TRITON_INTERPRET=1 only")
    return "cpu"


class Driver:
    """An engine, short commands, and a record of all events and messages."""

    def __init__(self, engine: ReferenceEngine, log: list[str]) -> None:
        self.engine = engine
        self.config = engine.config
        self.log = log
        self.events: list[tuple[str, str | None, str | None, dict[str, int]]] = []
        self.messages: list[dict[str, Any]] = []

    def do(self, do: str, **fields: Any) -> Driver:
        self.engine.do({"do": do, **fields})
        return self

    def open(self, *sids: str) -> Driver:
        for sid in sids:
            self.do("open", session=sid)
        return self

    def submit(
        self, sid: str | None, rid: str, tokens: list[int], max_new: int, stop: tuple[int, ...] = ()
    ) -> Driver:
        return self.do(
            "submit", session=sid, rid=rid, tokens=tokens, max_new=max_new, stop=list(stop)
        )

    def step(self, n: int = 1) -> Driver:
        for _ in range(n):
            self.engine.step()
            self._collect()
        return self

    def tick(self, seconds: int) -> Driver:
        self.do("tick", seconds=seconds)
        self._collect()
        return self

    def drain(self) -> Driver:
        """Step until every request is answered."""
        for _ in range(300):
            self.step()
            if not self.engine.scheduler.reqs:
                return self
        raise AssertionError("not drained")

    def _collect(self) -> None:
        self.events += self.engine.events
        self.messages += self.engine.messages

    @property
    def tids(self) -> list[str]:
        """Transitions of the last iteration."""
        return [event[0] for event in self.engine.events]

    def last(self, transition: str) -> dict[str, int]:
        return next(e[3] for e in reversed(self.events) if e[0] == transition)

    def answer(self, rid: str) -> dict[str, Any]:
        """Return the single final answer of a request."""
        answers = [m for m in self.messages if m.get("rid") == rid]
        assert len(answers) == 1, answers
        return answers[0]

    def figures(self, pool: str = "full") -> tuple[int, ...]:
        """available, evictable, protected, held, uncached: as the engine counts."""
        f = self.engine.checker.figures[pool]
        return f.available, f.evictable, f.protected, f.held, f.uncached

    def reported_sum(self, pool: str = "full") -> int:
        return self.engine.checker.figures[pool].sum

    # The audit -------------------------------------------------------------------

    def records(self) -> Iterator[tuple[KVRecord, str, list[int]]]:
        """Yield every record of KV with its tokens, KV on loan once."""
        sessions = self.engine.controller.sessions
        for sid, slot in self.engine.cache.slots.items():
            if not slot.is_active:
                session = sessions[sid]
                turn = session.inflight
                yield slot, sid, turn.fill_ids if turn is not None else session.history
        for req in self.engine.scheduler.reqs.values():
            if req.last_node is not None or req.req_pool_idx >= 0:
                yield req, req.rid, req.fill_ids

    def broken(self) -> set[str]:
        """Return the violated clauses, with every page counted by hand."""
        engine, kv = self.engine, self.engine.kv
        page = self.config.page_size
        bad: set[str] = set()
        rows = list(kv.req_to_token_pool.free_slots)
        locks: Counter[int] = Counter()
        owned = dict.fromkeys(kv.allocators, 0)
        owners: dict[str, Counter[int]] = {
            pool: Counter(allocator.free_pages.tolist())
            for pool, allocator in kv.allocators.items()
        }
        for node in kv.tree.nodes():
            owners["full"][node.page] += 1
            if "swa" in owners:
                owners["swa"][node.swa_page] += 1
        for record, _, tokens in self.records():
            c, a = record.kv_committed_len, record.kv_allocated_len
            q, e = record.cache_protected_len, record.swa_evicted_seqlen
            rows += [record.req_pool_idx]
            if not 0 <= q <= c <= a <= self.config.context_len:
                bad.add("INV-ORDER")
            if q % page:
                bad.add("INV-ALIGN")
            if not 0 <= e <= a or e % page:
                bad.add("INV-CURSOR")
            if c > len(tokens):
                bad.add("INV-COVER")
            if record.last_node is not None:
                locks.update(id(node) for node in record.last_node.path())
            for pool, table in kv.req_to_token_pool.req_to_token.items():
                lo = max(q, e) if pool == "swa" else q
                owned[pool] += -(-a // page) * page - lo
                for position in range(lo, -(-a // page) * page, page):
                    owners[pool][int(table[record.req_pool_idx, position]) // page] += 1
            got = engine.content({record.req_pool_idx: c})[record.req_pool_idx]
            if got != list(zip(tokens, range(c), strict=False)):
                bad.add("INV-CONTENT")
        if sorted(rows) != list(range(self.config.rows)):
            bad.add("INV-ROWS")
        held = sum(not slot.is_active for slot in engine.cache.slots.values())
        if engine.checker.held_rows not in (None, held):
            bad.add("INV-ROWS")
        if any(node.lock_ref != locks[id(node)] for node in kv.tree.nodes()):
            bad.add("INV-LOCK")
        for pool, allocator in kv.allocators.items():
            if owners[pool] != Counter(range(allocator.total // page)):
                bad.add("INV-OWNER")
            tree = kv.tree.evictable + kv.tree.protected
            if allocator.available_size() + tree + owned[pool] != allocator.total:
                bad.add(f"INV-SUM-{pool.upper()}")
        for req in engine.scheduler.reqs.values():
            known, prompt = req.fill_ids, len(req.origin_input_ids)
            for i in range(prompt, len(known)):
                if known[i] != expected_next(known[:i], self.config.window):
                    bad.add("INV-CONTENT")
        return bad | self._broken_check(owned)

    def _broken_check(self, owned: dict[str, int]) -> set[str]:
        checker = self.engine.checker
        sums = {pool: figures.held + figures.uncached for pool, figures in checker.figures.items()}
        balanced = all(figures.sum == figures.total for figures in checker.figures.values())
        right = checker.ran and sums == owned and (checker.verdict == "ok") == balanced
        return set() if right else {"INV-CHECKER"}


class Drive(Protocol):
    def __call__(self, mutant: str | None = None, **config: Any) -> Driver: ...


@pytest.fixture
def drive() -> Drive:
    """``drive(mutant, **config)``: an engine with a pool of 100 tokens by default."""

    def make(mutant: str | None = None, **config: Any) -> Driver:
        log: list[str] = []
        values = {"total_tokens": 100, "context_len": 100, **config}
        return Driver(build(EngineConfig.of(values), mutant, log.append), log)

    return make
