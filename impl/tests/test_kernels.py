"""Triton kernels against their twins on random batches, and compilation for a GPU."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings, strategies as st

from slotproof_engine.kernels import plain_memory, wants_triton
from slotproof_engine.kernels.plain_memory import Span
from tests.kernels import PAGE_SIZES

SEEDS = st.integers(0, 2**32)


def spans(r: random.Random, size: int, pages: int, rows: int) -> list[Span]:
    """Return at most one span per row, ragged, with any ends, also empty and backward spans."""
    length = pages * size
    ends = [r.choice([0, 1, size - 1, size, size + 1, length, r.randint(0, length)]) for _ in "ab"]
    chosen = r.sample(range(rows), r.randint(0, rows))

    def end() -> int:
        return min(length, r.choice([*ends, r.randint(0, length)]))

    return [(row, end(), end()) for row in chosen]


def batch(seed: int) -> tuple[random.Random, int, int, torch.Tensor]:
    """A generator, page size, pages of a row, and a row table with something in every entry."""
    r = random.Random(seed)
    size, pages, rows = r.choice(PAGE_SIZES), r.randint(1, 9), r.randint(1, 7)
    kind = r.choice([torch.int32, torch.int64])
    table = torch.tensor([r.randint(-1, 999) for _ in range(rows * pages * size)], dtype=kind)
    return r, size, pages, table.reshape(rows, -1)


def on(device: str, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return two copies: for the twin, and for the kernel."""
    return table.clone(), table.clone().to(device)


def test_alloc_extend(triton_device: str) -> None:
    from slotproof_engine.kernels import triton_memory

    @settings(max_examples=60, deadline=None)
    @given(SEEDS)
    def agree(seed: int) -> None:
        r, size, pages, table = batch(seed)
        wanted = spans(r, size, pages, len(table))
        ids = torch.randperm(500)[: plain_memory.new_pages(wanted, size)]
        plain, fast = on(triton_device, table)
        plain_memory.alloc_extend(plain, wanted, ids, size)
        triton_memory.alloc_extend(fast, wanted, ids.to(triton_device), size)
        assert torch.equal(plain, fast.cpu())

    agree()


def test_decode_takes_a_page_where_one_ends() -> None:
    table = torch.full((3, 8), -1)
    batch_of_decode = [(0, 4, 5), (2, 3, 4), (1, 0, 1)]
    plain_memory.alloc_extend(table, batch_of_decode, torch.tensor([7, 5]), 4)
    assert table.tolist() == [
        [-1, -1, -1, -1, 28, 29, 30, 31],
        [20, 21, 22, 23, -1, -1, -1, -1],
        [-1] * 8,
    ]


def test_write_rows(triton_device: str) -> None:
    from slotproof_engine.kernels import triton_memory

    @settings(max_examples=40, deadline=None)
    @given(SEEDS)
    def agree(seed: int) -> None:
        r, size, pages, table = batch(seed)
        places = r.sample(range(len(table) * pages), r.randint(0, len(table) * pages))
        rows = torch.tensor([place // pages for place in places], dtype=torch.int64)
        numbers = torch.tensor([place % pages for place in places], dtype=torch.int64)
        ids = torch.randperm(500)[: len(places)]
        plain, fast = on(triton_device, table)
        plain_memory.write_rows(plain, rows, numbers, ids, size)
        places_there = torch.stack((rows, numbers, ids)).to(triton_device)
        triton_memory.write_rows(fast, places_there[0], places_there[1], places_there[2], size)
        assert torch.equal(plain, fast.cpu())

    agree()


@pytest.mark.parametrize("forget", [False, True])
def test_free_rows(triton_device: str, forget: bool) -> None:
    from slotproof_engine.kernels import triton_memory

    @settings(max_examples=40, deadline=None)
    @given(SEEDS)
    def agree(seed: int) -> None:
        r, size, pages, table = batch(seed)
        given_back = spans(r, size, pages, len(table)) or [(0, 0, size)]
        plain, fast = on(triton_device, table)
        freed = plain_memory.free_rows(plain, given_back, size, forget=forget)
        assert len(freed) == plain_memory.freed_pages(given_back, size)
        also = triton_memory.free_rows(fast, given_back, size, forget=forget)
        assert torch.equal(freed, also.cpu())
        assert torch.equal(plain, fast.cpu())

    agree()


@pytest.mark.parametrize("kind", [torch.int8, torch.float16, torch.int32])
def test_write_kv(triton_device: str, kind: torch.dtype) -> None:
    from slotproof_engine.kernels import triton_memory

    @settings(max_examples=30, deadline=None)
    @given(SEEDS)
    def agree(seed: int) -> None:
        r = random.Random(seed)
        tokens, heads, dim = r.randint(1, 300), r.randint(1, 3), r.randint(1, 9)
        n = r.randint(0, tokens)
        loc = torch.randperm(tokens)[:n]
        kv = (torch.randn(2, n, heads, dim) * 99).to(kind)
        plain = torch.zeros(2, tokens, heads, dim, dtype=kind)
        fast = plain.clone().to(triton_device)
        plain_memory.write_kv(plain, loc, kv)
        triton_memory.write_kv(fast, loc.to(triton_device), kv.to(triton_device))
        assert torch.equal(plain, fast.cpu())

    agree()


@pytest.mark.slow
def test_all_kernels_compile_for_a_gpu(triton_device: str) -> None:
    """The compiler rejects code accepted by the interpreter, and needs no GPU.

    The compiled code proves promises without a run: nothing is spilled, six blocks of 128 threads
    fit in 65,536 registers, and no thread waits for an atomic's old value.
    """
    del triton_device  # only to skip without Triton
    environment = {**os.environ, "TRITON_INTERPRET": "0"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    program = Path(__file__).with_name("compile_kernels.py")
    done = subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    made = [line.split() for line in done.stdout.splitlines()]
    assert len(made) == 2 * len({name for name, *_ in made}) == 2 * 6
    for name, page_size, registers, spilled, waits in made:
        assert int(registers) <= 80, (name, page_size)
        assert (spilled, waits) == ("0", "0"), (name, page_size)


def test_which_kernels_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not wants_triton("cuda")
    with pytest.raises(ValueError, match="Triton is not installed"):
        wants_triton("cuda", "triton")
