"""``slotproof matrix``: tables of findings: builds × findings, mutants × oracles."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slotproof.conformance import report
from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.cli.options import JsonOption, TimeoutOption, number
from slotproof.conformance.cli.running import chosen
from slotproof.conformance.cli.telling import progress_bar
from slotproof.conformance.matrices import builds, mutants
from slotproof.conformance.matrices.table import Table, markdown, write
from slotproof.conformance.plan import Plan, Progress
from slotproof.impl.mutants import MUTANTS

Keep = Callable[[Table], None]


def matrix(
    engines: Annotated[
        str | None,
        typer.Option(
            "--engines", help="Builds, separated by commas: [NAME=]ENGINE[@PYTHON], oldest first."
        ),
    ] = None,
    of_mutants: Annotated[
        bool, typer.Option("--mutants", help="Mutants of the reference engine, by oracle.")
    ] = False,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="A configuration by name; may be repeated. Default: all."),
    ] = None,
    examples: Annotated[
        int, typer.Option("--examples", help="Command sequences for each build or mutant.")
    ] = Plan.examples,
    steps: Annotated[int, typer.Option("--steps", help="Rules per example at most.")] = Plan.steps,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same table.")] = 0,
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, help="For each build or mutant at most.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", help="Processes at once.")] = 1,
    out: Annotated[Path, typer.Option("--out", help="Where table and traces are written.")] = Path(
        "slotproof-matrix"
    ),
    step_timeout: TimeoutOption = 10.0,
    as_json: JsonOption = False,
) -> int:
    """Write a table of findings: builds by findings, or mutants by oracles."""
    if (engines is None) is not of_mutants:
        raise UsageProblem("matrix needs one of --engines A,B,… and --mutants")
    plan = Plan(
        chosen(config),
        examples=number(examples, 1, "--examples"),
        steps=number(steps, 1, "--steps"),
        seed=number(seed, 0, "--seed"),
        seconds=seconds,
    )
    number(jobs, 1, "--jobs")
    last: list[Table] = []

    def keep(table: Table) -> None:
        last[:] = [table]
        try:
            write(table, out)
        except OSError as error:
            raise UsageProblem(f"{out} can't be written to: {error.strerror}") from None

    with progress_bar(not as_json) as tell:
        if engines is not None:
            status = _builds(engines, step_timeout, out, plan, jobs, tell, keep)
        else:
            status = _mutants(plan, jobs, tell, keep)
    shown = last[0]
    if as_json:
        typer.echo(json.dumps({"status": status, **asdict(shown)}, indent=1, ensure_ascii=False))
    else:
        typer.echo(markdown(shown))
        typer.echo(f"written to {out}: matrix.md, matrix.json, matrix.html")
    return status


def _builds(
    text: str, step_timeout: float, out: Path, plan: Plan, jobs: int, tell: Progress, keep: Keep
) -> int:
    """Status 1 if anything was found, 3 if it ended early, 2 if no build can be run."""
    columns = [builds.parse(each.strip(), step_timeout, out) for each in text.split(",") if each]
    names = [each.name for each in columns]
    if not names:
        raise UsageProblem("--engines names no build")
    for each in names:
        if names.count(each) > 1:
            raise UsageProblem(f"--engines: {each!r} is there twice; give it a name: NAME=ENGINE")
    whole = builds.run(columns, plan, jobs, tell, keep)
    if all(each.problem for each in columns):
        raise UsageProblem(f"no build can be run: {columns[0].name}: {columns[0].problem}")
    keep(builds.table(columns, plan))
    if not whole:
        return report.INCONCLUSIVE
    return report.FOUND if any(each.findings for each in columns) else report.CONFORMS


def _mutants(plan: Plan, jobs: int, tell: Progress, keep: Keep) -> int:
    """Status 1 if a mutant survives, 3 if it ended early."""
    done = mutants.run(plan, jobs, tell, keep)
    keep(mutants.table(done, plan))
    if len(done) < len(MUTANTS) or done[-1].interrupted:
        return report.INCONCLUSIVE
    return report.CONFORMS if all(each.clause for each in done) else report.FOUND
