"""``slotproof matrix``: a table of builds by findings."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from slotproof.cli import options
from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import option, writing
from slotproof.cli.progress_line import progress_bar
from slotproof.matrices import builds
from slotproof.matrices.named_findings import SUFFIX, NamedFinding, load
from slotproof.matrices.table import Table, markdown, write
from slotproof.search.plan import EXAMPLES, Plan
from slotproof.support.statuses import CONFORMS, FOUND, INCONCLUSIVE

OUT = Path("slotproof-matrix")
BUILDS_HELP = "ENGINE or NAME=ENGINE, as --engine of `run`; the oldest first."


def matrix(
    engines: list[str] = typer.Argument(metavar="BUILD...", help=BUILDS_HELP),
    traces: Path | None = option("--traces DIR", "Search", "Named traces to replay on each build."),
    config: list[str] | None = options.CONFIG,
    examples: int = option("--examples N", "Search", "Command sequences per build.", EXAMPLES),
    seconds: float | None = option("--seconds SECONDS", "Search", "Limit per build.", min=0.1),
    seed: int = options.SEED,
    ignore: list[str] | None = options.IGNORE,
    jobs: int = options.JOBS,
    out: Path = option("--out DIR", "Output", "Folder for the table and the traces.", OUT),
    step_timeout: float = options.STEP_TIMEOUT,
    as_json: bool = options.JSON,
) -> int:
    """Write a table of builds by findings: which build has which finding."""
    plan = Plan.named(
        config,
        examples=options.number(examples, 1, "--examples"),
        seed=options.number(seed, 0, "--seed"),
        ignored=options.known_clauses(ignore),
        seconds=seconds,
    )
    named = _named(traces)
    options.jobs_count(jobs)
    columns = [builds.parse(each.strip(), step_timeout, out) for each in engines]
    names = [each.name for each in columns]
    for each in names:
        if names.count(each) > 1:
            raise UsageProblem(f"{each!r} is there twice; give it a name: NAME=ENGINE")
    options.writable(out)

    def keep(table: Table) -> None:
        with writing(out):
            write(table, out)

    with progress_bar(not as_json) as tell:
        whole = builds.run(columns, plan, jobs, tell, keep, named)
    if all(each.problem for each in columns):
        raise UsageProblem(f"no build can be run: {columns[0].name}: {columns[0].problem}")
    shown = builds.table(columns, plan, named)
    keep(shown)
    bad = any(seen.cell.kind == "bad" for each in columns for seen in each.replayed.values())
    if not whole:
        status = INCONCLUSIVE
    elif bad or any(each.findings for each in columns):
        status = FOUND
    else:  # 3 also where a build ended early or did not run
        cut = any(each.cut or each.problem for each in columns)
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
    if not (found := load(folder)):
        raise UsageProblem(f"--traces: {folder} has no *{SUFFIX}")
    return found
