"""``slotproof show``: a trace for people."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from slotproof.conformance.cli.options import JsonOption
from slotproof.conformance.traces import itf, text


class Format(StrEnum):
    """Forms that a trace can be shown in."""

    TEXT = "text"


def show(
    trace: Annotated[Path, typer.Argument(help="An .itf.json file.")],
    form: Annotated[Format, typer.Option("--format", help="How to show it.")] = Format.TEXT,
    as_json: JsonOption = False,
) -> int:
    """Render a trace."""
    del form  # there is one so far
    loaded = itf.load(trace)
    if as_json:
        typer.echo(json.dumps(itf.to_itf(loaded), indent=1, ensure_ascii=False))
    else:
        try:
            shown = text.render(loaded, str(trace))
        except (KeyError, TypeError) as error:
            raise itf.BadTrace(f"{trace}: a figure is missing or no number: {error}") from None
        typer.echo(shown, nl=False)
    return 0
