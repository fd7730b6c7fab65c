"""``slotproof run``: the conformance suite against an engine build."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from slotproof.conformance import campaign, report
from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.cli.options import (
    DeviceOption,
    EngineOption,
    JsonOption,
    ProfileOption,
    PythonOption,
    TimeoutOption,
    known_profile,
    number,
    writable,
)
from slotproof.conformance.engines.base import Engine
from slotproof.conformance.engines.registry import EngineSpec
from slotproof.conformance.protocol.config import CONFIGS, EngineConfig
from slotproof.conformance.traces import itf, text
from slotproof.conformance.traces.trace import Trace
from slotproof.model.invariants import INVARIANTS


def run(
    engine: EngineOption = "reference",
    python: PythonOption = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="A configuration by name; may be repeated. Default: all."),
    ] = None,
    examples: Annotated[
        int, typer.Option("--examples", help="Command sequences in all.")
    ] = campaign.Plan.examples,
    steps: Annotated[
        int, typer.Option("--steps", help="Rules per example at most.")
    ] = campaign.Plan.steps,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same run.")] = 0,
    profile: ProfileOption = None,
    set_aside: Annotated[
        list[str] | None,
        typer.Option(
            "--set-aside",
            help="A clause (INV-ONCE.reported) whose violations are known; may be repeated.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Where counterexamples are written.")] = Path(
        "slotproof-traces"
    ),
    device: DeviceOption = "cpu",
    step_timeout: TimeoutOption = 10.0,
    as_json: JsonOption = False,
) -> int:
    """Run the conformance suite against an engine build."""
    configs = chosen(config)
    plan = campaign.Plan(
        configs,
        examples=number(examples, 1, "--examples"),
        steps=number(steps, 1, "--steps"),
        seed=number(seed, 0, "--seed"),
        profile=known_profile(profile),
        set_aside=known(set_aside),
    )
    writable(out)
    under_test = EngineSpec(engine, python, device, step_timeout).open()
    try:
        return _run(under_test, engine, plan, out, as_json)
    finally:
        under_test.close()


def _run(engine: Engine, spec: str, plan: campaign.Plan, out: Path, as_json: bool) -> int:
    path = out / f"{_slug(spec)}-seed{plan.seed}.itf.json"
    keep = _Keeper(path)
    with _progress(not as_json) as tell:
        outcome = campaign.run(engine, spec, plan, tell, keep)
    summary = report.summary(outcome, plan, engine.capabilities)
    others = [
        (each, path.with_name(path.name.replace(".itf.json", f"-{number}.itf.json")))
        for number, each in enumerate(outcome.traces[1:], 2)
    ]
    for each, where in others:
        _Keeper(where)(each)
    summary["others"] = [
        {"clause": each.violations[0].clause, "commands": len(each.rows), "trace": str(where)}
        for each, where in others
    ]
    summary["trace"] = str(path) if outcome.trace is not None and keep.saved else None
    if as_json:
        document = {**summary, "itf": itf.to_itf(outcome.trace) if outcome.trace else None}
        typer.echo(json.dumps(document, indent=1, ensure_ascii=False))
        return int(summary["status"])
    if outcome.trace is not None:
        typer.echo(text.render(outcome.trace, str(path)))
        typer.echo(f"trace           {path}" if keep.saved else f"trace           {keep.problem}")
    for other in summary["others"]:
        typer.echo(
            f"also found      {other['clause']} in {other['commands']} commands: {other['trace']}"
        )
    for line in report.text(summary):
        typer.echo(line)
    typer.echo(report.verdict(summary))
    return int(summary["status"])


class _Keeper:
    """Writes what is found as soon as it is found; a full disk is told, not fatal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.saved = False
        self.problem = ""

    def __call__(self, trace: Trace) -> None:
        try:
            itf.save(trace, self.path)
            self.saved = True
        except OSError as error:
            self.problem = f"could not be written to {self.path}: {error.strerror}"


def chosen(names: list[str] | None) -> dict[str, EngineConfig]:
    """Configurations by name; all of them without names."""
    for name in names or ():
        if name not in CONFIGS:
            raise UsageProblem(f"unknown configuration {name!r}; there are: {', '.join(CONFIGS)}")
    return {name: CONFIGS[name] for name in names} if names else dict(CONFIGS)


def known(clauses: list[str] | None) -> tuple[str, ...]:
    """Clauses that exist; anything else is a slip of the pen."""
    there = {
        f"{each.id}.{name}"
        for each in INVARIANTS.values()
        for name in (*each.conjuncts, *each.observed)
    }
    for clause in clauses or ():
        if clause not in there:
            raise UsageProblem(
                f"--set-aside: there is no clause {clause!r}; `slotproof list invariants --json` "
                "shows them"
            )
    return tuple(clauses or ())


def _slug(spec: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", spec).strip("-")[:60]


@contextmanager
def _progress(wanted: bool) -> Iterator[campaign.Progress]:
    """A bar on a terminal; nothing in a pipe."""
    if not wanted or not sys.stderr.isatty():
        yield lambda *_: None
        return
    columns = (TextColumn("{task.description:<12}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting")

        def tell(name: str, done: int, total: int) -> None:
            bar.update(task, description=name, completed=done, total=total)

        yield tell
