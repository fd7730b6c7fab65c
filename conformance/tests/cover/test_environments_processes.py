"""Processes that make environments at the same time, or die meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from slotproof.environments.store import Store
from tests.processes import Descent
from tests.quality import environments


@pytest.mark.slow
def test_two_at_once_share_their_packages(descent: Descent, tmp_path: Path) -> None:
    """The second waits for the first."""
    folder = tmp_path / "envs"
    descent.environment.update(environments.wheels(tmp_path / "wheels"), SLOTPROOF_ENVS=str(folder))
    argv = [sys.executable, environments.__file__, "env", "create"]
    both = [
        subprocess.Popen([*argv, f"tiny=={release}"], env=descent.environment)
        for release in ("1.0", "1.1")
    ]
    assert [process.wait() for process in both] == [0, 0]
    assert {entry.shared for entry in Store(folder).entries() if entry.release} == {
        entry.name for entry in Store(folder).entries() if not entry.release
    }


SCRIPT = """
import os, sys
from pathlib import Path
from slotproof.environments.store import Store
from slotproof.support.children import run
store, told = Store(Path(sys.argv[1])), os.dup(1)
with store.changing():
    code = f"import os, time; os.fork(); os.write({told}, b'installing\\\\n'); time.sleep(600)"
    run([sys.executable, "-c", code], pass_fds=[*store.lock, told])
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_one_takes_its_uv_along(
    descent: Descent, tmp_path: Path, number: signal.Signals
) -> None:
    """Programs started by uv end as well, and the next process gets the lock."""
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    process = subprocess.Popen(
        argv, env=descent.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None and process.stdout.readline() == "installing\n"
    process.send_signal(number)
    process.wait()
    process.stdout.close()
    with Store(tmp_path).changing():
        assert descent.outlive(5.0) == {}


HOLDER = """
import os, signal, subprocess, sys
from pathlib import Path
from slotproof.environments.store import Store
store = Store(Path(sys.argv[1]))
with store.changing():
    code = "import sys; print('installing', flush=True); sys.stdin.read()"
    subprocess.Popen([sys.executable, "-c", code], pass_fds=store.lock)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_one_started_holds_the_lock(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A surviving program must not write while the next process makes an environment."""
    argv = [sys.executable, "-c", HOLDER, str(tmp_path)]
    killed = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert killed.stdin is not None and killed.stdout is not None
    assert killed.stdout.readline() == "installing\n"
    assert killed.wait() == -signal.SIGKILL
    threading.Timer(0.5, killed.communicate).start()
    with Store(tmp_path).changing():
        assert "waiting for another slotproof" in capfd.readouterr().err
