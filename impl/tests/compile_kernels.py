"""Compile every kernel for an H100 or H200 (sm_90), without a GPU.

Prints a line for each kernel and page size: registers and spilled bytes of a thread, and the number
of waits for an atomic's old value. Triton brings the compiler and `cuobjdump`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from slotproof_engine.kernels import triton_audit, triton_memory

POINTERS = {"words": "*i32", "table": "*i32", "buffer": "*i32", "kv": "*i32", "v_offset": "i64"}
LONGS = (
    "result",
    "rows",
    "allocated",
    "protected",
    "evicted",
    "free",
    "free_count",
    "tree",
    "tree_count",
    "spans",
    "out",
    "loc",
)
"""Pointers to int64. In the memory kernels, ``pages`` and ``numbers`` are lists, too."""


def types(kernel: Any, constants: Mapping[str, object], lists: tuple[str, ...]) -> dict[str, str]:
    known = {**POINTERS, **dict.fromkeys((*LONGS, *lists), "*i64")}
    return {
        name: "constexpr" if name in constants else known.get(name, "i32")
        for name in kernel.arg_names
    }


KERNELS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "count": (triton_audit._count, ()),
    "judge": (triton_audit._judge, ()),
    "alloc_extend": (triton_memory._alloc_extend, ("pages",)),
    "write_rows": (triton_memory._write_rows, ("pages", "numbers")),
    "free_rows": (triton_memory._free_rows, ()),
    "write_kv": (triton_memory._write_kv, ()),
}
FLAGS = dict.fromkeys(
    ("HAS_ROWS", "HAS_Q", "HAS_E", "HAS_FREE_COUNT", "HAS_TREE_COUNT", "FORGET"), True
)
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


def dumped(cubin: bytes, what: str) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        argv = [str(CUOBJDUMP), what, str(path)]
        return subprocess.run(argv, capture_output=True, check=True, text=True).stdout


def main() -> None:
    for page_size in (1, 16):
        numbers = {"P": page_size, "BLOCK": 512, "ROW_BLOCK": 512, "PAGES": 64}
        for name, (kernel, lists) in KERNELS.items():
            constants = {n: v for n, v in (FLAGS | numbers).items() if n in kernel.arg_names}
            source = ASTSource(kernel, types(kernel, constants, lists), constexprs=constants)
            cubin = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]
            used = dict(re.findall(r"(\w+):(\d+)", dumped(cubin, "--dump-resource-usage")))
            waits = len(re.findall(r"\bATOM", dumped(cubin, "-sass")))
            spilled = int(used["STACK"]) + int(used["LOCAL"])
            sys.stdout.write(f"{name} {page_size} {used['REG']} {spilled} {waits}\n")


if __name__ == "__main__":
    main()
