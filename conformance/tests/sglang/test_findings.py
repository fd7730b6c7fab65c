"""The scripts of `docs/findings/scripts` reproduce their findings on their releases, with SGLang
alone. On fixed releases they reproduce nothing. `test_builds.py` replays the traces."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import finished
from tests.sglang.conftest import SCRIPTS, Run

pytestmark = pytest.mark.sglang

NOT_FINDINGS = {"__init__", "harness", "rounds", "stubs"}
OLD, NEW = "0.5.10.post1", "0.5.23"

SHOWS = {
    "two-first-turns": NEW,
    "stub-clears-inflight": NEW,
    "queued-stub-aborted": NEW,
    "retract-finishes": NEW,
    "retract-abort": NEW,
    "idle-session-pins": NEW,
    "own-row-waits": NEW,
    "preemptor-without-row": NEW,
    "refused-turn-preempted": NEW,
    "never-admitted": NEW,
    "swa-branch-uncached": NEW,
    "abort-waits": NEW,
    "retracted-abort-waits": NEW,
    "out-of-memory": NEW,
    "page-16-waits": NEW,
    "swa-budget-waits": NEW,
    "refused-token": NEW,
    "one-token-history": NEW,
    "replace-all-crash": NEW,
    "branch-of-aborted": NEW,
    "double-count": OLD,
    "hidden-leak": OLD,
    "retract-tail": OLD,
    "two-in-flight": OLD,
    "doomed-turn": OLD,
    "abort-running": OLD,
    "close-in-turn": OLD,
    "draft-tail": OLD,
    "queued-abort": "0.5.18",
    "preempted-lost": "0.5.18",
    "stub-takes-slot": "0.5.18",
    "finish-unwritten": NEW,
    "rows-too-narrow": NEW,
    "empty-first-turn": OLD,
    "swa-deferred-free": "0.5.18",
    "swa-locked-full": "0.5.12",
    "swa-chunked-prompt": "0.5.18",
    "parked-not-counted": "0.5.18",
    "idle-slot-row": OLD,
    "page-16-window": OLD,
}
"""Release that reproduces the finding."""

FIXED = {
    "double-count": NEW,
    "retract-tail": NEW,
    "two-in-flight": NEW,
    "doomed-turn": NEW,
    "abort-running": NEW,
    "close-in-turn": NEW,
    "queued-abort": NEW,
    "preempted-lost": NEW,
    "stub-takes-slot": NEW,
    "finish-unwritten": "0.5.18",
    "empty-first-turn": NEW,
    "swa-deferred-free": NEW,
    "swa-chunked-prompt": NEW,
    "parked-not-counted": NEW,
    "idle-slot-row": NEW,
    "page-16-window": NEW,
    "retract-finishes": OLD,
    "own-row-waits": OLD,
    "swa-budget-waits": OLD,
    "never-admitted": OLD,
    "swa-branch-uncached": OLD,
}
"""A release on which the same script reproduces nothing."""


def test_every_script_is_run() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.py")} - NOT_FINDINGS == set(SHOWS)


@pytest.mark.parametrize(("name", "release"), SHOWS.items())
def test_a_script_shows_its_finding(name: str, release: str, run: Run) -> None:
    done = run(SCRIPTS / f"{name}.py", release)
    assert done.status == 1, done.stdout + done.stderr
    assert done.stdout.startswith(f"SGLang {release}\n")
    assert "\nBUG: " in done.stdout


@pytest.mark.parametrize(("name", "release"), FIXED.items())
def test_a_script_shows_nothing_where_the_finding_is_fixed(
    name: str, release: str, run: Run
) -> None:
    done = run(SCRIPTS / f"{name}.py", release)
    assert done.status == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\nnot seen\n")


@pytest.mark.parametrize("release", [OLD, NEW])
def test_a_script_is_a_program(release: str, python_of: Callable[[str], Path]) -> None:
    """The command is the one on its page."""
    name = "double-count" if release == OLD else "retract-finishes"
    command = [python_of(release), SCRIPTS / f"{name}.py"]
    done = finished(command, timeout=300)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith(f"SGLang {release}\n") and "\nBUG: " in done.stdout
