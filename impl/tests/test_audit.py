"""Page audit: INV-OWNER, INV-BACKED, with twin and Triton kernel against counting by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st

from slotproof_engine.kv.audit import Audit, Kind, Ownership, Verdict
from tests.kernels import Pool, damaged, sound_pool

SEEDS = st.integers(0, 2**32)


def audited(pool: Pool, device: str, kernels: str, seed: int = 0) -> Verdict:
    own = pool.tensors(device, counts=bool(seed & 1), short=bool(seed & 2))
    audit = Audit(pool.pages, pool.page_size, pool.first_page, device, kernels)
    audit.launch(own)
    verdict = audit.verdict(wait=True)
    assert verdict is not None
    return verdict


def as_found(verdict: Verdict) -> dict[Kind, tuple[int, object]]:
    return {
        bad.kind: (bad.count, (bad.owner, bad.position) if bad.page is None else bad.page)
        for bad in verdict.findings
    }


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_twin_agrees_with_counting_by_hand(seed: int) -> None:
    sound = sound_pool(random.Random(seed))
    assert audited(sound, "cpu", "torch", seed).ok
    bad = damaged(sound, random.Random(seed))
    assert as_found(audited(bad, "cpu", "torch", seed)) == bad.by_hand()


def test_kernel_agrees_with_its_twin(triton_device: str) -> None:
    @settings(max_examples=40, deadline=None)
    @given(SEEDS)
    def agree(seed: int) -> None:
        sound = sound_pool(random.Random(seed))
        assert audited(sound, triton_device, "triton", seed).ok
        bad = damaged(sound, random.Random(seed))
        assert audited(bad, triton_device, "triton", seed) == audited(bad, "cpu", "torch", seed)

    agree()


def test_long_rows_are_shared_by_blocks(triton_device: str) -> None:
    """A row with more pages than a block is read to its last page."""
    pages = 5000
    table = torch.arange(pages, device=triton_device).reshape(1, -1)
    empty = torch.zeros(0, dtype=torch.int64, device=triton_device)
    own = Ownership(table, torch.tensor([pages], device=triton_device), empty)
    audit = Audit(pages, 1, device=triton_device, kernels="triton")
    audit.launch(own)
    assert str(audit.verdict(wait=True)) == "5000 pages, each with one owner"
    table[0, pages - 1] = 3
    audit.launch(own)
    assert str(audit.verdict(wait=True)) == (
        "a page has no owner: 1, first page 4999; a page is in rows more than once: 1, first page 3"
    )


@pytest.mark.parametrize("kernels", ["torch", "triton"])
@pytest.mark.parametrize(("times", "first_bits"), [(4096, 1 << 12), (4097, (1 << 12) + 1)])
def test_a_field_that_runs_over_is_noticed(
    kernels: str, times: int, first_bits: int, triton_device: str
) -> None:
    """4,096 owners of a page look like a single owner, the tree. The total shows the difference."""
    device = triton_device if kernels == "triton" else "cpu"
    table = torch.zeros((1, times), dtype=torch.int64, device=device)
    empty = table[0, :0]
    audit = Audit(1, 1, device=device, kernels=kernels)
    audit.launch(Ownership(table, torch.tensor([times], device=device), empty))
    assert audit._words.tolist() == [first_bits]
    verdict = audit.verdict(wait=True)
    assert verdict is not None and not verdict.ok
    assert str(verdict).endswith("a page has over 500 owners")


def test_findings_in_words() -> None:
    pool = Pool(2, 4, 0, [[0, 1, -1, -1], [2, 3, 9, 9]], [0, 1], [3, 3], [0, 0], [0, 0], [1], [1])
    assert str(audited(pool, "cpu", "torch")) == (
        "a page has no owner: 2, first page 2; a row owns a free page: 1, first page 1; "
        "a row owns a page of the tree: 1, first page 1; "
        "a page of the tree is free: 1, first page 1; "
        "a row has no page below its allocated length: 1, first owner 0 at position 2; "
        "a row has an index outside the pool: 1, first owner 1 at position 2"
    )
    lonely = replace(pool, rows=[-1, -1], tree=[2, 2, 3], free=[0, 0, 1, 44])
    assert str(audited(lonely, "cpu", "torch")) == (
        "a page is in the free list more than once: 1, first page 0; "
        "a page is in the tree more than once: 1, first page 2; "
        "the free list or the tree has an ID outside the pool: 1, first page 44"
    )


def test_wrong_use_is_told() -> None:
    one, table = torch.zeros(1), torch.zeros((1, 4))
    for match, make in (
        ("pages and page_size must be at least 1", lambda: Audit(0, 1)),
        ("no audit was launched", lambda: Audit(1, 1).verdict()),
        ("req_to_token", lambda: Ownership(one, one, one)),
        ("free_pages", lambda: Ownership(table, one, table)),
        ("protected", lambda: Ownership(table, one, one, protected=torch.zeros(2))),
        ("more owners than rows", lambda: Ownership(table, torch.zeros(2), one)),
    ):
        with pytest.raises((ValueError, RuntimeError), match=match):
            make()


@pytest.mark.gpu
def test_captured_in_a_graph(gpu: str) -> None:
    """A replay reads changed tensors, allocates nothing and does not wait."""
    table = torch.tensor([[0, 1, 2, -1]], device=gpu)
    own = Ownership(table, torch.tensor([3], device=gpu), torch.tensor([3, 4], device=gpu))
    audit = Audit(5, 1, device=gpu)
    audit.launch(own)
    assert audit.verdict(wait=True) == Verdict(5, ())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        audit.launch(own)
    own.free_pages[0] = 1
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.set_sync_debug_mode("error")
    try:
        graph.replay()
        audit.replayed()
        audit.verdict()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    verdict = audit.verdict(wait=True)
    assert verdict is not None
    assert [finding.kind for finding in verdict.findings] == [Kind.LOST, Kind.ROW_FREE]
    assert torch.cuda.memory_allocated() == before
