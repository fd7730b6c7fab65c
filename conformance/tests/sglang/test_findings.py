"""The scripts of `docs/findings/scripts`: each shows its finding on the release it is of, with
SGLang alone, and none where the finding is mended. Traces are replayed in `test_builds.py`."""

import subprocess
from pathlib import Path

import pytest

from slotproof.conformance.environments.use import for_engine

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
    "swa-chunked-prompt": "0.5.18",
    "idle-slot-row": OLD,
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
    "swa-chunked-prompt": NEW,
    "idle-slot-row": NEW,
    "retract-finishes": OLD,
}
"""A release where the same script shows nothing."""


def run(name: str, release: str) -> subprocess.CompletedProcess[str]:
    command = [for_engine(f"sglang=={release}").python, SCRIPTS / f"{name}.py"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_every_script_is_run() -> None:
    assert {path.stem for path in SCRIPTS.glob("*.py")} - NOT_FINDINGS == set(SHOWS)


@pytest.mark.parametrize(("name", "release"), SHOWS.items())
def test_a_script_shows_its_finding(name: str, release: str) -> None:
    done = run(name, release)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith(f"SGLang {release}\n")
    assert "\nBUG: " in done.stdout


@pytest.mark.parametrize(("name", "release"), MENDED.items())
def test_a_script_shows_nothing_where_the_finding_is_mended(name: str, release: str) -> None:
    done = run(name, release)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("\nnot seen\n")
