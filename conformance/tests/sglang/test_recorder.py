"""The recorder in a scheduler with its own event loop: `make test-sglang`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slotproof.engines.releases import of_release
from slotproof.logs import judging, report
from slotproof.protocol.commands import Command
from tests.processes import finished
from tests.recordings import files_of
from tests.turns import turn

pytestmark = pytest.mark.sglang

LOOP = Path(__file__).parent / "live_loop.py"
DRIVER = Path(__file__).parents[2] / "slotproof" / "drivers" / "sglang"


NOTHING: list[list[Command]] = [[]]
FEED: list[list[Command]] = [
    [{"do": "open", "session": "s1"}],
    [turn("r1", 11, 4, "s1", 1)],
    *NOTHING * 2,
    [turn("p1", 9, 3, None, 1)],
    *NOTHING * 4,
    [turn("r2", 5, 4, "s1", 21)],
    *NOTHING * 6,
    [turn("r3", 2, 8, "s1", 31)],
    *NOTHING * 2,
    [{"do": "abort", "rid": "r3"}],
    *NOTHING * 2,
    [{"do": "close", "session": "s1"}],
    *NOTHING * 2,
]
"""Three turns of a session, with the last aborted, and a plain request."""


WINDOW_FEED: list[list[Command]] = [
    [{"do": "open", "session": "s1"}],
    [turn("r1", 11, 9, "s1", 1)],
    *NOTHING * 12,
    [turn("r2", 6, 9, "s1", 21)],
    *NOTHING * 12,
    [{"do": "close", "session": "s1"}],
    *NOTHING * 2,
]
"""Two turns, each longer than the window."""


def live(
    release: str,
    folder: Path,
    feed: list[list[Command]],
    loop: str = "",
    config: Any = None,
    **settings: str,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Run the loop with the recorder on. Return the log and the finished process."""
    python = of_release(f"sglang=={release}").python
    shape = {"page_size": 4, "context_len": 64, **(config or {})}
    script: dict[str, Any] = {"config": shape, "feed": feed}
    (folder / "script.json").write_text(json.dumps({**script, "loop": loop}))
    log = folder / "log.jsonl"
    environment = {
        **os.environ,
        "PYTHONPATH": str(DRIVER),
        "SLOTPROOF_RECORD": str(log),
        **settings,
    }
    argv = [str(python), str(LOOP), str(folder / "script.json")]
    done = finished(argv, env=environment, timeout=300)
    return log, done


def test_a_plain_scenario_conforms(tmp_path: Path) -> None:
    log, done = live("0.5.23", tmp_path, FEED)
    assert done.returncode == 0, done.stderr[-2000:]
    verdict = judging.validate(files_of(log))
    assert not verdict.violations
    seen = verdict.coverage.transitions
    wanted = "OPEN SUBMIT MATCH INSERT RESTORE EXTEND DECODE SAVE PLAIN-SUBMIT PLAIN-FINISH CLOSE"
    assert {f"T-{name}" for name in wanted.split()} <= set(seen)
    assert verdict.seen["iterations"] == verdict.seen["pages"] == verdict.seen["checker"]
    checked = verdict.coverage.checked
    assert all(checked[f"INV-{name}"] for name in ("OWNER", "HISTORY", "ANSWER", "CHECKER"))


@pytest.mark.parametrize("draft", [0, 3])
def test_the_loop_of_production(draft: int, tmp_path: Path) -> None:
    """Overlap scheduling, with and without speculative rounds: results are logged on arrival."""
    config = {"overlap": True, "draft": draft, "context_len": 96}
    log, done = live("0.5.23", tmp_path, FEED, config=config)
    assert done.returncode == 0, done.stderr[-2000:]
    verdict = judging.validate(files_of(log))
    assert not verdict.violations, verdict.violations
    assert verdict.header.config.overlap and verdict.header.config.draft == draft
    assert {"T-LAUNCH", "T-RESULT", "T-SAVE"} <= set(verdict.coverage.transitions)
    assert "T-DECODE" not in verdict.coverage.transitions
    assert all(verdict.coverage.checked[f"INV-{name}"] for name in ("OWNER", "HISTORY", "ANSWER"))


def test_sessions_that_keep_no_slot(tmp_path: Path) -> None:
    """Their turns are requests with a prompt assembled by the engine, beside plain requests."""
    feed = [*FEED[:-4], [turn("p2", 12, 3, None, 1)], *NOTHING * 5, *FEED[-4:]]
    log, done = live("0.5.23", tmp_path, feed, config={"branching": True})
    assert done.returncode == 0, done.stderr[-2000:]
    verdict = judging.validate(files_of(log))
    assert not verdict.violations, verdict.violations
    told = [line["command"] for line in recorded(log) if "command" in line]
    sent = {submit["rid"]: submit for submit in told if submit["do"] == "submit"}
    assert sent["p2"]["session"] is None and sent["p2"]["tokens"]["count"] == 12
    assert [command["session"] for command in told if command["do"] == "open"] == ["s1"]


def test_the_double_count_is_in_the_log_of_the_server_that_it_killed(tmp_path: Path) -> None:
    """INV-ONCE.reported, INV-SUM-FULL.reported (22213). The check of 0.5.10 ends the server."""
    log, done = live("0.5.10.post1", tmp_path, FEED)
    assert done.returncode != 0 and "AssertionError" in done.stderr
    verdict = judging.validate(files_of(log))
    assert {"INV-ONCE.reported", "INV-SUM-FULL.reported"} <= {v.clause for v in verdict.violations}
    assert verdict.line == verdict.lines, "the last iteration is in the log"


WINDOW = {"window": 8, "swa_tokens": 48}


@pytest.mark.parametrize(
    ("release", "page", "pages"), [("0.5.23", 4, "1"), ("0.5.23", 4, "0"), ("0.5.10.post1", 1, "1")]
)
def test_a_sliding_window(release: str, page: int, pages: str, tmp_path: Path) -> None:
    """INV-WINDOW, INV-SUM-SWA: both pools are in the log, with their pages or in figures alone."""
    config = {**WINDOW, "page_size": page}
    settings = {"SLOTPROOF_RECORD_PAGES": pages}
    if release == "0.5.10.post1":  # its busy check knows of no second pool, and raises
        settings["SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY"] = "0"
    log, done = live(release, tmp_path, WINDOW_FEED, config=config, **settings)
    assert done.returncode == 0, done.stderr[-2000:]
    verdict = judging.validate(files_of(log))
    assert not verdict.violations, verdict.violations
    assert verdict.header.config.window == 8 and verdict.header.config.swa_tokens == 48
    assert verdict.coverage.transitions["T-SWA-ADVANCE"]
    checked = verdict.coverage.checked
    assert checked["INV-SUM-SWA"] and checked["INV-WINDOW"]
    assert bool(checked["INV-OWNER"]) == (pages == "1")


def recorded(log: Path) -> list[dict[str, Any]]:
    """Return every line of the log."""
    return [json.loads(line) for file in files_of(log) for line in file.read_text().splitlines()]


def test_less_can_be_recorded(tmp_path: Path) -> None:
    """The state in every fourth line, without pages: the report names both as missing."""
    settings = {"SLOTPROOF_RECORD_EVERY": "4", "SLOTPROOF_RECORD_PAGES": "0"}
    log, _ = live("0.5.23", tmp_path, FEED, **settings)
    verdict = judging.validate(files_of(log))
    assert not verdict.violations
    assert 0 < verdict.seen["state"] < verdict.seen["iterations"] / 2
    missing = report.not_observed(verdict)
    assert {"clients' tokens", "state", "pages (free list, tree, rows)"} <= set(missing)
    assert verdict.coverage.transitions["T-SAVE"] == 2


@pytest.mark.parametrize(
    ("release", "settings"),
    [
        ("0.5.23", {"SLOTPROOF_RECORD_TOKENS": "1"}),
        ("0.5.23", {"SLOTPROOF_RECORD_KEY": "a key of sixteen"}),
        ("0.5.10.post1", {}),
    ],
)
def test_tokens_are_in_the_log_where_they_are_asked_for(
    release: str, settings: dict[str, str], tmp_path: Path
) -> None:
    """INV-HISTORY: with tokens, and with hashes instead of tokens."""
    strict = {"SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY": "0"}
    log, done = live(release, tmp_path, FEED[:16], **settings, **strict)
    assert done.returncode == 0, done.stderr[-2000:]
    verdict = judging.validate(files_of(log))
    assert not verdict.violations and verdict.coverage.checked["INV-HISTORY"]
    lines = recorded(log)
    text, whole = json.dumps(lines), "SLOTPROOF_RECORD_TOKENS" in settings
    assert ("[21, 22, 23, 24, 25]" in text) == whole
    assert ("clients' tokens" in report.not_observed(verdict)) != whole
    assert "a key of sixteen" not in text
    hashes = {
        line["snapshot"]["sessions"]["s1"]["hash"]
        for line in lines
        if "s1" in line.get("snapshot", {}).get("sessions", {})
    }
    assert len(hashes) > 2


FLUSHED: list[list[Command]] = [
    [{"do": "open", "session": "s2"}],
    [turn("r3", 11, 4, "s2", 1)],
    *NOTHING * 6,
    [{"do": "flush"}],
    *NOTHING,
]
"""A flush drops the slot and the tree."""


@pytest.mark.parametrize(
    ("release", "window"), [("0.5.23", {}), ("0.5.23", WINDOW), ("0.5.10.post1", WINDOW)]
)
def test_no_tensor_is_read_for_figures(
    release: str, window: dict[str, int], tmp_path: Path
) -> None:
    """A read would wait for the device. With `device`, live_loop.py makes a read raise."""
    log, done = live(
        release,
        tmp_path,
        [*WINDOW_FEED, [{"do": "flush"}], [turn("p1", 9, 3, None, 1)], *NOTHING * 6, *FLUSHED],
        config={**window, "device": 1},
        SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY="0",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "recorder off" not in done.stderr
    verdict = judging.validate(files_of(log))
    assert not verdict.violations
    seen = verdict.coverage.transitions
    assert {
        "T-MATCH",
        "T-RESTORE",
        "T-INSERT",
        "T-DECODE",
        "T-SAVE",
        "T-DISCARD",
        "T-EVICT",
    } <= set(seen)
    assert verdict.seen["state"] == verdict.seen["iterations"] > verdict.seen["pages"] == 0
    assert "from cuda" in report.not_observed(verdict)["pages (free list, tree, rows)"]


def test_a_tensor_that_is_read_is_seen(tmp_path: Path) -> None:
    """Proof of the test above: with pages on an unreported device, the recorder reads a tensor."""
    _, done = live("0.5.23", tmp_path, FEED[:2], config={"device": 2})
    assert done.returncode == 0
    assert "recorder off: the recorder failed: RuntimeError: device: tolist" in done.stderr


def test_several_files_of_a_server(tmp_path: Path) -> None:
    """Every file begins with a state, and can be judged without earlier files."""
    settings = {"SLOTPROOF_RECORD_MEGABYTES": "1", "SLOTPROOF_RECORD_FILES": "150"}
    log, done = live("0.5.23", tmp_path, FEED, SLOTPROOF_RECORD_PAGES="0", **settings)
    assert done.returncode == 0 and "recorder off" not in done.stderr
    files = files_of(log)
    whole, last = judging.validate(files_of(log)), judging.validate(files[-1])
    assert len(files) > 1 and not whole.violations and not last.violations
    assert whole.unseen[0] == 0 and last.unseen[0] + last.lines == whole.lines


def test_a_full_disk(tmp_path: Path) -> None:
    """The recorder prints one line, and the server continues. The log can be judged to its end."""
    log, done = live("0.5.23", tmp_path, FEED, config={"room": 9000})
    said = [line for line in done.stderr.splitlines() if line.startswith("slotproof: ")]
    assert done.returncode == 0 and len(said) == 2, done.stderr[-2000:]
    assert said[0].startswith("slotproof: recording to ")
    assert said[1] == f"slotproof: recorder off: {log}: File too large"
    verdict = judging.validate(files_of(log))
    assert not verdict.violations and verdict.cut is None
    assert 0 < verdict.seen["iterations"] < len(FEED)


def test_where_the_recorder_stays_off(tmp_path: Path) -> None:
    """One line, and the server runs: another loop, an impossible file, a bad value."""
    for number, (loop, settings, text) in enumerate(
        [
            ("event_loop_pp", {}, "recorder off: event_loop_pp is not recorded, only"),
            (
                "event_loop_normal",
                {"SLOTPROOF_RECORD": "/no/such/log"},
                "No such file or directory",
            ),
            ("event_loop_normal", {"SLOTPROOF_RECORD_EVERY": "0"}, "RECORD_EVERY=0 is not a whole"),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        _, done = live(
            "0.5.23", folder, FEED[:1] if loop == "event_loop_normal" else [], loop, **settings
        )
        lines = [line for line in done.stderr.splitlines() if line.startswith("slotproof: ")]
        assert len(lines) == 1 and text in lines[0]
        assert done.returncode == 0, done.stderr[-2000:]
        assert not list(folder.glob("log*"))
