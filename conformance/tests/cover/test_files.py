"""The writer of files: complete or not at all, with an unpredictable temporary name."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from slotproof.lockstep.observation import Violation
from slotproof.matrices.table import Table, write
from slotproof.protocol.config import EngineConfig
from slotproof.reports import forms
from slotproof.reports.trace import Trace
from slotproof.search import baseline as baselines
from slotproof.search.baseline import Baseline, Group
from slotproof.support.files import open_stream, write_whole
from slotproof.support.terminal import json_text
from slotproof.traces import itf
from slotproof.traces.record import Record, Row

SURROGATE = "before \ud800 after"
TRACE = Path(__file__).parents[1] / "snapshots" / "double-count.itf.json"


def trace(said: str) -> Trace:
    """Return a trace with a message of the driver."""
    rows = [Row({"do": "open", "session": "s1"})]
    broken = Violation("INV-ALIVE", "crash", said, said=said)
    return Trace(said, "cmd:x", "reference", EngineConfig(), 0, rows, [broken], minimal=False)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_file_has_the_permissions_of_any_new_file(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "a", "text")
        (tmp_path / "b").write_text("text")
    finally:
        os.umask(before)
    modes = {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"}
    assert modes == {0o666 & ~umask}


def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No empty `.tmp` either."""
    path = tmp_path / "a"
    write_whole(path, "old")

    def full(*_: object) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, "new")
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    assert path.read_text() == "old"


def test_no_link_that_lies_in_wait_is_followed(tmp_path: Path) -> None:
    """In a folder writable by others, neither the file nor its temporary file follows a link."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    out = tmp_path / "out"
    out.mkdir()
    for name in (
        "x.itf.json",
        "x.itf.tmp",
        "x.itf.json.tmp",
        "x.itf.json.new",
        "k.json",
        "k.json.tmp",
        "matrix.md",
        "matrix.md.tmp",
        "x.html",
        "x.html.tmp",
    ):
        (out / name).symlink_to(precious)
    itf.save(trace("x"), out / "x.itf.json")
    baselines.save(Baseline((Group("noise", "why"),)), out / "k.json")
    write(Table("T", "bug", ["a"]), out)
    forms.write_all({"x": trace("x")}, out)
    assert precious.read_text() == "mine"
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        open_stream(out / "x.itf.tmp")
    assert precious.read_text() == "mine"


def test_what_is_written_is_always_writable(tmp_path: Path) -> None:
    """A lone surrogate in a driver's message loses no finding. JSON preserves the exact string."""
    write_whole(tmp_path / "a.json", json.dumps(SURROGATE, ensure_ascii=False))
    assert json.loads((tmp_path / "a.json").read_bytes()) == SURROGATE
    itf.save(trace(SURROGATE), tmp_path / "t.itf.json")
    document = json.loads((tmp_path / "t.itf.json").read_bytes())
    assert document["#meta"]["slotproof"]["engine"] == SURROGATE
    for path in forms.write_all({"x": trace(SURROGATE)}, tmp_path / "all"):
        assert "\\ud800" in path.read_text(encoding="utf-8")


def test_a_device_is_written_to_and_stays_one(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "full").symlink_to("/dev/full")
    write_whole(tmp_path / "null", "text")
    assert (tmp_path / "null").is_char_device()
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "full", "text")
    os.mkfifo(tmp_path / "pipe")
    with os.fdopen(os.open(tmp_path / "pipe", os.O_RDWR), "r+b", buffering=0) as ends:
        write_whole(tmp_path / "pipe", "text")
        assert ends.read(4) == b"text"


@pytest.mark.parametrize(
    "argv",
    [
        ["show", "{trace}", "--out", "."],
        ["show", "{trace}", "--out", "{file}/below"],
        ["show", "{trace}", "--all", "--out", "{file}"],
        ["replay", "{trace}", "--out", "."],
        ["replay", "{trace}", "--out", "{file}/below"],
        ["replay", "{trace}", "--log", "."],
        ["run", "--out", "{file}"],
        ["run", "--log", "."],
        ["matrix", "reference", "--out", "{file}"],
        ["docs", "--out", "{file}"],
    ],
)
def test_a_folder_where_a_file_is_due(argv: list[str], workdir: Path, cli: Any) -> None:
    """A folder in place of a file, or the reverse: one line, status 2, before anything is run."""
    file = workdir / "file"
    file.write_text("")
    cli.wrong([word.format(trace=TRACE, file=file) for word in argv])
    assert list(workdir.iterdir()) == [file]


def test_a_replay_is_not_run_for_a_file_that_can_not_be(
    monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    monkeypatch.setattr(Record, "again", None)
    assert "--out . is a folder: name a file" in cli.wrong(["replay", str(TRACE), "--out", "."])


def test_json_text_is_json_whatever_is_in_it() -> None:
    value = {"a\x9b": ["≠", "\ud800", "\u202e", "\U0001f600\U000e0001", "\u2028", 1 << 80, None]}
    text = json_text(value)
    assert json.loads(text) == value
    assert all(line.isprintable() for line in text.split("\n"))
    assert "≠" in text
    with pytest.raises(ValueError, match="JSON compliant"):
        json_text(float("nan"))
