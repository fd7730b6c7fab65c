"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

EngineOption = Annotated[
    str,
    typer.Option(
        "--engine", help="reference, reference:MUTANT, sglang, module:factory or cmd:PROGRAM ARGS."
    ),
]
PythonOption = Annotated[
    Path | None,
    typer.Option("--python", help="The Python of the environment that holds the build under test."),
]
DeviceOption = Annotated[
    str, typer.Option("--device", help="Where the reference engine has its tensors: cpu, cuda.")
]
TimeoutOption = Annotated[
    float,
    typer.Option("--step-timeout", min=0.01, help="Seconds for one iteration; more is a hang."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]


def number(value: int, least: int, name: str) -> int:
    """The value, or one line that says what it must be."""
    from slotproof.conformance.cli.errors import UsageProblem

    if value < least:
        raise UsageProblem(f"{name} must be at least {least}, not {value}")
    return value


Document = dict[str, Any]
