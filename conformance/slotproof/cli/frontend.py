"""``slotproof frontend``: a build's own front end under several clients at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import (
    ENGINE,
    LONGEST,
    OUTPUT,
    SEARCH,
    JsonOption,
    MendOption,
    PythonOption,
    number,
    writable,
    writing,
)
from slotproof.cli.progress_line import progress_bar
from slotproof.engines.base import EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.environments.families import FAMILIES
from slotproof.frontend import report, round_file, running
from slotproof.frontend.configs import CONFIGS
from slotproof.frontend.program import Build
from slotproof.frontend.round_file import BadRound, SavedRound
from slotproof.frontend.running import Outcome, Plan
from slotproof.frontend.scripts import MOST_CLIENTS
from slotproof.search import baseline as baselines
from slotproof.search.baseline import BadBaseline
from slotproof.support.statuses import CONFORMS, FOUND, INCONCLUSIVE
from slotproof.support.terminal import say, say_all, say_json

FRONT_ENDS = {name: each.front_end for name, each in FAMILIES.items() if each.front_end}
DEFAULT = next(iter(FRONT_ENDS))
START = 600.0
"""Seconds for a start: three processes import the build, each compiling it the first time."""


def frontend(
    engine: Annotated[
        str,
        typer.Option(
            "--engine",
            help=f"{DEFAULT}==RELEASE, or {DEFAULT} in the environment of --python.",
            metavar="ENGINE",
            rich_help_panel=ENGINE,
        ),
    ] = DEFAULT,
    python: PythonOption = None,
    clients: Annotated[
        int, typer.Option("--clients", help="Clients at once.", metavar="N", rich_help_panel=SEARCH)
    ] = 8,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            min=0.1,
            max=LONGEST,
            help="Play for so long; starts of engines and replays come on top.",
            metavar="SECONDS",
            rich_help_panel=SEARCH,
        ),
    ] = 60.0,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds",
            min=1,
            help="Rounds at most; some seconds each.",
            metavar="N",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            help=f"{', '.join(CONFIGS)}; may be repeated. Default: all, in turn.",
            metavar="NAME",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            help="The same seed draws the same scripts.",
            metavar="N",
            rich_help_panel=SEARCH,
        ),
    ] = 0,
    mend: MendOption = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            help="Findings that are known: counted, and not reported.",
            metavar="FILE",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay",
            help="Play the round in this file again, and nothing else.",
            metavar="FILE",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    times: Annotated[
        int,
        typer.Option(
            "--times",
            help="How often the scripts of a finding are played again; 0: not at all.",
            metavar="N",
            rich_help_panel=SEARCH,
        ),
    ] = 10,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            help="Where findings and their logs are written.",
            metavar="DIR",
            rich_help_panel=OUTPUT,
        ),
    ] = Path("slotproof-frontend"),
    start_timeout: Annotated[
        float,
        typer.Option(
            "--start-timeout",
            min=0.01,
            max=LONGEST,
            help="Seconds that a start may take.",
            metavar="SECONDS",
            rich_help_panel=ENGINE,
        ),
    ] = START,
    as_json: JsonOption = False,
) -> int:
    """Several clients on a build's own front end, judged by what they hear and by its log."""
    number(clients, 1, "--clients", MOST_CLIENTS)
    number(times, 0, "--times", 1_000)
    if replay is not None:
        return _again(_round(replay), engine, python, times, start_timeout, as_json)
    unknown = [each for each in config or () if each not in CONFIGS]
    if unknown:
        raise UsageProblem(f"unknown configuration {unknown[0]!r}; there are: {', '.join(CONFIGS)}")
    plan = Plan(
        _build(engine, python, tuple(mend or ()), start_timeout),
        {name: CONFIGS[name] for name in config or CONFIGS},
        clients,
        seconds,
        number(seed, 0, "--seed"),
        _baseline_predicate(baseline, engine),
        times,
        rounds or Plan.rounds,
    )
    writable(out)
    files: dict[str, Path] = {}
    with progress_bar(not as_json) as bar, writing(out):

        def tell(outcome: Outcome) -> None:
            for each in outcome.found[-1:]:  # at once, and again with what replays show
                files[each.id] = round_file.save(each, plan, engine, out)
            found = f"{len(outcome.found)} found, " if outcome.found else ""
            replayed = outcome.found[-1].replayed if outcome.found else plan.replays
            if replayed < plan.replays:  # what is found is played again before the next round
                bar(f"{found}replays", replayed, plan.replays)
            else:
                bar(f"{found}rounds", outcome.rounds, 0)

        outcome = running.run(plan, out, tell)
    told = report.summary(outcome, plan, engine, [files[each.id] for each in outcome.found])
    if as_json:
        say_json(told)
    else:
        say_all(report.text(told))
    return int(told["status"])


def _build(engine: str, python: Path | None, mends: tuple[str, ...], timeout: float) -> Build:
    """The program that starts its front end; :class:`EngineUnusable` where there is none."""
    front_end = FRONT_ENDS.get(engine.partition("==")[0])
    if front_end is None:
        forms = " or ".join(f"{name}==RELEASE" for name in FRONT_ENDS)
        raise EngineUnusable(f"there is no front end for {engine!r}: --engine is {forms}")
    program, driver, *_ = EngineSpec(engine, python).driver()
    return Build(Path(program), Path(driver).parent, front_end, mends, timeout)


def _baseline_predicate(path: Path | None, engine: str) -> running.BaselinePredicate:
    """Whether an identity is in the baseline, in a group that is about this engine."""
    if path is None:
        return lambda _: False
    try:
        groups = baselines.load(path).of(engine.replace("==", " "))
    except BadBaseline as bad:
        raise UsageProblem(str(bad)) from None
    ids = {each for group in groups for each in group.seen_as}
    clauses = {each.partition("@")[0] for each in ids}
    return (ids | clauses).__contains__


def _round(path: Path) -> SavedRound:
    try:
        return round_file.load(path)
    except BadRound as bad:
        raise UsageProblem(str(bad)) from None


def _again(
    saved: SavedRound, engine: str, python: Path | None, times: int, timeout: float, as_json: bool
) -> int:
    """Play a saved round, and say how often what was found is seen."""
    build = _build(saved.engine if engine == DEFAULT else engine, python, saved.mends, timeout)
    name = "kept"
    plan = Plan(build, {name: saved.config}, len(saved.scripts), 0, 0, replays=times)
    played, again, others = 0, 0, set[str]()
    interrupted = False
    try:
        for seen in running.replayed(plan, name, saved.scripts):
            played, again = played + 1, again + (saved.id in seen)
            others |= seen.keys() - {saved.id}
    except KeyboardInterrupt:
        interrupted = True
    unsure = INCONCLUSIVE if interrupted or not played else CONFORMS
    status = FOUND if again else unsure
    if as_json:
        say_json(
            {
                "status": status,
                "id": saved.id,
                "times": played,
                "seen": again,
                "also": sorted(others),
            }
        )
    else:
        say(f"{saved.id}: seen in {again} of {played} replays")
        if others:
            say(f"also seen: {', '.join(sorted(others))}")
    return status
