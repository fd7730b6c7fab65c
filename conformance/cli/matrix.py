"""``slotproof matrix``: tables of findings: builds × findings, mutants × oracles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.cli.options import (
    ConfigOption,
    JsonOption,
    SetAsideOption,
    TimeoutOption,
    jobs_count,
    number,
    writable,
    writing,
    z3_missing,
)
from slotproof.conformance.cli.running import known
from slotproof.conformance.cli.telling import progress_bar
from slotproof.conformance.engines.base import torch_missing
from slotproof.conformance.engines.mutants import known_mutants
from slotproof.conformance.files import write_whole
from slotproof.conformance.matrices import builds
from slotproof.conformance.matrices.known import SUFFIX, Known, load
from slotproof.conformance.matrices.table import Table, markdown, write
from slotproof.conformance.protocol.config import chosen
from slotproof.conformance.search.campaign import Progress
from slotproof.conformance.search.plan import EXAMPLES, Plan
from slotproof.conformance.statuses import CONFORMS, FOUND, INCONCLUSIVE
from slotproof.conformance.terminal import json_text, say, say_json, say_text

Keep = Callable[[Table], None]


def matrix(
    engines: Annotated[
        str | None,
        typer.Option(
            "--engines", help="Builds, separated by commas: [NAME=]ENGINE[@PYTHON], oldest first."
        ),
    ] = None,
    of_mutants: Annotated[
        bool, typer.Option("--mutants", help="Mutants of the reference engine, by what finds them.")
    ] = False,
    of_spec: Annotated[
        bool, typer.Option("--spec", help="Mutants of the spec, by the obligation that kills them.")
    ] = False,
    config: ConfigOption = None,
    examples: Annotated[
        int, typer.Option("--examples", help="Command sequences for each build or mutant.")
    ] = EXAMPLES,
    steps: Annotated[int, typer.Option("--steps", help="Rules per example at most.")] = Plan.steps,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same table.")] = 0,
    traces: Annotated[
        Path | None,
        typer.Option("--traces", help="With --engines: known traces, to be replayed on each."),
    ] = None,
    shrink: Annotated[
        int, typer.Option("--shrink", help="Replays that shrinking one finding may take.")
    ] = Plan.shrink,
    set_aside: SetAsideOption = None,
    seeds: Annotated[
        int, typer.Option("--seeds", help="With --mutants: so many seeds, for medians.")
    ] = 1,
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
    """Write a table: builds by findings, mutants by oracles, or mutants of the spec by proof."""
    if [engines is not None, of_mutants, of_spec].count(True) != 1:
        raise UsageProblem("matrix needs one of --engines A,B,…, --mutants and --spec")
    if traces is not None and engines is None:
        raise UsageProblem("--traces goes with --engines")
    if number(seeds, 1, "--seeds") > 1 and not of_mutants:
        raise UsageProblem("--seeds goes with --mutants")
    writable(out)
    if of_spec:
        return _spec(jobs_count(jobs), out, as_json)
    plan = Plan(
        chosen(config),
        examples=number(examples, 1, "--examples"),
        steps=number(steps, 1, "--steps"),
        seed=number(seed, 0, "--seed"),
        set_aside=known(set_aside),
        seconds=seconds,
        shrink=number(shrink, 1, "--shrink"),
    )
    named = _named(traces)
    jobs_count(jobs)
    last: list[Table] = []

    def keep(table: Table) -> None:
        last[:] = [table]
        with writing(out):
            write(table, out)

    with progress_bar(not as_json) as tell:
        if engines is not None:
            status = _builds(engines, step_timeout, out, plan, jobs, tell, keep, named)
        else:
            status = _mutants(plan, seeds, jobs, tell, keep)
    shown = last[0]
    if as_json:
        say_json({"status": status, **asdict(shown)})
    else:
        say_text(markdown(shown))
        say()
        say(f"written to {out}: matrix.md, matrix.json, matrix.svg")
    return status


def _named(folder: Path | None) -> list[Known]:
    """The known findings of a folder of traces."""
    if folder is None:
        return []
    if not folder.is_dir():
        raise UsageProblem(f"--traces: {folder} is no folder")
    found = load(folder)
    if not found:
        raise UsageProblem(f"--traces: {folder} has no *{SUFFIX}")
    return found


def _builds(
    text: str,
    step_timeout: float,
    out: Path,
    plan: Plan,
    jobs: int,
    tell: Progress,
    keep: Keep,
    named: list[Known],
) -> int:
    """Status 1 if anything was found, 3 if it ended early, 2 if no build can be run."""
    columns = [builds.parse(each.strip(), step_timeout, out) for each in text.split(",") if each]
    names = [each.name for each in columns]
    if not names:
        raise UsageProblem("--engines names no build")
    for each in names:
        if names.count(each) > 1:
            raise UsageProblem(f"--engines: {each!r} is there twice; give it a name: NAME=ENGINE")
    whole = builds.run(columns, plan, jobs, tell, keep, named)
    if all(each.problem for each in columns):
        raise UsageProblem(f"no build can be run: {columns[0].name}: {columns[0].problem}")
    keep(builds.table(columns, plan, named))
    if not whole:
        return INCONCLUSIVE
    known = any(seen.cell.kind == "bad" for each in columns for seen in each.known.values())
    if known or any(each.findings for each in columns):
        return FOUND
    return INCONCLUSIVE if any(each.cut for each in columns) else CONFORMS


def _spec(jobs: int, out: Path, as_json: bool) -> int:
    """Status 1 if a mutant of the spec survives."""
    try:
        from slotproof.model.kill import judge_all
    except ModuleNotFoundError as error:
        raise z3_missing(error) from None
    from slotproof.conformance.matrices.spec import collect
    from slotproof.model.museum import EXHIBITS
    from slotproof.model.mutate import systematic
    from slotproof.model.wrong import WRONG

    count = len(EXHIBITS) + len(WRONG) + sum(1 for _ in systematic())
    with progress_bar(not as_json) as tell:
        table = collect(judge_all(jobs), lambda done: tell("spec mutants", done, count))
    document = {"status": int(bool(table.survivors)), **table.document()}
    with writing(out):
        write_whole(out / "spec.md", table.markdown() + "\n")
        write_whole(out / "spec.json", json_text(document))
    if as_json:
        say_json(document)
    else:
        say_text(table.markdown())
        say(f"written to {out}: spec.md, spec.json")
    return int(document["status"])


def _mutants(plan: Plan, seeds: int, jobs: int, tell: Progress, keep: Keep) -> int:
    """Status 1 if a mutant survives, 3 if it ended early or for one there was too little time."""
    try:
        from slotproof.conformance.matrices import mutants
    except ModuleNotFoundError as error:
        raise torch_missing(error) from None
    done = mutants.run(plan, seeds, jobs, tell, keep)
    keep(mutants.table(done, plan, seeds))
    if len(done) < len(known_mutants()) or done[-1].interrupted:
        return INCONCLUSIVE
    if any(each.survives for each in done):
        return FOUND
    return INCONCLUSIVE if any(each.missed for each in done) else CONFORMS
