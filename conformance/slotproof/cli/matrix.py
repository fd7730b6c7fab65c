"""``slotproof matrix``: tables of findings: builds × findings, mutants × oracles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slotproof.cli.epilogs import epilog
from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import (
    OUTPUT,
    SEARCH,
    ConfigOption,
    JsonOption,
    SeedOption,
    SetAsideOption,
    StepsOption,
    TimeoutOption,
    jobs_count,
    number,
    writable,
    writing,
)
from slotproof.cli.progress_line import progress_bar
from slotproof.cli.run import known
from slotproof.engines.base import torch_missing
from slotproof.engines.mutants import mutant_records
from slotproof.matrices import builds
from slotproof.matrices.named_findings import SUFFIX, NamedFinding, load
from slotproof.matrices.table import Table, markdown, write
from slotproof.protocol.config import chosen
from slotproof.search.campaign import Progress
from slotproof.search.plan import EXAMPLES, Plan
from slotproof.support.statuses import CONFORMS, FOUND, INCONCLUSIVE
from slotproof.support.terminal import say, say_json, say_text

Keep = Callable[[Table], None]

matrix = typer.Typer(
    help="Write a table: builds by findings, or mutants by oracles.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)

ExamplesOption = Annotated[
    int,
    typer.Option(
        "--examples",
        metavar="N",
        help="Command sequences for each build or mutant.",
        rich_help_panel=SEARCH,
    ),
]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        "--seconds",
        min=0.1,
        metavar="SECONDS",
        help="For each build or mutant at most.",
        rich_help_panel=SEARCH,
    ),
]
ShrinkOption = Annotated[
    int,
    typer.Option(
        "--shrink",
        metavar="N",
        help="Replays that shrinking one finding may take.",
        rich_help_panel=SEARCH,
    ),
]
JobsOption = Annotated[
    int, typer.Option("--jobs", metavar="N", help="Processes at once.", rich_help_panel=SEARCH)
]
OutOption = Annotated[
    Path,
    typer.Option(
        "--out", metavar="DIR", help="Where table and traces are written.", rich_help_panel=OUTPUT
    ),
]
OUT = Path("slotproof-matrix")


@matrix.command("builds", epilog=epilog("matrix builds"))
def of_builds(
    engines: Annotated[
        list[str],
        typer.Argument(
            metavar="BUILD...",
            help="ENGINE, NAME=ENGINE or, with the Python of its environment, ENGINE@PYTHON; the "
            "oldest first.",
        ),
    ],
    traces: Annotated[
        Path | None,
        typer.Option(
            "--traces",
            metavar="DIR",
            help="Known traces, to be replayed on each.",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    config: ConfigOption = None,
    examples: ExamplesOption = EXAMPLES,
    seconds: SecondsOption = None,
    steps: StepsOption = Plan.steps,
    seed: SeedOption = 0,
    shrink: ShrinkOption = Plan.shrink,
    set_aside: SetAsideOption = None,
    jobs: JobsOption = 1,
    out: OutOption = OUT,
    step_timeout: TimeoutOption = 10.0,
    as_json: JsonOption = False,
) -> int:
    """Builds of engines by findings: which one has which."""
    plan = _plan(config, examples, seconds, steps, seed, shrink, set_aside)
    named = _named(traces)
    jobs_count(jobs)
    with _table(out, as_json) as (tell, keep, last):
        status = _builds(engines, step_timeout, out, plan, jobs, tell, keep, named)
    return _shown(status, last, out, as_json)


@matrix.command("mutants", epilog=epilog("matrix mutants"))
def of_mutants(
    config: ConfigOption = None,
    examples: ExamplesOption = EXAMPLES,
    seconds: SecondsOption = None,
    steps: StepsOption = Plan.steps,
    seed: SeedOption = 0,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", metavar="N", help="So many seeds, for medians.", rich_help_panel=SEARCH
        ),
    ] = 1,
    shrink: ShrinkOption = Plan.shrink,
    set_aside: SetAsideOption = None,
    jobs: JobsOption = 1,
    out: OutOption = OUT,
    as_json: JsonOption = False,
) -> int:
    """Mutants of the reference engine by what finds them."""
    number(seeds, 1, "--seeds")
    plan = _plan(config, examples, seconds, steps, seed, shrink, set_aside)
    jobs_count(jobs)
    with _table(out, as_json) as (tell, keep, last):
        status = _mutants(plan, seeds, jobs, tell, keep)
    return _shown(status, last, out, as_json)


def _plan(
    config: list[str] | None,
    examples: int,
    seconds: float | None,
    steps: int,
    seed: int,
    shrink: int,
    set_aside: list[str] | None,
) -> Plan:
    return Plan(
        chosen(config),
        examples=number(examples, 1, "--examples"),
        steps=number(steps, 1, "--steps"),
        seed=number(seed, 0, "--seed"),
        set_aside=known(set_aside),
        seconds=seconds,
        shrink=number(shrink, 1, "--shrink"),
    )


@contextmanager
def _table(out: Path, as_json: bool) -> Iterator[tuple[Progress, Keep, list[Table]]]:
    """How far it is, what keeps a table on disk as it grows, and the last one."""
    writable(out)
    last: list[Table] = []

    def keep(table: Table) -> None:
        last[:] = [table]
        with writing(out):
            write(table, out)

    with progress_bar(not as_json) as tell:
        yield tell, keep, last


def _shown(status: int, last: list[Table], out: Path, as_json: bool) -> int:
    (shown,) = last
    if as_json:
        say_json({"status": status, **asdict(shown)})
    else:
        say_text(markdown(shown))
        say()
        say(f"written to {out}: matrix.md, matrix.json, matrix.svg")
    return status


def _named(folder: Path | None) -> list[NamedFinding]:
    """Return the named findings of a folder of traces."""
    if folder is None:
        return []
    if not folder.is_dir():
        raise UsageProblem(f"--traces: {folder} is no folder")
    found = load(folder)
    if not found:
        raise UsageProblem(f"--traces: {folder} has no *{SUFFIX}")
    return found


def _builds(
    engines: list[str],
    step_timeout: float,
    out: Path,
    plan: Plan,
    jobs: int,
    tell: Progress,
    keep: Keep,
    named: list[NamedFinding],
) -> int:
    """Status 1 if anything was found, 3 if it ended early, 2 if no build can be run."""
    columns = [builds.parse(each.strip(), step_timeout, out) for each in engines]
    names = [each.name for each in columns]
    for each in names:
        if names.count(each) > 1:
            raise UsageProblem(f"{each!r} is there twice; give it a name: NAME=ENGINE")
    whole = builds.run(columns, plan, jobs, tell, keep, named)
    if all(each.problem for each in columns):
        raise UsageProblem(f"no build can be run: {columns[0].name}: {columns[0].problem}")
    keep(builds.table(columns, plan, named))
    if not whole:
        return INCONCLUSIVE
    known = any(seen.cell.kind == "bad" for each in columns for seen in each.replayed.values())
    if known or any(each.findings for each in columns):
        return FOUND
    return INCONCLUSIVE if any(each.cut for each in columns) else CONFORMS


def _mutants(plan: Plan, seeds: int, jobs: int, tell: Progress, keep: Keep) -> int:
    """Status 1 if a mutant survives, 3 if it ended early or for one there was too little time."""
    try:
        from slotproof.matrices import mutants
    except ModuleNotFoundError as error:
        raise torch_missing(error) from None
    done = mutants.run(plan, seeds, jobs, tell, keep)
    keep(mutants.table(done, plan, seeds))
    if len(done) < len(mutant_records()) or done[-1].interrupted:
        return INCONCLUSIVE
    if any(each.survives for each in done):
        return FOUND
    return INCONCLUSIVE if any(each.missed for each in done) else CONFORMS
