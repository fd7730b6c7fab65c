"""Cost of the page audit, compared with its memory traffic and with SGLang's method.

    python bench/audit.py --device cuda --record bench/results/audit-h200.json
    python bench/audit.py --tokens 100000          # on the CPU, a small pool

The pool is shuffled and has 256 owners. Nine tenths of the tokens are in rows, an eighth of the row
tokens is a prefix in the tree, and one tenth is free. ``graph_us`` is the time of an audit in a
CUDA graph. ``floor_us`` is the bytes to be moved (see ``bytes_moved``) over the bandwidth of a copy
in the same run. ``sglang_us`` is SGLang's own check of pages, written from a description: gather
the owners' rows with a mask, ``unique`` on the free pages, and ``isin`` of one in the other.
SGLang's check sorts, reads back, and does not see two owners.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from machine import described, in_graph, microseconds, record, usable
from torch import Tensor

from slotproof_engine.kv.audit import Audit, Ownership

TOKENS = (100_000, 1_000_000, 2_097_152, 8_000_000)
PAGE_SIZES = (1, 16, 64)
OWNERS = 256
SECTOR = 32
"""Minimum bytes of a load on a GPU."""


def state(tokens: int, page_size: int, device: str) -> tuple[Ownership, int]:
    """A pool in good order, and its number of pages."""
    pages = tokens // page_size
    owners = min(OWNERS, max(1, pages // 20))
    ids = torch.randperm(pages, generator=torch.Generator().manual_seed(0))
    used = pages * 9 // 10 // owners
    shared = used // 8
    tree, rest = ids[:shared], ids[shared:]
    private = rest[: owners * (used - shared)].view(owners, -1)
    numbers = torch.cat((tree.expand(owners, -1), private), 1)
    table = numbers[:, :, None] * page_size + torch.arange(page_size)
    length = torch.full((owners,), used * page_size)
    own = Ownership(
        req_to_token=table.flatten(1).int().to(device),
        allocated=length.to(device),
        protected=torch.full_like(length, shared * page_size).to(device),
        free_pages=rest[private.numel() :].to(device),
        tree_pages=tree.to(device),
    )
    return own, pages


def bytes_moved(own: Ownership, pages: int, page_size: int) -> int:
    """Row entries in whole sectors, lists, a 4-byte word per page: cleared, added to, read."""
    owners, width = own.req_to_token.shape
    entries = owners * width // page_size
    assert own.tree_pages is not None
    lists = (len(own.free_pages) + len(own.tree_pages)) * 8
    return entries * min(SECTOR, 4 * page_size) + lists + 3 * 4 * pages


def bandwidth(device: str, size: int) -> float:
    """Bytes per microsecond, read and written, of a copy of ``size`` bytes."""
    source = torch.empty(max(size, 1 << 20), dtype=torch.int8, device=device)
    target = torch.empty_like(source)
    return 2 * len(source) / microseconds(device, lambda: target.copy_(source))


def as_sglang(own: Ownership, page_size: int) -> bool:
    """Return True if an owner's page is free, or a page is in the free list twice."""
    positions = torch.arange(own.req_to_token.shape[1], device=own.allocated.device)
    assert own.protected is not None
    own_positions = (positions >= own.protected[:, None]) & (positions < own.allocated[:, None])
    owned: Tensor = torch.unique(own.req_to_token[own_positions] // page_size)
    free = torch.unique(own.free_pages)
    twice = len(free) != len(own.free_pages)
    return twice or bool(torch.isin(owned, free).any())


def measured(tokens: int, page_size: int, device: str, kernels: str, per_us: float) -> dict:
    own, pages = state(tokens, page_size, device)
    audit = Audit(pages, page_size, device=device, kernels=kernels)
    audit.launch(own)
    verdict = audit.verdict(wait=True)
    assert verdict is not None and verdict.ok and not as_sglang(own, page_size)
    graph = in_graph(device, lambda: audit.launch(own))
    plain = microseconds(device, lambda: audit.launch(own))
    theirs = microseconds(device, lambda: as_sglang(own, page_size), rounds=10)
    return {
        "tokens": tokens,
        "page_size": page_size,
        "pages": pages,
        "plain_us": plain,
        "graph_us": graph,
        "floor_us": round(bytes_moved(own, pages, page_size) / per_us, 2),
        "sglang_us": theirs,
        "times_faster": round(theirs / (graph or plain), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--kernels", default="auto", choices=("auto", "torch", "triton"))
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    parser.add_argument("--page-size", type=int, nargs="+", default=PAGE_SIZES)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    usable(args.device)
    per_us = bandwidth(args.device, 1 << 30 if args.device != "cpu" else 1 << 26)
    rows = [
        measured(tokens, size, args.device, args.kernels, per_us)
        for size in args.page_size
        for tokens in args.tokens
    ]
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()), file=sys.stderr)
    record(
        args.record,
        {
            "what": "page audit of a whole pool, next to the bytes it moves and SGLang's method",
            **described(args.device),
            "copy_gb_per_s": round(per_us / 1e3, 1),
            "kernels": args.kernels,
            "sizes": rows,
        },
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
