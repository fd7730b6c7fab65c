"""Commands of docs/how-to/add-an-engine.md, run as they are written; their output is that shown."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from slotproof.conformance.cli.app import status

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "add-an-engine.md"
BLOCKS = [
    block.splitlines() for block in re.findall(r"```\n\$ (.*?)```", PAGE.read_text(), re.DOTALL)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples, a copy that parses outside of its try, and ``python`` on the path."""
    here = tmp_path_factory.mktemp("hour")
    for name in ("toy.py", "toy.js"):
        shutil.copy(ROOT / "conformance" / "drivers" / "examples" / name, here)
    guarded = "    try:\n        message = json.loads(line)\n"
    outside = "    message = json.loads(line)\n    try:\n"
    text = (here / "toy.py").read_text()
    assert guarded in text
    (here / "rude.py").write_text(text.replace(guarded, outside))
    (here / "bin").mkdir()
    (here / "bin" / "python").symlink_to(sys.executable)
    return here


def expect(shown: list[str], output: list[str]) -> None:
    """Lines as shown; ``…`` stands for any lines, at an end for the rest of a line."""
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
        assert fits, f"“{line}” is not in the output: {output[at : at + 30]}"
        at, skip = fits[0] + 1, False
    assert skip or at == len(output) or shown[-1].endswith("…")


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block[0][:60])
def test_commands_of_the_page(
    block: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command, *shown = block
    if "node " in command and shutil.which("node") is None:
        pytest.skip("toy.js needs Node.js, which is not here")
    monkeypatch.setattr("slotproof.conformance.manners.messages.PATIENCE", 5.0)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(folder / "bin"), prepend=":")
    if command.startswith("slotproof "):
        status([*shlex.split(command)[1:], "--step-timeout", "60"])
        output = capsys.readouterr().out
    else:
        output = subprocess.run(
            command, shell=True, capture_output=True, check=True
        ).stdout.decode()
    expect(shown, output.splitlines())


def test_the_page_has_commands() -> None:
    assert len(BLOCKS) >= 7
