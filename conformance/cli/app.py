"""``slotproof``: the commands, and how they end.

Exit status: 0 conforms; 1 a counterexample; 2 wrong usage or an engine that
can't start, with one line; 3 inconclusive.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer

from slotproof.conformance import interrupts
from slotproof.conformance.cli.checking import check_driver
from slotproof.conformance.cli.differing import diff
from slotproof.conformance.cli.documenting import docs
from slotproof.conformance.cli.environments import env
from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.cli.exploring import explore
from slotproof.conformance.cli.listing import list_things
from slotproof.conformance.cli.matrix import matrix
from slotproof.conformance.cli.proving import prove
from slotproof.conformance.cli.replaying import replay
from slotproof.conformance.cli.running import run
from slotproof.conformance.cli.showing import show
from slotproof.conformance.cli.validating import validate
from slotproof.conformance.engines.base import EngineUnusable
from slotproof.conformance.protocol.config import BadConfig
from slotproof.conformance.traces.itf import BadTrace

CTRL_C = 130
"""What typer makes of an interrupt; for us it is a run that says nothing yet."""

app = typer.Typer(
    help="A referee for session-slot KV accounting in LLM serving engines.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(run)
app.command()(prove)
app.command()(explore)
app.command()(replay)
app.command()(show)
app.command()(diff)
app.command()(matrix)
app.command("check-driver")(check_driver)
app.command()(validate)
app.command()(docs)
app.command("list")(list_things)
app.add_typer(env, name="env")


def main(argv: Sequence[str] | None = None) -> None:
    """The console script: runs a command and exits with its status."""
    sys.exit(status(list(sys.argv[1:] if argv is None else argv)))


def status(argv: list[str]) -> int:
    """Run a command line; its exit status. Wrong usage is told in one line."""
    if not argv:
        app(["--help"], prog_name="slotproof", standalone_mode=False)
        return 2
    try:
        with interrupts.noted():
            result: Any = app(argv, prog_name="slotproof", standalone_mode=False)
    except (UsageProblem, EngineUnusable, BadTrace, BadConfig) as problem:
        return _wrong(str(problem))
    except typer.Exit as done:
        return 3 if done.exit_code == CTRL_C else int(done.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return 3
    except Exception as error:
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        text = message()  # click's own: an unknown option, a missing argument
        return _wrong(text) if text else 2
    if result == CTRL_C:
        return 3
    return int(result) if isinstance(result, int) else 0


def _wrong(text: str) -> int:
    line = " ".join(text.split())
    typer.echo(f"slotproof: {line}", err=True)
    return 2


if __name__ == "__main__":
    main()
