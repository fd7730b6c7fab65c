"""A build's own front end under several clients; `make test-sglang`."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE

import pytest

from slotproof.environments.families import FAMILIES
from slotproof.frontend import running
from slotproof.frontend.configs import CONFIGS
from slotproof.frontend.program import Build
from slotproof.frontend.running import Outcome, Plan
from slotproof.logs import judging
from slotproof.search import baseline
from slotproof.support.children import Child
from tests.processes import Descent

pytestmark = pytest.mark.sglang

ROOT = Path(__file__).parents[3]
DRIVERS = ROOT / "conformance" / "slotproof" / "drivers"
RELEASE = "0.5.23"
KNOWN = ROOT / "docs" / "findings" / f"sglang-{RELEASE}.baseline.json"

Python = Callable[[str], Path]


def build_of(python: Path, driver: Path) -> Build:
    front_end = FAMILIES["sglang"].front_end
    assert front_end is not None
    return Build(python, driver, front_end, ("all",))


def played(build: Build, out: Path, rounds: int, config: str) -> Outcome:
    groups = baseline.load(KNOWN).of(f"sglang {RELEASE}")
    known = frozenset(each for group in groups for each in group.seen_as).__contains__
    plan = Plan(build, {config: CONFIGS[config]}, 8, 3600, 0, known, 0, rounds)
    return running.run(plan, out, lambda _: None)


def test_nothing_new_is_found(python_of: Python, tmp_path: Path) -> None:
    """Known bugs are mended; both judges looked."""
    build = build_of(python_of(RELEASE), DRIVERS / "sglang")
    outcome = played(build, tmp_path, 3, "p4-overlap")
    assert [each.sentence for each in outcome.found] == []
    assert outcome.rounds == 3 and outcome.version == RELEASE
    assert outcome.counts["length"] > 50 and outcome.counts["left"]
    assert {"T-RESTORE", "T-SAVE", "T-CLOSE"} <= set(outcome.transitions)


MIXED = """Every request is one of the first session's.
--- a/sglang/srt/session/session_controller.py
+++ b/sglang/srt/session/session_controller.py
@@ -1,2 +1,2 @@
     def get(self, session_id: str) -> Optional[Session]:
-        return self.sessions.get(session_id)
+        return next(iter(self.sessions.values()), None)
"""
MISROUTED = """A client gets the tokens of the request before its own in the batch.
--- a/sglang/srt/managers/tokenizer_manager.py
+++ b/sglang/srt/managers/tokenizer_manager.py
@@ -1,4 +1,4 @@
             elif isinstance(recv_obj, BatchTokenIDOutput):
                 is_stream = getattr(state.obj, "stream", False)
                 incremental = is_stream and self.incremental_streaming_output
-                delta_output_ids = list(recv_obj.output_ids[i])
+                delta_output_ids = list(recv_obj.output_ids[i - 1])
"""


def broken(diff: str, folder: Path, python: Path) -> Build:
    """The driver with one more thing that it may change in the build, which is no mend."""
    for each in ("sglang", "common"):
        shutil.copytree(DRIVERS / each, folder / each)
    (folder / "sglang" / "mends" / "break-it.diff").write_text(diff)
    return build_of(python, folder / "sglang")


@pytest.mark.parametrize(
    ("diff", "log"), [(MIXED, True), (MISROUTED, False)], ids=["mixed", "misrouted"]
)
def test_a_broken_build_is_found(diff: str, log: bool, python_of: Python, tmp_path: Path) -> None:
    """Sessions that are mixed up in the scheduler, by both judges; answers that go astray in the
    front end, by what clients hear alone. What is kept is judged again as it was."""
    build = broken(diff, tmp_path / "drivers", python_of(RELEASE))
    outcome = played(build, tmp_path / "out", 1, "p1")
    (found,) = outcome.found
    seen = {found.id, *found.also}
    assert any(each.startswith("CLIENT-") for each in seen)
    assert any(each.startswith("INV-") for each in seen) == log
    verdict = judging.validate(found.log)
    assert bool(verdict.violations) == log
    if log:
        assert any(each.startswith(verdict.violations[0].clause) for each in seen)


def shared() -> set[Path]:
    """Shared memory that has a name."""
    place = Path("/dev/shm")
    return set(place.iterdir()) if place.is_dir() else set()


def members(groups: set[int]) -> list[str]:
    """Processes of these groups. SGLang's write over their environment, so no mark is in it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it went away
            words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if words and os.getpgid(int(folder.name)) in groups:  # else it waits to be collected
                found.append(words.strip())
    return found


def test_nothing_is_left_after_an_interrupt(descent: Descent, tmp_path: Path) -> None:
    """While clients play: neither processes nor sockets, shared memory or temporary files."""
    there = shared()
    argv = [sys.executable, "-m", "slotproof.cli.app", "frontend", "--mend", "all"]
    argv += ["--engine", f"sglang=={RELEASE}", "--seconds", "3600", "--out", str(tmp_path / "out")]
    with tempfile.TemporaryDirectory(prefix="s") as folder:  # names of sockets are short
        environment = {**descent.environment, "TMPDIR": folder}
        child = Child([*argv, "--baseline", str(KNOWN)], stdout=PIPE, stderr=PIPE, env=environment)
        process = child.process
        try:
            for _ in range(3000):
                if list(Path(folder).glob("*/log.jsonl.*")):  # it records
                    break
                assert process.poll() is None
                time.sleep(0.1)
            time.sleep(3)
            assert any(each.is_socket() for each in Path(folder).rglob("*"))
            groups = {os.getpgid(each) for each in descent.alive()} - {os.getpgrp()}
            there_are = " ".join(members(groups))
            assert "sglang::scheduler" in there_are and "sglang::detokenizer" in there_are
            own = os.getpgid(process.pid)
            process.send_signal(signal.SIGINT)
            assert descent.outlive(10.0) == {}
            assert members(groups - {own}) == []
            assert len(members({own})) == 1  # who watches over it for this test
        finally:
            descent.end()
            out, err = process.communicate()
            child.kill()
        assert process.returncode == 3, (out, err)
        assert b"inconclusive: interrupted" in out
        assert list(Path(folder).iterdir()) == []
    assert shared() - there == set()
