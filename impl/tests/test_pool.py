"""Pages, rows and KV tensors."""

from __future__ import annotations

import pytest
import torch

from slotproof_engine.memory.pool import KVPool, PageAllocator
from slotproof_engine.memory.rows import NO_ROW, ReqToTokenPool


def test_pages_come_from_the_front_and_go_back_to_the_end() -> None:
    allocator = PageAllocator(16, 4, "cpu")
    pages = allocator.alloc(3)
    assert pages.tolist() == [0, 1, 2]
    assert allocator.available_size() == 4
    allocator.free(pages[1:])
    assert allocator.free_pages.tolist() == [3, 1, 2]


def test_running_out_of_pages_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="out of pages: 3 wanted, 2 are free"):
        PageAllocator(2, 1, "cpu").alloc(3)


def test_a_double_free_is_not_repaired() -> None:
    """INV-OWNER is checked elsewhere: a real free list has no memory of frees either."""
    allocator = PageAllocator(4, 1, "cpu")
    pages = allocator.alloc(1)
    allocator.free(pages)
    allocator.free(pages)
    assert allocator.available_size() == 5


def test_kv_is_written_and_read_by_index() -> None:
    pool = KVPool(4, [0, 1], 3, "cpu")
    k, v = torch.tensor([[1.0, 2, 3]]), torch.tensor([[4.0, 5, 6]])
    pool.set_kv_buffer(1, torch.tensor([2]), k, v)
    got = pool.get_kv_buffer(1, torch.tensor([[2, 0]]))
    assert got[0].tolist() == [[[1, 2, 3], [0, 0, 0]]]
    assert got[1].tolist() == [[[4, 5, 6], [0, 0, 0]]]
    assert not pool.k[0].any()


@pytest.mark.parametrize(
    "kind",
    [
        torch.float32,
        torch.float64,
        torch.bfloat16,
        torch.float16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    ],
)
def test_poison_is_no_number_in_any_type(kind: torch.dtype) -> None:
    """INV-CONTENT: no number in a freed page can be mistaken for KV."""
    pool = KVPool(8, [0, 1], 3, "cpu", kind)
    k, v = torch.tensor([[1.0, 2, 3]] * 8), torch.tensor([[4.0, 5, 6]] * 8)
    for layer in pool.layers:
        pool.set_kv_buffer(layer, torch.arange(8), k, v)
    pool.poison(torch.tensor([2, 0]), 2)
    for layer in pool.layers:
        for got, want in zip(pool.get_kv_buffer(layer, torch.arange(8)), (k, v), strict=True):
            poisoned = got.float().isnan().all(-1)
            assert poisoned.tolist() == [True, True, False, False, True, True, False, False]
            assert torch.equal(got.float()[~poisoned], want[:4])


def test_rows_are_written_and_read_by_the_page() -> None:
    rows = ReqToTokenPool(2, 12, 4, ["full"], "cpu")
    assert rows.alloc() == 0
    rows.write("full", 0, 0, torch.tensor([5]))
    rows.extend("full", [(0, 8, 9)], torch.tensor([3]))
    table = rows.req_to_token["full"]
    assert table[0].tolist() == [20, 21, 22, 23, -1, -1, -1, -1, 12, 13, 14, 15]
    assert rows.pages("full", 0, 8, 12).tolist() == [3]
    assert rows.pages("full", 0, 9, 12).tolist() == [3]
    assert rows.take_back("full", 0, 0, 4, forget=True).tolist() == [5]
    assert table[0, :4].tolist() == [NO_ROW] * 4


def test_rows_run_out() -> None:
    rows = ReqToTokenPool(1, 4, 4, ["full"], "cpu")
    row = rows.alloc()
    assert rows.available_size() == 0
    rows.free(row)
    assert rows.free_slots == [0]
