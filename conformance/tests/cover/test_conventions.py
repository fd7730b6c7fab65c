"""The command line follows conventions: help, version, examples, groups, completion."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.cli.commands import tree
from slotproof.cli.epilogs import STATUSES, examples
from slotproof.support.sources import release
from tests.processes import finished

SLOTPROOF = Path(sys.executable).with_name("slotproof")


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the program and every command that does something, with its path."""
    below = getattr(command, "commands", {})
    if not below or not path:
        yield path, command
    for name, subcommand in below.items():
        yield from commands(subcommand, f"{path} {name}".strip())


COMMANDS = dict(commands(tree()))


def pages(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every command with a help page, groups of commands included."""
    yield path
    for name, subcommand in getattr(command, "commands", {}).items():
        yield from pages(subcommand, (*path, name))


@pytest.mark.parametrize("path", list(pages(tree())), ids=" ".join)
def test_no_flag_has_a_value_in_its_help(path: tuple[str, ...], cli: Any) -> None:
    page = cli([*path, "--help"])
    assert re.search(r"--help +-h +Show this message and exit\.", page) and "<bool>" not in page


def test_every_command_has_its_epilog() -> None:
    assert set(STATUSES) == set(COMMANDS) and all(map(examples, COMMANDS))
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
    for example in examples(name):
        assert example in shown[0]
    assert "Exit status:" in shown[0] and f"Usage: slotproof {name}".strip() in shown[0]


@pytest.mark.parametrize("example", [example for name in COMMANDS for example in examples(name)])
def test_an_example_can_be_copied(example: str) -> None:
    """The example is parsed to its end. Nothing is run."""
    command, argv = tree(), shlex.split(example)[1:]
    context = command.make_context("slotproof", argv)
    while rest := [*getattr(context, "_protected_args", ()), *context.args]:
        name, command, argv = command.resolve_command(context, rest)
        context = command.make_context(name, argv, parent=context)
    assert not hasattr(command, "commands")


@pytest.mark.parametrize("name", COMMANDS)
def test_values_have_names_that_speak(name: str) -> None:
    """`--seconds SECONDS`, not `--seconds <float range>`. Every option has a group."""
    for param in COMMANDS[name].params:
        if param.name in ("install_completion", "show_completion", "version", "debug"):
            continue
        assert re.fullmatch(r"[A-Z]+(\.\.\.)?", param.metavar) or param.is_flag, param.name
        assert param.param_type_name == "argument" or param.rich_help_panel, param.name


def test_how_many_commands_and_options_there_are() -> None:
    """A reader can learn them all. An option counts once for each of its commands."""
    leaves = [command for command in COMMANDS.values() if not hasattr(command, "commands")]
    params = [param for leaf in leaves for param in leaf.params]
    options = [param for param in params if param.param_type_name == "option"]
    assert len(leaves) <= 14 and len(options) <= 100


def test_version(cli: Any) -> None:
    assert cli(["--version"]) == f"slotproof {release()}\n"


@pytest.mark.parametrize(
    ("shell", "words", "answer"),
    [
        ("bash", "slotproof pro", "prove\n"),
        ("bash", "slotproof show --forma", "--format\n"),
        ("fish", "slotproof rep", "report\tMerge the journals"),
        ("zsh", "slotproof repo", """_arguments '*: :(("report":"Merge the journals"""),
    ],
)
def test_a_shell_completes(
    shell: str, words: str, answer: str, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    """The command-line library answers."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    asked |= {"_TYPER_COMPLETE_ARGS": words, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    for name, value in {"_SLOTPROOF_COMPLETE": f"complete_{shell}", **asked}.items():
        monkeypatch.setenv(name, value)
    assert cli([]).startswith(answer)


@pytest.mark.skipif(not SLOTPROOF.exists(), reason="the program is not installed")
def test_completion_can_be_shown() -> None:
    """The library detects the parent shell, here make's, unless a variable switches that off."""
    told = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    shown = finished([SLOTPROOF, "--show-completion", "bash"], env=told).stdout
    assert "complete -o default -F" in shown


def test_a_value_that_is_none_of_a_list_is_told_without_others_words(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert status(["show", "x.itf.json", "--format", "nonsense"]) == 2
    said = capfd.readouterr().err
    assert "Invalid value for '--format': 'nonsense' is not one of 'text', " in said
