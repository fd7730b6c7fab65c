"""Origin of a recorded result, and the measurement of time."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def described(device: str) -> dict[str, Any]:
    """Date, command, device, driver, versions."""
    about: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%d"),
        "command": "python " + " ".join(sys.argv),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": _triton(),
    }
    if device.startswith("cuda"):
        about["device"] = torch.cuda.get_device_name(device)
        about["cuda"] = torch.version.cuda
        about["driver"] = _driver()
    else:
        about["device"] = f"{platform.machine()}, {os.cpu_count()} cores, CPU only"
    return about


def _triton() -> str | None:
    try:
        import triton
    except ImportError:
        return None
    return str(triton.__version__)


def _driver() -> str:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, check=False)  # noqa: S603  # a fixed command
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 else "unknown"


def microseconds(device: str, call: Callable[[], object], rounds: int = 50) -> float:
    """Return the median time of a call, on a GPU between events. Queued host time is excluded."""
    for _ in range(3):
        call()
    times = []
    for _ in range(rounds):
        if device.startswith("cuda"):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in "ab")
            start.record()
            call()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e3)
        else:
            begun = time.perf_counter()
            call()
            times.append((time.perf_counter() - begun) * 1e6)
    return round(statistics.median(times), 1)


def in_graph(device: str, call: Callable[[], object], repeats: int = 20) -> float | None:
    """Return the time of a call captured ``repeats`` times in a CUDA graph, None without a GPU."""
    if not device.startswith("cuda"):
        return None
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            call()
    return round(microseconds(device, graph.replay) / repeats, 2)


def usable(device: str) -> None:
    """Exit with a line and status 2 if the device is not available."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        sys.stderr.write(f"{sys.argv[0]}: --device {device}: {str(error).splitlines()[0]}\n")
        raise SystemExit(2) from None


def record(path: Path | None, document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=1) + "\n"
    if path is None:
        print(text, end="")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    print(f"recorded in {path}")
