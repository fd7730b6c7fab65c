"""Kills at any moment: nothing lost, nothing half-written, no process left.

``make test-all`` makes 27 kills per signal, three per phase. Otherwise one per phase.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from slotproof.environments.store import WORK
from slotproof.reports.trace import load_trace
from slotproof.search.journal import SUFFIX, read
from tests.processes import Descent, finished
from tests.quality import environments

pytestmark = [
    pytest.mark.quality,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]

KILLS = int(os.environ.get("SLOTPROOF_KILLS", "1"))
SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
SLOTPROOF = [sys.executable, "-m", "slotproof.cli.app"]
STUCK = Path(__file__).with_name("stuck.py")
LEAK = "cmd:" + shlex.join(
    [sys.executable, "-m", "slotproof.engines.served", "reference:22213-double-count"]
)


@dataclass(frozen=True)
class Phase:
    """A command, a test that it has reached a phase, and the phase's shortest length in seconds."""

    arguments: Callable[[Path], list[str]]
    reached: Callable[[Path, Descent], bool]
    lasts: float
    statuses: set[int] = field(default_factory=lambda: {3})
    """Exit statuses after SIGTERM and SIGINT. 1 if a finding may exist already."""


def stuck(place: str, *more: str) -> Phase:
    def arguments(folder: Path) -> list[str]:
        engine = "cmd:" + shlex.join([sys.executable, str(STUCK), place, str(folder)])
        long = ["--step-timeout", "60", "--out", str(folder / "out")]
        return ["run", "--engine", engine, *long, *more]

    return Phase(arguments, lambda folder, _: (folder / "reached").exists(), 1.0)


def traces(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.itf.json"))


def into(*arguments: str) -> Callable[[Path], list[str]]:
    return lambda folder: [*arguments, "--out", str(folder / "out")]


PHASES = {
    "hello": stuck("hello"),
    "hello-jobs": stuck("hello-again", "--all", "--jobs", "2"),
    "reset": stuck("reset"),
    "step": stuck("step"),
    "shrink": Phase(
        into(
            "run",
            "--engine",
            LEAK,
            "--config",
            "p1-draft",
            "--examples",
            "400",
            "--steps",
            "80",
            "--all",
        ),
        lambda folder, _: bool(traces(folder)),
        0.5,
        {1},
    ),
    "shrink-jobs": Phase(
        into("run", "--engine", LEAK, "--examples", "1400", "--all", "--jobs", "2"),
        lambda folder, _: bool(traces(folder)),
        1.0,
        {1},
    ),
    "matrix": Phase(
        into("matrix", f"a={LEAK}", "b=reference", "--config", "p1-draft", "--examples", "400"),
        lambda folder, _: bool(traces(folder)),
        2.0,
    ),
}


def until(reached: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    for _ in range(6000):
        if reached():
            return
        if process.poll() is not None:
            pytest.fail(f"ended early, status {process.returncode}: {process.communicate()}")
        time.sleep(0.01)
    pytest.fail("the command did not reach the phase in a minute")


def killed(
    argv: list[str],
    descent: Descent,
    number: signal.Signals,
    reached: Callable[[], bool],
    wait: float,
    patience: float = 5.0,
) -> tuple[int, str] | None:
    """Start a command and kill it in the phase. Return its status and output.

    Returns None if the command had ended, or had printed everything. No process may be left after
    ``patience`` seconds.
    """
    with tempfile.TemporaryFile() as said:  # not a pipe: its size shows the output so far
        process = subprocess.Popen(
            argv, env=descent.environment, text=True, stdout=said, stderr=subprocess.PIPE
        )
        try:
            until(reached, process)
            time.sleep(wait)
            before = os.fstat(said.fileno()).st_size
            late = process.poll() is not None
            if not late:
                process.send_signal(number)
                left = descent.outlive(patience)
                assert left == {}, f"{patience:g} s after {number.name}"
        finally:
            process.kill()
            _, err = process.communicate()
        said.seek(0)
        out = said.read()
    assert b"Traceback" not in out and "Traceback" not in err, err
    if late or (process.returncode == 0 and len(out) == before):
        return None
    return process.returncode, out.decode() + err


def in_time(kill: Callable[[float], tuple[int, str] | None], wait: float) -> tuple[int, str]:
    """Kill the command after ``wait`` seconds in the phase, or sooner on a fast machine."""
    for _ in range(8):
        if (outcome := kill(wait)) is not None:
            return outcome
        wait /= 2
    pytest.fail("the command always ended before the kill")


def in_phase(
    phase: Phase, folder: Path, descent: Descent, number: signal.Signals, wait: float
) -> tuple[int, str] | None:
    """Start the phase's command in an empty folder, and kill it in the phase."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    argv = [*SLOTPROOF, *phase.arguments(folder)]
    return killed(argv, descent, number, partial(phase.reached, folder, descent), wait)


def whole(folder: Path, number: signal.Signals) -> None:
    """Check that every file can be read. An unfinished file does not have its final name yet."""
    for path in (item for item in folder.rglob("*") if item.is_file()):
        if path.name.endswith(".itf.json"):
            load_trace(path)
        elif path.name.endswith(SUFFIX):
            assert read(path)[0] or number == signal.SIGKILL, "a journal without a head"
        elif path.suffix == ".json":
            json.loads(path.read_text())
        elif number != signal.SIGKILL:
            assert path.suffix in (".md", ".html", ".svg"), f"{path} is left"


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("name", PHASES)
def test_a_run_that_is_killed(
    name: str, number: signal.Signals, descent: Descent, tmp_path: Path
) -> None:
    phase, draw = PHASES[name], random.Random(f"{name} {number}")
    for turn in range(KILLS):
        folder = tmp_path / str(turn)
        kill = partial(in_phase, phase, folder, descent, number)
        status, said = in_time(kill, draw.uniform(0.0, phase.lasts))
        if number == signal.SIGKILL:
            assert status == -signal.SIGKILL
        else:
            assert status in phase.statuses, said
        if "shrink" in name:
            assert traces(folder), "a written trace is lost"
        whole(folder / "out", number)
        again = finished(
            [*SLOTPROOF, "run", "--examples", "1", "--config", "p1", "--out", folder / "out"]
        )
        assert again.returncode == 3, again.stderr


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_an_environment_whose_making_is_killed(
    number: signal.Signals, descent: Descent, tmp_path: Path
) -> None:
    """Kill after kill in one folder. A half-made environment is never listed as made."""
    folder, draw = tmp_path / "envs", random.Random(str(number))
    pip = environments.wheels(tmp_path / "wheels")
    descent.environment.update(pip, SLOTPROOF_ENVS=str(folder))
    env = [sys.executable, environments.__file__, "env"]
    create = [*env, "create", "tiny==1.0", "--again"]

    def kill(wait: float) -> tuple[int, str] | None:
        shutil.rmtree(folder / WORK, ignore_errors=True)
        return killed(create, descent, number, (folder / WORK).exists, wait)

    for _ in range(KILLS):
        status, said = in_time(kill, draw.uniform(0.0, 4.0))
        assert status == (-signal.SIGKILL if number == signal.SIGKILL else 3), said
        listed = finished([*env, "list", "--json"], env=descent.environment)
        for environment in json.loads(listed.stdout)["environments"]:
            assert environment["state"].startswith("made "), environment
            if environment["release"]:
                assert finished([environment["python"], "-c", "import tiny, torch"]).returncode == 0
    made = finished(create, env=descent.environment)
    assert made.returncode == 0, made.stderr
    names = {path.name for path in folder.iterdir()}
    assert {name for name in names if name.startswith(".")} == {".lock"}
    assert len(names) == 3, "shared packages, the release, the lock"


RUN_KILLS = int(os.environ.get("SLOTPROOF_CAMPAIGN_KILLS", "3"))
"""``make test-all`` makes 20 kills."""
LONG_RUN = (
    *("run", "--all", "--engine", "reference:22213-double-count+22862-no-free-tail"),
    *("--config", "p1", "--config", "p4-draft", "--steps", "15"),
    *("--examples", str(40 * RUN_KILLS), "--step-timeout", "600"),
)


def test_a_run_that_is_killed_and_goes_on_ends_with_the_same(
    descent: Descent, tmp_path: Path
) -> None:
    """However often the run is killed and resumed, it ends with the same findings."""
    draw = random.Random(0)
    whole = finished([*SLOTPROOF, *LONG_RUN, "--out", tmp_path / "whole"], cwd=tmp_path)
    assert whole.returncode == 1, whole.stderr
    argv = [*SLOTPROOF, *LONG_RUN, "--out", str(tmp_path / "killed"), "--jobs", "2"]

    def lines(folder: str) -> int:
        journals = (tmp_path / folder).glob("*.jsonl")
        return sum(journal.read_bytes().count(b"\n") for journal in journals)

    # By its own lines, not by the clock: a quick machine must not end between two kills.
    share = lines("whole") / (RUN_KILLS + 2)
    for kill in range(1, RUN_KILLS + 1):
        enough = max(lines("killed") + 1, int(kill * share))

        def more(enough: int = enough) -> bool:
            return lines("killed") >= enough

        wait = draw.uniform(0.0, 0.1)
        assert killed(argv, descent, signal.SIGKILL, more, wait, 60.0), "the run ended early"
    again = finished(argv, cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    both = [{path.name: path for path in traces(tmp_path / name)} for name in ("whole", "killed")]
    assert both[0].keys() == both[1].keys() and both[0]
    for name, path in both[0].items():
        assert load_trace(path) == load_trace(both[1][name])
