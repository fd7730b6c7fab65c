"""Environments with the real venv and pip, of wheels made here; and real processes that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from slotproof.conformance.environments.making import Maker
from slotproof.conformance.environments.processes import run
from slotproof.conformance.environments.recipes import EnvironmentProblem, Recipe
from slotproof.conformance.environments.store import Entry, Store

TINY = Recipe(
    engine="tiny",
    package="tiny",
    requirements=("torch==2",),
    from_cpu_index="torch",
    cpu_index="https://cpu.invalid/simple",
    pythons=((sys.version_info.major, sys.version_info.minor),),
    base_mb=1,
    release_mb=1,
    driver=Path(__file__).parent / "drivers" / "toy.py",
)


def wheel(folder: Path, name: str, version: str, code: str) -> None:
    info = f"{name}-{version}.dist-info"
    tags = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}/__init__.py", code)
        file.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        file.writestr(f"{info}/WHEEL", tags)
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    """pip sees a folder of wheels, and no network."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel(wheels, "torch", "2", "class version:\n    cuda = hip = None\n")
    for release in ("1.0", "1.1"):
        wheel(wheels, "tiny", release, f"import torch\nrelease = {release!r}\n")
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return Maker(TINY, Store(tmp_path / "envs"), lambda _: None)


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
from slotproof.conformance.environments.processes import run
from slotproof.conformance.environments.store import Store
with Store(Path(sys.argv[1])).changing(print) as lock:
    code = "import time; print('installing', flush=True); time.sleep(3)"
    run([sys.executable, "-c", code], lock, lambda line: print(line, flush=True))
"""


def test_a_killed_one_holds_the_lock_as_long_as_its_pip(tmp_path: Path) -> None:
    """What pip still writes must not meet what the next one makes."""
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "installing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    told: list[str] = []
    with Store(tmp_path).changing(told.append):
        assert told and told[0].startswith("waiting for another slotproof")
    process.stdout.close()


def test_an_interrupted_program_does_not_go_on(tmp_path: Path) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    late = tmp_path / "late"
    code = f"print('x', flush=True); import time; time.sleep(1); open({str(late)!r}, 'w')"
    with pytest.raises(KeyboardInterrupt), Store(tmp_path).changing(print) as lock:
        run([sys.executable, "-c", code], lock, interrupt)
    time.sleep(1.2)
    assert not late.exists()


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with Store(tmp_path).changing(print) as lock:
        done = run(["/no/such/program"], lock, print)
    assert done.status == 127 and "No such file" in done.text
