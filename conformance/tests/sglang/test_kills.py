"""A real driver forks templates, examples and replays. All end with slotproof."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import Descent

pytestmark = [
    pytest.mark.sglang,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_nothing_is_left_of_a_killed_run(
    descent: Descent, number: signal.Signals, tmp_path: Path
) -> None:
    """Not even a template building a scheduler, or a process at full load."""
    argv = [sys.executable, "-m", "slotproof.cli.app", "run"]
    argv += ["--engine", "sglang==0.5.23", "--step-timeout", "60", "--out", str(tmp_path)]
    process = subprocess.Popen(
        argv, env=descent.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        for _ in range(1200):
            if len(descent.alive()) >= 5:  # slotproof, watcher, driver, template, replays
                break
            time.sleep(0.1)
        assert process.poll() is None
        process.send_signal(number)
        assert descent.outlive(5.0) == {}
    finally:
        descent.end()
        said, _ = process.communicate()
    assert process.returncode == (3 if number == signal.SIGTERM else -signal.SIGKILL), said
