"""Environments with the real venv and pip, of wheels made here; and real processes that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slotproof.engines.releases import starts
from slotproof.environments.families import EnvironmentProblem
from slotproof.environments.making import Maker
from slotproof.environments.processes import run
from slotproof.environments.store import Entry, Store
from tests.processes import Descent
from tests.quality.environments import TINY, wheels


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    """pip sees a folder of wheels, and no network."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in wheels(tmp_path / "wheels").items():
        monkeypatch.setenv(name, value)
    return Maker(TINY, Store(tmp_path / "envs"), starts, lambda _: None)


@pytest.mark.slow
def test_two_at_once_share_one_base(maker: Maker) -> None:
    """Each environment sees its own release and the base; pip's own words for a wrong one."""
    made: dict[str, Entry] = {}
    told: list[str] = []

    def make(release: str) -> None:
        made[release] = replace(maker, tell=told.append).ensure(release)

    threads = [threading.Thread(target=make, args=(each,)) for each in ("1.0", "1.1")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert any("waiting for another slotproof" in each for each in told)
    assert len([each for each in maker.store.entries() if not each.release]) == 1
    for release, entry in made.items():
        code = "import tiny, torch; print(tiny.release, tiny.__file__, torch.__file__)"
        argv = [str(entry.python), "-c", code]
        out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
        assert out[0] == release
        assert Path(out[1]).is_relative_to(entry.path)
        assert Path(out[2]).is_relative_to(maker.store.folder / entry.base)
    with pytest.raises(EnvironmentProblem, match=r"there is no tiny 1\.05 .*near it: 1\.0, 1\.1"):
        maker.ensure("1.05")


SCRIPT = """
import sys
from pathlib import Path
from slotproof.environments.processes import run
from slotproof.environments.store import Store
store = Store(Path(sys.argv[1]))
with store.changing(print):
    code = "import os, time; os.fork(); os.write(1, b'installing\\\\n'); time.sleep(600)"
    run([sys.executable, "-c", code], store.lock, lambda line: print(line, flush=True))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_one_takes_its_pip_along(
    descent: Descent, tmp_path: Path, number: signal.Signals
) -> None:
    """Programs that pip starts end as well, and the next process gets the lock."""
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    process = subprocess.Popen(
        argv, env=descent.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None and process.stdout.readline() == "installing\n"
    process.send_signal(number)
    process.wait()
    process.stdout.close()
    with Store(tmp_path).changing(lambda _: None):
        assert descent.outlive(5.0) == {}


HOLDER = """
import os, signal, subprocess, sys
from pathlib import Path
from slotproof.environments.store import Store
store = Store(Path(sys.argv[1]))
with store.changing(print):
    code = "import sys; print('installing', flush=True); sys.stdin.read()"
    subprocess.Popen([sys.executable, "-c", code], pass_fds=store.lock)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_one_started_holds_the_lock(tmp_path: Path) -> None:
    """Were it there still, what it writes must not meet what the next one makes."""
    argv = [sys.executable, "-c", HOLDER, str(tmp_path)]
    killed = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert killed.stdin is not None and killed.stdout is not None
    assert killed.stdout.readline() == "installing\n"
    assert killed.wait() == -signal.SIGKILL
    told: list[str] = []

    def waiting(text: str) -> None:
        told.append(text)
        killed.communicate()

    with Store(tmp_path).changing(waiting):
        assert told and told[0].startswith("waiting for another slotproof")


def test_output_without_end_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a line of pip's nor its standard error; the beginning and the end are there."""
    monkeypatch.setattr("slotproof.support.bounds.INSTALLER_FIRST", 1000)
    monkeypatch.setattr("slotproof.support.bounds.INSTALLER_LAST", 1000)
    code = "import os; os.write(1, b'a' + b'x' * 999_998 + b'b'); os.write(2, b'c' * 999_999)"
    told: list[str] = []
    done = run([sys.executable, "-c", code], [], told.append)
    assert done.status == 0 and max(map(len, told)) == 1000
    assert done.text.startswith("ax") and "xb" in done.text and done.text.endswith("ccc")
    assert len(done.text) < 4100


def test_an_interrupted_program_does_not_go_on(tmp_path: Path) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    late = tmp_path / "late"
    code = f"print('x', flush=True); import time; time.sleep(1); open({str(late)!r}, 'w')"
    with pytest.raises(KeyboardInterrupt):
        run([sys.executable, "-c", code], [], interrupt)
    time.sleep(1.2)
    assert not late.exists()


def test_a_program_that_is_not_there() -> None:
    done = run(["/no/such/program"], [], print)
    assert done.status == 127 and "No such file" in done.text
