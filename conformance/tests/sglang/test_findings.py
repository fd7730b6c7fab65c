"""The scripts of `docs/findings/scripts`: each shows its finding on the release it is of, with
SGLang alone, and none where the finding is mended. Traces are replayed in `test_builds.py`."""

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.sglang

SCRIPTS = Path(__file__).parents[3] / "docs" / "findings" / "scripts"
NOT_FINDINGS = {"harness", "stubs"}
OLD, NEW = "0.5.10.post1", "0.5.23"

SHOWS = {
    "two-first-turns": NEW,
    "stub-clears-inflight": NEW,
    "queued-stub-aborted": NEW,
    "retract-finishes": NEW,
    "retract-abort": NEW,
    "idle-session-pins": NEW,
    "out-of-memory": NEW,
    "page-16-waits": NEW,
    "one-token-history": NEW,
    "double-count": OLD,
    "hidden-leak": OLD,
    "retract-tail": OLD,
    "two-in-flight": OLD,
    "doomed-turn": OLD,
    "abort-running": OLD,
    "close-in-turn": OLD,
    "draft-tail": OLD,
    "queued-abort": "0.5.18",
    "empty-first-turn": OLD,
    "swa-deferred-free": "0.5.18",
    "swa-locked-full": "0.5.12",
}
"""The release that each finding is shown on."""

MENDED = {
    "double-count": NEW,
    "retract-tail": NEW,
    "two-in-flight": NEW,
    "doomed-turn": NEW,
    "abort-running": NEW,
    "close-in-turn": NEW,
    "queued-abort": NEW,
    "empty-first-turn": NEW,
    "swa-deferred-free": NEW,
    "retract-finishes": OLD,
}
"""A release where the same script shows nothing."""


def python_of(release: str) -> Path:
    """The interpreter of the release's environment; the test is skipped where there is none."""
    path = Path(os.environ.get("SLOTPROOF_SGLANG", ".envs")) / f"sglang-{release}/bin/python"
    if not path.exists():
        pytest.skip(f"there is no {path}: make sglang-env V={release}")
    return path.absolute()


def run(name: str, release: str) -> subprocess.CompletedProcess[str]:
    command = [python_of(release), SCRIPTS / f"{name}.py"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_every_script_is_run() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.py")} - NOT_FINDINGS == set(SHOWS)


@pytest.mark.parametrize("name", SHOWS)
def test_a_script_shows_its_finding(name: str) -> None:
    done = run(name, SHOWS[name])
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith(f"SGLang {SHOWS[name]}\n")
    assert "\nBUG: " in done.stdout


@pytest.mark.parametrize("name", MENDED)
def test_a_script_shows_nothing_where_the_finding_is_mended(name: str) -> None:
    done = run(name, MENDED[name])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\nnot seen\n")
