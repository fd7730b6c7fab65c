"""Every command of ``slotproof``, under its name."""

from __future__ import annotations

from typing import Annotated

import typer

from slotproof.conformance.cli.campaigning import campaign
from slotproof.conformance.cli.checking import check_driver
from slotproof.conformance.cli.differing import diff
from slotproof.conformance.cli.documenting import docs
from slotproof.conformance.cli.environments import env
from slotproof.conformance.cli.errors import DEBUG
from slotproof.conformance.cli.exploring import explore
from slotproof.conformance.cli.fronting import frontend
from slotproof.conformance.cli.gating import gate
from slotproof.conformance.cli.listing import list_things
from slotproof.conformance.cli.matrix import matrix
from slotproof.conformance.cli.proving import prove
from slotproof.conformance.cli.replaying import replay
from slotproof.conformance.cli.running import run
from slotproof.conformance.cli.showing import show
from slotproof.conformance.cli.validating import validate

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def options(
    debug: Annotated[  # read where a bug of ours is told, in app.py
        bool,
        typer.Option("--debug", help=f"Show the traceback of a bug of slotproof; or {DEBUG}=1."),
    ] = False,
) -> None:
    """A referee for session-slot KV accounting in LLM serving engines."""


app.command()(run)
app.command()(gate)
app.command()(campaign)
app.command()(prove)
app.command()(explore)
app.command()(replay)
app.command()(show)
app.command()(diff)
app.command()(matrix)
app.command("check-driver")(check_driver)
app.command()(validate)
app.command()(frontend)
app.command()(docs)
app.command("list")(list_things)
app.add_typer(env, name="env")
