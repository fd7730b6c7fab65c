"""Allocation, a cut and page stamps: the engine's work between two forwards.

    python bench/memory.py --device cuda --record bench/results/memory-h200.json

Allocation of a decode batch of 256 rows and of an extend of 64 x 512 tokens is page arithmetic, the
free list's next pages and the rows. A cut of 256 rows reads the IDs of the pages past a position.
``kernel_us`` is with the kernel of the device, ``torch_us`` in plain torch on the same device,
``loop_us`` with one slice assignment per row. Stamps of one slot are written by a save, compared by
a restore, and made void when the pages are freed. All times include the host's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from machine import described, microseconds, record, usable
from torch import Tensor

from slotproof_engine.kernels import memory_kernels, plain_memory
from slotproof_engine.kernels.plain_memory import Span, new_pages
from slotproof_engine.memory.stamps import PageStamps

WIDTH = 2048
STAMPED = (16, 512)
"""Pages of a slot."""


def batches() -> dict[str, list[Span]]:
    decode = [(row, at, at + 1) for row in range(256) for at in (row * 7 % 1000,)]
    return {
        "decode of 256": decode,
        "extend of 64 x 512": [(row, row % 40, row % 40 + 512) for row in range(64)],
    }


def row_by_row(table: Tensor, spans: list[Span], pages: Tensor, page_size: int) -> None:
    taken = 0
    offsets = torch.arange(page_size, device=table.device)
    for row, lo, hi in spans:
        first, last = -(-lo // page_size), -(-hi // page_size)
        taken_pages = pages[taken : taken + last - first]
        entries = (taken_pages[:, None] * page_size + offsets).flatten()
        table[row, first * page_size : last * page_size] = entries
        taken += last - first


def allocation(device: str, size: int, spans: list[Span]) -> dict[str, float]:
    pages = torch.randperm(new_pages(spans, size)).to(device)
    kernels = memory_kernels(device, size)
    tables = [torch.full((256, WIDTH), -1, device=device) for _ in range(3)]
    times = {
        "kernel_us": microseconds(
            device, lambda: kernels.alloc_extend(tables[0], spans, pages, size)
        ),
        "torch_us": microseconds(
            device, lambda: plain_memory.alloc_extend(tables[1], spans, pages, size)
        ),
        "loop_us": microseconds(device, lambda: row_by_row(tables[2], spans, pages, size)),
    }
    assert all(torch.equal(tables[0], table) for table in tables)
    return times


def cut(device: str, size: int, spans: list[Span]) -> dict[str, float]:
    table = torch.randint(1 << 20, (256, WIDTH)).to(device)
    kernels = memory_kernels(device, size)
    freed = plain_memory.free_rows(table, spans, size)
    assert torch.equal(freed, kernels.free_rows(table, spans, size))
    return {
        "kernel_us": microseconds(device, lambda: kernels.free_rows(table, spans, size)),
        "torch_us": microseconds(device, lambda: plain_memory.free_rows(table, spans, size)),
    }


def stamps(device: str, count: int) -> dict[str, float]:
    pages = torch.randperm(131_072)[:count].to(device)
    page_stamps = PageStamps(131_072, device)
    return {
        "pages": count,
        "save_us": microseconds(device, lambda: page_stamps.save(pages, 7, 0)),
        "verify_us": microseconds(device, lambda: page_stamps.verify(pages, 7, 0)),
        "free_us": microseconds(device, lambda: page_stamps.free(pages)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--page-size", type=int, nargs="+", default=(1, 16, 64))
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    usable(args.device)
    rows = []
    for size in args.page_size:
        for name, spans in batches().items():
            rows.append({"batch": name, "page_size": size, **allocation(args.device, size, spans)})
        ends = [(row, row // size * size, 512) for row in range(256)]
        rows.append({"batch": "cut of 256", "page_size": size, **cut(args.device, size, ends)})
    stamped = [stamps(args.device, count) for count in STAMPED]
    for row in [*rows, *stamped]:
        print(row, file=sys.stderr)
    record(
        args.record,
        {
            "what": "allocation of a batch, a cut, and the stamps of a slot",
            **described(args.device),
            "batches": rows,
            "stamps": stamped,
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
