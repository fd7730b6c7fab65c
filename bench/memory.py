"""Allocation of a decode batch of 256 and of an extend of 64 x 512 tokens.

    python bench/memory.py --device cuda --record bench/results/memory-h200.json

Page arithmetic, the free list's next pages and the rows, as the engine does it between
two forwards: ``kernel_us`` with the kernel of the device, ``torch_us`` in plain torch on
the same device, ``loop_us`` with one slice assignment per row, as one would write it first.
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

WIDTH = 2048


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
        mine = pages[taken : taken + last - first]
        entries = (mine[:, None] * page_size + offsets).flatten()
        table[row, first * page_size : last * page_size] = entries
        taken += last - first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--page-size", type=int, nargs="+", default=(1, 16, 64))
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    usable(args.device)
    rows = []
    for size in args.page_size:
        kernels = memory_kernels(args.device, size)
        for name, spans in batches().items():
            pages = torch.randperm(new_pages(spans, size)).to(args.device)
            shape = (256, WIDTH)
            tables = [torch.full(shape, -1, device=args.device) for _ in range(3)]
            calls = {
                "kernel_us": lambda k=kernels, t=tables[0], s=spans, p=pages, z=size: (
                    k.alloc_extend(t, s, p, z)
                ),
                "torch_us": lambda t=tables[1], s=spans, p=pages, z=size: plain_memory.alloc_extend(
                    t, s, p, z
                ),
                "loop_us": lambda t=tables[2], s=spans, p=pages, z=size: row_by_row(t, s, p, z),
            }
            times = {each: microseconds(args.device, call) for each, call in calls.items()}
            assert all(torch.equal(tables[0], table) for table in tables)
            rows.append({"batch": name, "page_size": size, **times})
            print(rows[-1], file=sys.stderr)
    record(
        args.record,
        {
            "what": "allocation of a batch: page arithmetic, free pages, rows",
            **described(args.device),
            "batches": rows,
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
