"""Every command of ``slotproof``, under its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from slotproof.cli.check_driver import check_driver
from slotproof.cli.docs import docs
from slotproof.cli.env import env
from slotproof.cli.epilogs import epilog
from slotproof.cli.errors import DEBUG
from slotproof.cli.gate import gate
from slotproof.cli.list import list_things
from slotproof.cli.matrix import matrix
from slotproof.cli.prove import prove
from slotproof.cli.replay import replay
from slotproof.cli.report import report
from slotproof.cli.run import run
from slotproof.cli.show import show
from slotproof.cli.validate import validate
from slotproof.support.sources import release
from slotproof.support.terminal import say

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},  # inherited by every command
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"slotproof {release()}")
        raise typer.Exit


@app.callback(epilog=epilog(""))
def options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version and exit."
    ),
    debug: bool = typer.Option(  # read in app.py, where internal errors are reported
        False, "--debug", help=f"Show the traceback of an internal error, as {DEBUG}=1 does."
    ),
) -> None:
    """A referee for session-slot KV accounting in LLM serving engines."""


_COMMANDS: dict[str, dict[str, Callable[..., int]]] = {
    "Builds of engines": {"run": run, "gate": gate, "report": report, "matrix": matrix},
    "Traces and logs": {"replay": replay, "show": show, "validate": validate},
    "The spec": {"prove": prove, "docs": docs},
    "Setting up": {"list": list_things, "check-driver": check_driver},
}
"""Commands, by their group in the help."""
for _panel, _functions in _COMMANDS.items():
    for _name, _function in _functions.items():
        app.command(_name, epilog=epilog(_name), rich_help_panel=_panel)(_function)
app.add_typer(env, name="env", rich_help_panel="Setting up")


def tree() -> Any:
    """Return the commands as typer parses them, without a metavar for flags."""
    whole = typer.main.get_command(app)
    waiting: list[Any] = [whole]
    names = whole.context_class(whole, **whole.context_settings)  # names of the help option
    for command in waiting:
        waiting += getattr(command, "commands", {}).values()
        for param in command.get_params(names):
            if getattr(param, "is_flag", False):
                param.metavar = ""
    return whole
