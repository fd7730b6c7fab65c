"""Commands in the documents produce the output shown below them.

A block that begins with ```` ```console ```` is a session. Lines with ``$`` are commands, run in
order in one folder per page. The lines below are the output: ``…`` stands for any lines, or at an
end for the rest of a line. ``$ echo $?`` shows the exit status. The folder has the Python files
shown above the session (blocks with ``title="name.py"``).
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotproof.cli.app import status
from slotproof_engine.mutants import MUTANTS
from tests.processes import finished

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "conformance" / "slotproof" / "drivers" / "examples"
SESSION = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r'^```\w+ title="([\w.-]+)"\n(.*?)^```', re.DOTALL | re.MULTILINE)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md") if SESSION.search(path.read_text()))


def steps(page: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a page, with the lines below each."""
    commands: list[tuple[str, list[str]]] = []
    for block in SESSION.findall(page):
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            else:
                commands[-1][1].append(line)
    return commands


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the documents, the example drivers, the faulty `rude.py`, and ``python``."""
    for name in ("toy.py", "toy.js"):
        shutil.copy(EXAMPLES / name, tmp_path)
    guarded = "    try:\n        message = json.loads(line)\n"
    outside = "    message = json.loads(line)\n    try:\n"
    text = (tmp_path / "toy.py").read_text()
    assert guarded in text
    (tmp_path / "rude.py").write_text(text.replace(guarded, outside))
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "bin").mkdir()
    for name, rest in (("python", ""), ("slotproof", " -P -m slotproof.cli.app")):
        command = tmp_path / "bin" / name  # not a link: a venv is found by the path of its Python
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}"{rest} "$@"\n')
        command.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("SLOTPROOF_ENVS", str(tmp_path / "envs"))
    monkeypatch.setattr("slotproof.driver_checks.answers.PATIENCE", 5.0)
    # No progress line, on a slow machine either.
    monkeypatch.setattr("slotproof.cli.progress_line.EVERY", 1e9)
    known = dict(MUTANTS)
    yield tmp_path
    MUTANTS.clear()  # A page adds a mutant.
    MUTANTS.update(known)


def expect(command: str, shown: list[str], output: list[str]) -> None:
    """Check that the output matches the lines shown."""
    at, skip = 0, False
    for line in shown:
        if line == "…":
            skip = True
            continue
        fits = [
            index
            for index in range(at, len(output) if skip else at + 1)
            if index < len(output)
            and (output[index].startswith(line[:-1]) if line[-1:] == "…" else output[index] == line)
        ]
        assert fits, f"$ {command}\n“{line}” is not in the output:\n" + "\n".join(output[at:])
        at, skip = fits[0] + 1, False
    assert skip or at == len(output) or (shown and shown[-1].endswith("…")), (
        f"$ {command}\nmore output than shown:\n" + "\n".join(output[at:])
    )


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT / "docs").as_posix())
def test_commands_of_a_page(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = page.read_text()
    if "$ node " in text and shutil.which("node") is None:
        pytest.skip("toy.js needs Node.js")
    for name, content in FILE.findall(text):
        (folder / name).write_text(content)
    last = 0
    for command, shown in steps(text):
        if command.startswith("slotproof ") and not re.search(r"[|<>;&]", command):
            patient = ["--step-timeout", "60"] if "cmd:" in command or "toy.py" in command else []
            last = status([*shlex.split(command)[1:], *patient])
            said = capsys.readouterr()
            output = said.out + said.err
        elif command == "echo $?":
            output = f"{last}\n"
        else:
            done = finished(["/bin/sh", "-c", command])
            last, output = done.returncode, done.stdout + done.stderr
        expect(command, shown, output.splitlines())


def test_pages_have_commands() -> None:
    assert sum(len(steps(page.read_text())) for page in PAGES) >= 25


def test_code_of_the_mutants_is_theirs() -> None:
    """The pages of the five bugs show the mutants' current code."""
    source = "".join(
        path.read_text() for path in (ROOT / "impl" / "slotproof_engine" / "mutants").glob("*.py")
    )
    pages = sorted((ROOT / "docs" / "systems").glob("*.md"))
    shown = [code for page in pages for code in PYTHON.findall(page.read_text())]
    assert len(shown) >= 5
    assert [code for code in shown if code not in source] == []
