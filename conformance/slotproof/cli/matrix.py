"""``slotproof matrix``: a table that shows the findings of each build."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from slotproof.cli import options
from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import option, writing
from slotproof.cli.progress_line import progress_bar
from slotproof.matrices import builds
from slotproof.matrices.named_findings import NamedFinding, load
from slotproof.matrices.table import Table, markdown, write
from slotproof.search.folder import SUFFIX
from slotproof.search.plan import EXAMPLES, Plan
from slotproof.support.statuses import CONFORMS, FOUND, INCONCLUSIVE

OUT = Path("slotproof-matrix")
SECONDS_HELP = "Time limit of each build's search. Default: none."
BUILDS_HELP = "Builds, oldest first: ENGINE as for `run --engine`, or NAME=ENGINE."


def matrix(
    engines: list[str] = typer.Argument(metavar="BUILD...", help=BUILDS_HELP),
    traces: Path | None = option("--traces DIR", "Search", "Named traces to replay on each build."),
    config: list[str] | None = options.CONFIG,
    examples: int = option("--examples N", "Search", "Examples to run per build.", EXAMPLES),
    seconds: float | None = option("--seconds SECONDS", "Search", SECONDS_HELP, min=0.1),
    seed: int = options.SEED,
    ignore: list[str] | None = options.IGNORE,
    jobs: int = options.JOBS,
    out: Path = option("--out DIR", "Output", "Folder for the table and the traces.", OUT),
    step_timeout: float = options.STEP_TIMEOUT,
    as_json: bool = options.JSON,
) -> int:
    """Search several builds and write a table that shows the findings of each build."""
    plan = Plan.named(
        config,
        examples=options.number(examples, 1, "--examples"),
        seed=options.number(seed, 0, "--seed"),
        ignored=options.known_clauses(ignore),
        seconds=seconds,
    )
    named = _named(traces)
    options.jobs_count(jobs)
    columns = [builds.parse(engine.strip(), step_timeout, out) for engine in engines]
    for name in (names := [column.name for column in columns]):
        if names.count(name) > 1:
            raise UsageProblem(f"{name!r} is given twice: rename one with NAME=ENGINE")
    options.writable(out)

    def keep(table: Table) -> None:
        with writing(out):
            write(table, out)

    with progress_bar(not as_json) as tell:
        whole = builds.run(columns, plan, jobs, tell, keep, named)
    if all(column.problem for column in columns):
        raise UsageProblem(f"no build can be run: {columns[0].name}: {columns[0].problem}")
    shown = builds.table(columns, plan, named)
    keep(shown)
    bad = any(seen.cell.kind == "bad" for column in columns for seen in column.replayed.values())
    if not whole:
        status = INCONCLUSIVE
    elif bad or any(column.findings for column in columns):
        status = FOUND
    else:  # status 3 also if a build ended early or did not run
        cut = any(column.cut or column.problem for column in columns)
        status = INCONCLUSIVE if cut else CONFORMS
    lines = [*markdown(shown).removesuffix("\n").split("\n"), ""]
    lines.append(f"written to {out}: matrix.md, matrix.json, matrix.svg")
    return options.answer({"status": status, **asdict(shown)}, lines, as_json)


def _named(folder: Path | None) -> list[NamedFinding]:
    """Return the named findings of a folder of traces."""
    if folder is None:
        return []
    if not folder.is_dir():
        raise UsageProblem(f"--traces: {folder} is no folder")
    if not (findings := load(folder)):
        raise UsageProblem(f"--traces: {folder} has no *{SUFFIX}")
    return findings
