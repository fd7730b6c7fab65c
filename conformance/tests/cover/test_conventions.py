"""The command line is as others are: help, version, examples, groups, completion in a real bash."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slotproof.campaigns.sources import release
from slotproof.cli import values
from slotproof.cli.app import COMPLETE, status
from slotproof.cli.commands import tree
from slotproof.cli.epilogs import HELP
from tests.processes import finished

SLOTPROOF = Path(sys.executable).with_name("slotproof")


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that does something, by its name."""
    below = getattr(command, "commands", {})
    if not below or getattr(command, "invoke_without_command", False) or not path:
        yield path, command
    for name, each in below.items():
        yield from commands(each, f"{path} {name}".strip())


COMMANDS = dict(commands(tree()))


def test_every_command_has_its_epilog() -> None:
    assert set(HELP) == set(COMMANDS)
    assert all(command.epilog for command in COMMANDS.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_by_both_names_with_examples_and_statuses(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []
    for option in ("-h", "--help"):
        assert status([*name.split(), option]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    for example in HELP[name][0]:
        assert example in shown[0]
    assert "Exit status:" in shown[0] and f"Usage: slotproof {name}".strip() in shown[0]


@pytest.mark.parametrize("example", [each for examples, _ in HELP.values() for each in examples])
def test_an_example_can_be_copied(example: str) -> None:
    """It is parsed, to its end; nothing is run."""
    command, argv = tree(), shlex.split(example)[1:]
    context = command.make_context("slotproof", argv)
    while rest := [*getattr(context, "_protected_args", ()), *context.args]:
        name, command, argv = command.resolve_command(context, rest)
        context = command.make_context(name, argv, parent=context)
    assert not hasattr(command, "commands") or command.invoke_without_command


@pytest.mark.parametrize("name", COMMANDS)
def test_values_have_names_that_speak(name: str) -> None:
    """`--seconds SECONDS`, not `--seconds <float range>`; what groups there are have names."""
    for param in COMMANDS[name].params:
        if param.name in ("install_completion", "show_completion", "version", "debug"):
            continue
        assert re.fullmatch(r"[A-Z]+(\.\.\.)?", param.metavar) or param.is_flag, param.name
        grouped = param.param_type_name == "argument" or param.rich_help_panel
        assert grouped or name.startswith("env"), param.name


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["--version"]) == 0
    assert capsys.readouterr().out == f"slotproof {release()}\n"


# Completion ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["run", "--engine", "reference", ":", "22213-"], ["22213-double-count"]),
        (["run", "--engine", "=", "reference", ":", "22213-"], ["22213-double-count"]),
        (["run", "--engine", "reference:22213-"], ["reference:22213-double-count"]),
        (["run", "--engine", "sglang", "=="], ["0.5.23"]),
        (["matrix", "sglang", "==", "0.5"], ["0.5.23"]),
        (["prove", "--mutant", "22790d"], ["22790d-two-in-flight"]),
        (["prove", "--transition", "T-RESTO"], ["T-RESTORE"]),
        (["run", "--ignore", "INV-ONCE.rep"], ["INV-ONCE.reported"]),
        (["run", "--config", "p1-draft-"], ["p1-draft-overlap"]),
        (["run", "--profile", "vl"], ["vllm"]),
        (["pro"], ["prove"]),
        (["show", "--form", "pytest", "--open", "--forma"], ["--format"]),
        (["list", "mut"], ["mutants"]),
        (["run", "--engine", "cmd:py"], []),
    ],
)
def test_a_value_is_completed(
    words: list[str],
    answer: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As bash asks, with `:` and `=` for words of their own; it gets what is missing."""
    monkeypatch.setattr(values, "_releases", lambda: iter(["sglang==0.5.23"]))
    monkeypatch.setenv(COMPLETE, "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "\n".join(["slotproof", *words]))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    assert status([]) == 0
    assert capsys.readouterr().out.split() == answer


@pytest.mark.parametrize(
    ("shell", "words", "answer"),
    [
        ("fish", "slotproof ca", "campaign\tSearch a build"),
        ("zsh", "slotproof ca", """_arguments '*: :(("campaign":"Search a build"""),
        ("fish", "slotproof run --config p1-draft-", "p1-draft-overlap\n"),
        ("zsh", "slotproof run --config p1-draft-", """_arguments '*: :(("p1-draft-overlap"))'"""),
    ],
)
def test_other_shells_have_the_help_too(
    shell: str,
    words: str,
    answer: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(COMPLETE, f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", words)
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    assert status([]) == 0
    assert capsys.readouterr().out.startswith(answer)


def for_bash() -> str:
    """What bash is told. typer asks which shell it was started by, here make's: unless told."""
    told = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    return finished([SLOTPROOF, "--show-completion", "bash"], env=told).stdout


@pytest.mark.skipif(not SLOTPROOF.exists(), reason="the program is not installed")
def test_completion_can_be_shown() -> None:
    assert "complete -o default -F" in for_bash()


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("bash") or not SLOTPROOF.exists(), reason="no bash")
def test_bash_completes(tmp_path: Path) -> None:
    """A real one, on a terminal: the line as it stands after a Tab."""
    (tmp_path / "complete.sh").write_text(for_bash())
    child, terminal = pty.fork()
    if child == 0:
        path = f"{SLOTPROOF.parent}:{os.environ['PATH']}"
        os.execvpe("bash", ["bash", "--norc", "-i"], {**os.environ, "PATH": path, "TERM": "dumb"})
    try:
        os.write(terminal, f"source {tmp_path}/complete.sh; PS1='> '; echo re'a'dy\n".encode())
        assert _until(terminal, "ready")
        os.write(terminal, b"slotproof run --engine reference:22213-\t")
        assert _until(terminal, "reference:22213-double-count ")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def _until(terminal: int, text: str) -> bool:
    """Whether it is said, sooner or later."""
    said, end = "", time.monotonic() + 60
    while text not in said and time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            said += os.read(terminal, 4096).decode()
    return text in said


def test_a_value_that_is_none_of_a_list_is_told_without_others_words(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert status(["show", "x.itf.json", "--format", "nonsense"]) == 2
    said = capfd.readouterr().err
    assert "Invalid value for '--format': 'nonsense' is not one of 'text', " in said
