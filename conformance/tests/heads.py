"""A head: a copy of a release's environment with one line of the engine changed."""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from slotproof.cli.app import status
from slotproof.environments.store import Entry, Store, default_folder
from slotproof.reports.forms import FORMS


@dataclass(frozen=True)
class Head:
    """A changed build of a release, in a copy of the release's environment."""

    entry: Entry
    folder: Path

    @property
    def argument(self) -> str:
        return f"{self.entry.engine}@{self.folder / self.entry.path.name}/bin/python"

    def called(self, text: str) -> None:
        """Check that the text never names the release, and names the head."""
        name, release = self.entry.engine, re.escape(self.entry.release)
        assert not re.findall(rf"(?i){name}(?: |==){release}(?![\w.+*])", text), text[:400]
        assert f"{self.entry.release}+modified (fingerprint " in text, text[:400]


def changed(entry: Entry, folder: Path, file: str, old: str, new: str) -> Head:
    """Copy the environment of a release and change one of its files."""
    copy = folder / entry.path.name
    shutil.copytree(entry.path, copy, symlinks=True)
    (folder / entry.shared).symlink_to(default_folder() / entry.shared)
    path = copy / entry.site.relative_to(entry.path) / file
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), encoding="utf-8")
    return Head(entry, folder)


def release(name: str) -> Entry:
    """Return the environment of a release. Skip the test if it is missing."""
    entry = Store(default_folder()).find(name)
    if entry is None:
        pytest.skip(f"needs the environment of {name}")
    return entry


def is_never_called_the_release(
    head: Head,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seed: int = 0,
) -> None:
    """Check that every command, and every form of the trace, names the head. Not every trace has
    every form: ``seed`` chooses one."""

    def say(*argv: str, ends: int | None) -> str:
        code = status(list(argv))
        assert code == ends or (ends is None and code in (0, 1, 3)), capsys.readouterr()
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    search = ("--config", "p1", "--step-timeout", "200")
    more = ("--examples", "40", "--seed", str(seed))
    text = say("run", "--engine", head.argument, *search, *more, ends=1)
    head.called(text)
    (trace,) = re.findall(r"^trace +(\S+)$", text, re.MULTILINE)
    again = f"again: slotproof replay {trace} --engine {head.argument} --step-timeout 200\n"
    assert again in text
    built = json.loads(Path(trace).read_text(encoding="utf-8"))["#meta"]["slotproof"]["build"]
    assert (built["argument"], built["release"]) == (head.argument, "")

    for form in FORMS:
        head.called(say("show", trace, "--format", form, ends=0))
    replay = ("replay", trace, "--step-timeout", "200", "--engine")
    head.called(say(*replay, head.argument, ends=1))

    known = Path("known.json")
    group = {"name": "known", "engine": f"{head.entry.engine} {head.entry.release}", "reason": "x"}
    known.write_text(json.dumps({"slotproof_baseline": 2, "groups": [group]}), encoding="utf-8")
    gate = (
        "gate",
        str(known),
        "--engine",
        head.argument,
        *search,
        "--examples",
        "2",
        "--seconds",
        "30",
        "--junit",
    )
    seen = say(*gate, "gate.xml", ends=None)  # With this few examples the gate may find nothing.
    head.called(seen)
    assert "does not match" not in seen
    head.called(Path("gate.xml").read_text(encoding="utf-8"))

    matrix = ("matrix", head.argument, *search, "--examples", "2", "--seconds", "30")
    head.called(say(*matrix, ends=None))

    head.called(say("check-driver", head.argument, "--step-timeout", "200", ends=0))

    # The environment of the release itself, changed after its creation.
    monkeypatch.setenv("SLOTPROOF_ENVS", os.fspath(head.folder))
    own = say(*replay, f"{head.entry.engine}=={head.entry.release}", ends=1)
    head.called(own)
    assert f"--engine {head.argument} " in own
