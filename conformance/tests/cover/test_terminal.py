"""The only printer: no terminal obeys text from outside."""

from __future__ import annotations

import ast
import json
import re
import sys
from io import StringIO
from pathlib import Path

import pytest

from slotproof.cli.app import status
from slotproof.reports.trace import Trace
from slotproof.support import terminal
from slotproof.support.terminal import Painted
from slotproof.traces import itf

PACKAGE = Path(__file__).parents[2] / "slotproof"
TOY = PACKAGE / "drivers" / "examples" / "toy.py"
OBEYED = "\x1b[2J\x9b31m\x1b]0;title\x07\r\u202e\u2066\u2028\x85\x7f\ud800"
"""C0, C1, OSC, direction marks, line ends, and a character without an encoding."""


def harmless(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


FORBIDDEN = {"typer.echo", "typer.secho", "typer.style", "print", "sys.stdout", "sys.stderr.write"}


def test_everything_is_printed_by_one_module() -> None:
    """The linter forbids other printing (TID251, T20). No file switches the rules off."""
    own = {PACKAGE / name for name in ("support/terminal.py", "cli/streams.py")}
    own.add(PACKAGE / "engines/served.py")  # answers on its own stream, as a driver does
    for path in PACKAGE.rglob("*.py"):
        if path in own or "drivers" in path.relative_to(PACKAGE).parts:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {
            ast.unparse(node)
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute | ast.Name)
        }
        assert not named & FORBIDDEN, path


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_ours_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Painted text is made harmless first. No colour in a pipe, nor with NO_COLOR."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    terminal.say(Painted(f"a{OBEYED}\nb", red=True))
    assert screen.getvalue().startswith("\x1b[31ma\\x1b[2J")
    assert harmless(re.sub(r"\x1b\[\d+m", "", screen.getvalue()))
    assert screen.getvalue().count("\n") == 1
    monkeypatch.setenv("NO_COLOR", "1")
    terminal.say(Painted("plain", bold=True))
    monkeypatch.setattr(sys, "stdout", pipe := StringIO())
    monkeypatch.delenv("NO_COLOR")
    terminal.say(Painted("plain", bold=True))
    assert screen.getvalue().endswith("\nplain\n") and pipe.getvalue() == "plain\n"


def hostile_toy(tmp_path: Path) -> str:
    """Return a copy of the toy driver under a hostile name."""
    driver = tmp_path / "hostile.py"
    text = TOY.read_text()
    for name in ('"toy"', '"toy with a bug"'):
        assert name in text
        text = text.replace(name, ascii(f"toy {OBEYED[:-1]}"))
    driver.write_text(text)
    return f"cmd:{sys.executable} {driver}"


@pytest.mark.slow
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_hostile_driver(
    as_json: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In `run`, `run --all`, `check-driver`, `replay`, `matrix` and their error messages."""
    spec = hostile_toy(tmp_path)
    out = ["--out", str(tmp_path / "out")]
    some = ["--config", "p1", "--examples", "12", *out]
    toy_trace = tmp_path / "x.itf.json"
    assert status(["run", "--engine", f"{spec} --bug", *some, *as_json]) == 1
    (written,) = (tmp_path / "out").glob("*seed0.itf.json")
    toy_trace.write_bytes(written.read_bytes())
    for argv in (
        ["run", "--engine", f"{spec} --bug", "--all", *some],
        ["check-driver", spec],
        ["replay", str(toy_trace), "--engine", f"{spec} --bug"],
        ["replay", str(toy_trace), "--engine", spec, "--against", str(toy_trace)],
        ["matrix", f"{spec} --bug", *some],
        ["show", str(toy_trace)],
    ):
        status([*argv, *as_json])
        said = capsys.readouterr()
        assert harmless(said.out + said.err), argv
        shown = "x9b31m" in said.out or "u009b31m" in said.out
        assert shown or argv[0] == "matrix", argv  # `matrix` shows no engine names


REFUSES = """
import json, sys
for line in sys.stdin:
    answer = {"id": json.loads(line).get("id"), "ok": False, "kind": "usage", "error": ERROR}
    print(json.dumps(answer), flush=True)
"""


def test_a_line_that_refuses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`slotproof: …` with text from a driver, a file, or a file name: one harmless line."""
    driver = tmp_path / "refuses.py"
    driver.write_text(REFUSES.replace("ERROR", ascii(f"no{OBEYED[:-1]}\nconforms: nothing found")))
    bad = tmp_path / f"a{OBEYED[:-1]}.itf.json"
    bad.write_text(json.dumps({"#meta": {"slotproof": {"protocol": OBEYED}}, "states": []}))
    log = tmp_path / "log.jsonl"
    log.write_text(json.dumps({"slotproof-log": OBEYED[:-1]}) + "\n")
    for argv in (
        ["run", "--engine", f"cmd:{sys.executable} {driver}"],
        ["show", str(bad)],
        ["replay", str(bad)],
        ["validate", str(log)],
        ["run", "--engine", f"x{OBEYED}"],
        ["run", "--config", OBEYED],
        [OBEYED],
    ):
        assert status(argv) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and harmless(err), argv


def test_a_hostile_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`validate`: names and messages of the log, in text and in JSON."""
    log = tmp_path / "log.jsonl"
    argv = ["run", "--engine", "reference:22213-double-count", "--config", "p1", "--examples", "9"]
    assert status([*argv, "--log", str(log), "--out", str(tmp_path)]) == 1
    lines = log.read_text().splitlines()
    evil = json.dumps(OBEYED[:-1])[1:-1]
    log.write_text("\n".join(line.replace("reference", f"reference{evil}") for line in lines))
    capsys.readouterr()
    for more in ([], ["--json"], ["--profile", "reference"]):
        status(["validate", str(log), *more])
        said = capsys.readouterr()
        assert harmless(said.out + said.err)
        assert "x9b31m" in said.out + said.err or "u009b31m" in said.out


def test_a_hostile_trace_on_the_terminal(
    hostile: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "evil.itf.json"
    itf.save(hostile, path)
    for argv in (["show"], ["show", "--json"], ["show", "--format", "pytest"], ["replay"]):
        status([*argv, str(path)])
        said = capsys.readouterr()
        assert harmless(said.out + said.err), argv
