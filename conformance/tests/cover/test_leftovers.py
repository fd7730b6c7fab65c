"""Processes started by tests end with pytest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import leftovers
from tests.processes import Descent

TEST = """
import subprocess, sys, time
from pathlib import Path

CODE = "import os, sys, time; os.fork(); open(f'{sys.argv[1]}/up', 'a').write('+'); time.sleep(600)"

def test_that_leaves_two_programs():
    folder = Path(__file__).parent
    subprocess.Popen([sys.executable, "-c", CODE, folder], start_new_session=True)
    while not (folder / "up").exists() or (folder / "wait").exists():
        time.sleep(0.01)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc here")
@pytest.mark.parametrize("killed", [False, True], ids=["its end", "SIGKILL"])
def test_nothing_outlives_pytest(killed: bool, descent: Descent, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST)
    if killed:
        (tmp_path / "wait").touch()
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        leftovers.__name__,
        "-p",
        "no:cacheprovider",
    ]
    environment = {key: it for key, it in descent.environment.items() if key != leftovers.MARK}
    process = subprocess.Popen([*argv, str(tmp_path / "test_it.py")], env=environment)
    if killed:
        while not (tmp_path / "up").exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    assert process.wait(60) == (-signal.SIGKILL if killed else 0)
    assert descent.outlive(5.0) == {}
