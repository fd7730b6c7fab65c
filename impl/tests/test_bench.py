"""Benchmarks run on small inputs, and their results name their origin."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

BENCH = Path(__file__).parents[2] / "bench"


def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(BENCH / arguments[0]), *arguments[1:]]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "key", "count"),
    [
        (["audit.py", "--tokens", "640", "--kernels", "torch"], "sizes", 3),
        (["memory.py", "--page-size", "16"], "batches", 3),
        (["driver.py", "--engine", "reference", "--examples", "2"], "engines", 1),
    ],
)
def test_a_benchmark_says_what_it_measured_and_where(
    arguments: list[str], key: str, count: int
) -> None:
    done = program(*arguments)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert len(document[key]) == count
    assert {"date", "command", "device", "torch", "python"} <= set(document)


def test_an_engine_that_does_not_start_is_one_line() -> None:
    done = program("driver.py", "--engine", "lmdeploy", "--examples", "1")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "unknown engine 'lmdeploy'" in done.stderr


@pytest.mark.parametrize("name", ["audit.py", "memory.py", "lockstep.py"])
def test_no_gpu_is_one_line(name: str) -> None:
    done = program(name, "--device", "cuda:99")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1 and "--device cuda:99" in done.stderr
