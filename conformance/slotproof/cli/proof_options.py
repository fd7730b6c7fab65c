"""Options of ``slotproof prove`` and its subcommands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import PROOF, number
from slotproof_model.spec.transitions import TRANSITIONS

INIT = "INIT"

PageSizeOption = Annotated[
    list[int] | None,
    typer.Option(
        "--page-size",
        metavar="N",
        help="A page size; may be repeated. Default: 1, 4, 16, 64 (mutant: 1, 4); of progress "
        "these and any.",
        rich_help_panel=PROOF,
    ),
]
AnyOption = Annotated[
    bool,
    typer.Option("--any", help="All page sizes at once: P is a symbol.", rich_help_panel=PROOF),
]
TransitionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--transition",
        metavar="TRANSITION",
        help="Only this one; may be repeated.",
        rich_help_panel=PROOF,
    ),
]
ProofJobsOption = Annotated[
    int,
    typer.Option("--jobs", metavar="N", help="Processes; 0: one per core.", rich_help_panel=PROOF),
]


def known_transitions(names: Iterable[str] | None) -> None:
    """Each of them exists, or one line."""
    for name in names or ():
        if name != INIT and name not in TRANSITIONS:
            raise UsageProblem(f"there is no transition {name!r}; `slotproof list transitions`")


def page_sizes(
    named: Iterable[int] | None, any_too: bool, default: Iterable[int | None]
) -> list[int | None]:
    """Those that were asked for, ``None`` for any; else the default."""
    sizes: list[int | None] = [number(size, 1, "--page-size") for size in named or ()]
    if any_too:
        sizes.append(None)
    return sizes or [*default]
