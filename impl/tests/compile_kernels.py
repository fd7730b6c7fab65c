"""Compile every kernel for an H100 or H200 (sm_90), on a machine that has none."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from slotproof.impl.kernels import triton_audit, triton_memory

POINTERS = {
    "words": "*i32", "table": "*i32", "buffer": "*i32", "kv": "*i32", "v_offset": "i64",
}  # fmt: skip
LONGS = (
    "found", "rows", "allocated", "protected", "evicted", "free", "free_count", "tree",
    "tree_count", "spans", "out", "loc",
)  # fmt: skip
"""Pointers to int64; in the memory kernels ``pages`` and ``numbers`` are lists, too."""


def types(kernel: Any, constants: Mapping[str, object], lists: tuple[str, ...]) -> dict[str, str]:
    known = {**POINTERS, **dict.fromkeys((*LONGS, *lists), "*i64")}
    return {
        name: "constexpr" if name in constants else known.get(name, "i32")
        for name in kernel.arg_names
    }


def main() -> None:
    flags = dict.fromkeys(
        ("HAS_ROWS", "HAS_Q", "HAS_E", "HAS_FREE_COUNT", "HAS_TREE_COUNT", "FORGET"), True
    )
    numbers = {"P": 16, "BLOCK": 512, "ROW_BLOCK": 512, "PAGES": 64}
    kernels = (
        (triton_audit._count, ()),
        (triton_audit._judge, ()),
        (triton_memory._alloc_extend, ("pages",)),
        (triton_memory._write_rows, ("pages", "numbers")),
        (triton_memory._free_rows, ()),
        (triton_memory._write_kv, ()),
    )
    for kernel, lists in kernels:
        constants = {n: v for n, v in {**flags, **numbers}.items() if n in kernel.arg_names}
        source = ASTSource(kernel, types(kernel, constants, lists), constexprs=constants)
        triton.compile(source, target=GPUTarget("cuda", 90, 32))
    sys.stdout.write(f"{len(kernels)} kernels compile\n")


if __name__ == "__main__":
    main()
