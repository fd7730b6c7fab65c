"""Long runs on a Ray cluster of this machine give the same result, even if a worker is killed.

Without Ray (an extra, ``slotproof[ray]``) these tests are skipped, and pytest's summary says so.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slotproof.engines.base import EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.protocol.config import EngineConfig
from slotproof.reports.trace import Trace
from slotproof.search import cluster as clusters
from slotproof.search.cluster import cluster
from slotproof.search.findings import Finding, Mark
from tests.processes import Descent, finished

MUTANT = "reference:22213-double-count"
NAME = "reference 1 with 22213-double-count"
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="runs on a Ray cluster were NOT tested: there is no ray (pip install '.[ray]')",
)


BLANK = Trace("e", "s", "reference", EngineConfig(), 0, [], [], minimal=False)


class Killing:
    """A task that kills its first worker. The next worker finishes it."""

    def __init__(self, number: int, note: Path | None) -> None:
        self.number, self.note = number, note

    key = "killing"

    def run(self, engine: Any, tell: Any, stop: Any) -> tuple[int, str]:
        tell(Finding(Mark("INV-ONCE.reported", (), "step"), BLANK, self.number))
        if self.note is not None and not self.note.exists():
            self.note.write_text("")
            os.kill(os.getpid(), signal.SIGKILL)
        return self.number, engine.version


class Failing:
    """A task that fails by itself, or ends every worker."""

    def __init__(self, deadly: bool) -> None:
        self.deadly = deadly

    key = "failing"

    def run(self, engine: Any, tell: Any, stop: Any) -> None:
        if self.deadly:
            os._exit(7)
        raise ZeroDivisionError("of its own")


@pytest.fixture(scope="module")
def two() -> Iterator[Any]:
    """Yield two workers. They must find the tasks of this file too."""
    ray = pytest.importorskip("ray")
    module = sys.modules[__name__]
    ray.cloudpickle.register_pickle_by_value(module)
    with cluster("local", EngineSpec(MUTANT, step_timeout=600), 2, NAME) as workers:
        yield workers


@pytest.mark.slow
@needs_ray
def test_a_lost_workers_task_is_run_again(two: Any, tmp_path: Path) -> None:
    told: list[tuple[int, Any]] = []
    done: list[tuple[int, Any]] = []
    tasks = [Killing(0, None), Killing(1, tmp_path / "killed"), Killing(2, None)]
    results = two.map(
        tasks,
        lambda n, what: told.append((n, what)),
        lambda: False,
        lambda *result: done.append(result),
    )
    assert results == [(number, "1 with 22213-double-count") for number in range(3)]
    assert sorted(done) == [(number, results[number]) for number in range(3)]
    assert {(number, what.first) for number, what in told} == {(0, 0), (1, 1), (2, 2)}, "no less"


@pytest.mark.slow
@needs_ray
def test_what_a_task_raises_is_raised_and_who_kills_all_is_told(two: Any) -> None:
    with pytest.raises(ZeroDivisionError, match="of its own"):
        two.map([Failing(deadly=False)], lambda *_: None, lambda: False)
    with pytest.raises(EngineUnusable, match="a task lost its worker 3 times") as raised:
        two.map([Failing(deadly=True)], lambda *_: None, lambda: False)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
@needs_ray
def test_a_run_with_a_worker_killed_finds_the_same(descent: Descent, tmp_path: Path) -> None:
    """And nothing is left of the cluster."""
    plan = ["--engine", MUTANT, "--config", "p1", "--config", "p4", "--steps", "12"]
    argv = [sys.executable, "-m", "slotproof.cli.app", "run", "--all", *plan]
    argv += ["--examples", "60", "--step-timeout", "600", "--out"]
    assert finished([*argv, tmp_path / "here"]).returncode == 1
    process = subprocess.Popen(
        [*argv, str(tmp_path / "ray"), "--ray", "local", "--jobs", "2"],
        env=descent.environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        killed = kill_one(process, descent, tmp_path / "ray")
        _, err = process.communicate(timeout=600)
    finally:
        process.kill()
        process.communicate()
    assert killed and process.returncode == 1, err
    local, remote = (sorted((tmp_path / name).glob("*.itf.json")) for name in ("here", "ray"))
    assert [path.name for path in local] == [path.name for path in remote] != []
    assert [path.read_bytes() for path in local] == [path.read_bytes() for path in remote]
    assert descent.outlive(20.0) == {}


def kill_one(process: subprocess.Popen[str], descent: Descent, folder: Path) -> bool:
    """Kill a worker after the first finished task. Return True if there was a worker."""
    while process.poll() is None:
        time.sleep(0.02)
        if any(b'"kind":"task"' in journal.read_bytes() for journal in folder.glob("*.jsonl")):
            workers = [pid for pid, said in descent.alive().items() if "ray::_work" in said]
            for pid in workers[:1]:
                os.kill(pid, signal.SIGKILL)
                return True
    return False


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("nowhere", "use local, auto, HOST:PORT"),
        ("127.0.0.1:1", "no cluster answers: Connection refused"),
        ("ray://127.0.0.1:1", "no cluster answers: Connection refused"),
        ("127.0.0.1:99999", "no cluster answers"),
    ],
)
def test_a_cluster_that_is_not_there_is_one_line(
    address: str, says: str, tmp_path: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "_imported", lambda: None)
    argv = ["run", "--all", "--examples", "5", "--out", str(tmp_path), "--ray", address]
    assert says in cli.wrong(argv)


def test_no_ray_is_one_line(tmp_path: Path, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", None)
    monkeypatch.setitem(sys.modules, "ray", None)
    argv = ["run", "--all", "--examples", "5", "--out", str(tmp_path), "--ray", "local"]
    assert "pip install 'slotproof[ray]'" in cli.wrong(argv)
