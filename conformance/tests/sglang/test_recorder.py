"""The recorder in a scheduler that runs its own event loop; `make test-sglang`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance.environments.use import for_engine
from slotproof.conformance.logs import judging, report
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.tests.processes import finished

pytestmark = pytest.mark.sglang

LOOP = Path(__file__).parent / "live_loop.py"
RECORDER = Path(__file__).parents[2] / "drivers" / "sglang" / "recorder"


def turn(rid: str, session: str | None, first: int, count: int, new: int) -> Command:
    tokens = list(range(first, first + count))
    return {
        "do": "submit",
        "session": session,
        "rid": rid,
        "tokens": tokens,
        "max_new": new,
        "stop": [],
    }


NOTHING: list[list[Command]] = [[]]
FEED: list[list[Command]] = [
    [{"do": "open", "session": "s1"}],
    [turn("r1", "s1", 1, 11, 4)],
    *NOTHING * 2,
    [turn("p1", None, 1, 9, 3)],
    *NOTHING * 4,
    [turn("r2", "s1", 21, 5, 4)],
    *NOTHING * 6,
    [turn("r3", "s1", 31, 2, 8)],
    *NOTHING * 2,
    [{"do": "abort", "rid": "r3"}],
    *NOTHING * 2,
    [{"do": "close", "session": "s1"}],
    *NOTHING * 2,
]
"""Three turns of a session, the last of them aborted, and a plain request."""


def live(
    release: str,
    folder: Path,
    feed: list[list[Command]],
    loop: str = "event_loop_normal",
    **settings: str,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Run the loop with the recorder on: the log, and how the process ended."""
    python = for_engine(f"sglang=={release}").python
    script: dict[str, Any] = {"config": {"page_size": 4, "context_len": 64}, "feed": feed}
    (folder / "script.json").write_text(json.dumps({**script, "loop": loop}))
    log = folder / "log.jsonl"
    environment = {
        **os.environ,
        "PYTHONPATH": str(RECORDER),
        "SLOTPROOF_RECORD": str(log),
        **settings,
    }
    argv = [str(python), str(LOOP), str(folder / "script.json")]
    done = finished(argv, env=environment, timeout=300)
    return log, done


def test_a_plain_scenario_conforms(tmp_path: Path) -> None:
    log, done = live("0.5.23", tmp_path, FEED)
    assert done.returncode == 0, done.stderr[-2000:]
    verdict = judging.validate(log)
    assert not verdict.violations
    seen = verdict.coverage.transitions
    wanted = "OPEN SUBMIT MATCH INSERT RESTORE EXTEND DECODE SAVE PLAIN-SUBMIT PLAIN-FINISH CLOSE"
    assert {f"T-{name}" for name in wanted.split()} <= set(seen)
    assert verdict.seen["iterations"] == verdict.seen["pages"] == verdict.seen["checker"]
    checked = verdict.coverage.checked
    assert all(checked[f"INV-{name}"] for name in ("OWNER", "HISTORY", "ANSWER", "CHECKER"))


def test_the_double_count_is_in_the_log_of_the_server_that_it_killed(tmp_path: Path) -> None:
    """INV-ONCE.reported, INV-SUM-FULL.reported (22213); 0.5.10's own check ends the server."""
    log, done = live("0.5.10.post1", tmp_path, FEED)
    assert done.returncode != 0 and "AssertionError" in done.stderr
    verdict = judging.validate(log)
    assert {"INV-ONCE.reported", "INV-SUM-FULL.reported"} <= {v.clause for v in verdict.violations}
    assert verdict.line == verdict.lines, "the last iteration is in the log"


def test_less_can_be_recorded(tmp_path: Path) -> None:
    """The state now and then, no pages, no tokens: said, and the events are judged."""
    settings = {
        f"SLOTPROOF_RECORD_{key}": value
        for key, value in {"EVERY": "4", "PAGES": "0", "TOKENS": "0"}.items()
    }
    log, _ = live("0.5.23", tmp_path, FEED, **settings)
    verdict = judging.validate(log)
    assert not verdict.violations
    assert 0 < verdict.seen["state"] < verdict.seen["iterations"] / 2
    missing = report.not_observed(verdict)
    assert {"clients", "state", "pages (free list, tree, rows)"} <= set(missing)
    assert '"tokens"' not in log.read_text() and verdict.coverage.transitions["T-SAVE"] == 2


def test_where_the_recorder_stays_off(tmp_path: Path) -> None:
    """One line, and the server runs: another loop, a file that can't be made, a bad value."""
    for number, (loop, settings, text) in enumerate(
        [
            ("event_loop_overlap", {}, "recorder off: event_loop_overlap is not recorded, only"),
            (
                "event_loop_normal",
                {"SLOTPROOF_RECORD": "/no/such/log"},
                "No such file or directory",
            ),
            ("event_loop_normal", {"SLOTPROOF_RECORD_EVERY": "0"}, "RECORD_EVERY=0 is no whole"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        log, done = live(
            "0.5.23", folder, FEED[:1] if loop == "event_loop_normal" else [], loop, **settings
        )
        lines = [line for line in done.stderr.splitlines() if line.startswith("slotproof: ")]
        assert len(lines) == 1 and text in lines[0]
        assert done.returncode == 0, done.stderr[-2000:]
        assert not log.exists()
