"""Every command of ``slotproof``, under its name."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from slotproof.campaigns.sources import release
from slotproof.cli.campaign import campaign
from slotproof.cli.check_driver import check_driver
from slotproof.cli.diff import diff
from slotproof.cli.docs import docs
from slotproof.cli.env import env
from slotproof.cli.epilogs import epilog
from slotproof.cli.errors import DEBUG
from slotproof.cli.gate import gate
from slotproof.cli.list import list_things
from slotproof.cli.matrix import matrix
from slotproof.cli.prove import prove
from slotproof.cli.replay import replay
from slotproof.cli.run import run
from slotproof.cli.show import show
from slotproof.cli.validate import validate
from slotproof.support.terminal import say

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},  # of every command below it
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"slotproof {release()}")
        raise typer.Exit


@app.callback(epilog=epilog(""))
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[  # read where a bug of ours is told, in app.py
        bool,
        typer.Option("--debug", help=f"Show the traceback of a bug of slotproof; or {DEBUG}=1."),
    ] = False,
) -> None:
    """A referee for session-slot KV accounting in LLM serving engines."""


_BUILDS, _FILES, _SPEC, _OTHER = "Builds of engines", "Traces and logs", "The spec", "Setting up"
"""Groups of commands in the help."""

app.command("run", epilog=epilog("run"), rich_help_panel=_BUILDS)(run)
app.command("gate", epilog=epilog("gate"), rich_help_panel=_BUILDS)(gate)
app.command("campaign", epilog=epilog("campaign"), rich_help_panel=_BUILDS)(campaign)
app.add_typer(matrix, name="matrix", rich_help_panel=_BUILDS)
app.command("diff", epilog=epilog("diff"), rich_help_panel=_BUILDS)(diff)
app.command("replay", epilog=epilog("replay"), rich_help_panel=_FILES)(replay)
app.command("show", epilog=epilog("show"), rich_help_panel=_FILES)(show)
app.command("validate", epilog=epilog("validate"), rich_help_panel=_FILES)(validate)
app.add_typer(prove, name="prove", rich_help_panel=_SPEC)
app.command("docs", epilog=epilog("docs"), rich_help_panel=_SPEC)(docs)
app.command("list", epilog=epilog("list"), rich_help_panel=_OTHER)(list_things)
app.command("check-driver", epilog=epilog("check-driver"), rich_help_panel=_OTHER)(check_driver)
app.add_typer(env, name="env", rich_help_panel=_OTHER)


def tree() -> Any:
    """The commands as typer parses them; a flag has no value to name."""
    whole = typer.main.get_command(app)
    waiting: list[Any] = [whole]
    names = whole.context_class(whole, **whole.context_settings)  # of the option for help
    for command in waiting:
        waiting += getattr(command, "commands", {}).values()
        for param in command.get_params(names):
            if getattr(param, "is_flag", False):
                param.metavar = ""
    return whole
