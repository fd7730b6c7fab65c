"""``slotproof explore``: every behaviour within small bounds, of the spec or of an engine."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.cli.options import (
    DeviceOption,
    JsonOption,
    PythonOption,
    StartOption,
    TimeoutOption,
    number,
    writable,
)
from slotproof.conformance.engines.base import Engine
from slotproof.conformance.engines.process import START_TIMEOUT
from slotproof.conformance.engines.registry import EngineSpec
from slotproof.conformance.files import slug
from slotproof.conformance.protocol.config import CONFIGS
from slotproof.conformance.search import exploring, report
from slotproof.conformance.search.campaign import Plan
from slotproof.conformance.statuses import CONFORMS, FOUND, INCONCLUSIVE
from slotproof.conformance.terminal import labelled, say, say_all, say_json, say_text
from slotproof.conformance.traces import itf, text
from slotproof.conformance.traces.trace import Trace
from slotproof.model.evaluate import outcomes
from slotproof.model.explore import Explored, explore as explore_spec
from slotproof.model.explore_bounds import default
from slotproof.model.explore_pages import PAGED, Counted, count_pages
from slotproof.model.transitions import TRANSITIONS

Outcomes = dict[str, Any]


def explore(
    depth: Annotated[
        int | None, typer.Option("--depth", help="Transitions; with --engine: words of commands.")
    ] = None,
    pages: Annotated[int | None, typer.Option("--pages", help="Pages of each pool.")] = None,
    sessions: Annotated[int | None, typer.Option("--sessions", help="How many sessions.")] = None,
    page_size: Annotated[int | None, typer.Option("--page-size", help="Tokens of a page.")] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", help="Explore an engine instead of the spec.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", help="A configuration of the engine; may be repeated."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=0.1, help="Stop exploring the engine after that."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="The engine's seed.")] = 0,
    out: Annotated[Path, typer.Option("--out", help="Where counterexamples are written.")] = Path(
        "slotproof-traces"
    ),
    python: PythonOption = None,
    device: DeviceOption = "cpu",
    step_timeout: TimeoutOption = 10.0,
    start_timeout: StartOption = START_TIMEOUT,
    as_json: JsonOption = False,
) -> int:
    """Explore every state within small bounds: of the spec, or of an engine."""
    sizes = {"pages": pages, "sessions": sessions, "page_size": page_size}
    changes = {name: value for name, value in sizes.items() if value is not None}
    for name, value in changes.items():
        number(value, 1, "--" + name.replace("_", "-"))
    if depth is not None:
        number(depth, 0 if engine is None else 1, "--depth")
    if engine is None:
        if config or seconds is not None:
            raise UsageProblem("--config and --seconds are for --engine")
        return _spec(changes | ({} if depth is None else {"depth": depth}), as_json)
    if changes:
        raise UsageProblem(
            "--pages, --sessions and --page-size bound the spec; an engine has --config"
        )
    known = {**exploring.CONFIGS, **CONFIGS}
    for each in config or ():
        if each not in known:
            raise UsageProblem(f"unknown configuration {each!r}; there are: {', '.join(known)}")
    plan = Plan({each: known[each] for each in config or exploring.CONFIGS}, seed=seed)
    writable(out)
    under_test = EngineSpec(engine, python, device, step_timeout, start_timeout).open()
    try:
        search = _Engine(under_test, engine, plan, out)
        return search.run(depth or exploring.DEPTH, seconds, as_json)
    finally:
        under_test.close()


@contextmanager
def _status(text_: str, wanted: bool) -> Iterator[Callable[[str], None]]:
    """A line that says how far it is, on a terminal; nothing in a pipe."""
    if not wanted or not sys.stderr.isatty():
        yield lambda _: None
        return
    with Console(stderr=True).status(text_) as line:
        yield line.update


# The spec ---------------------------------------------------------------------


def _spec(changes: dict[str, int], as_json: bool) -> int:
    results = []
    for bounds in default(**changes):
        with _status(bounds.name, not as_json) as tell:
            results.append(explore_spec(bounds, progress=_levels(bounds.name, tell)))
        if results[-1].broken is not None:
            break
    broken = results[-1].broken
    counted: list[Counted] = []
    if not changes and broken is None:
        counted = [count_pages(bounds) for bounds in PAGED]
    summary = _summary(results, counted)
    if as_json:
        say_json(summary)
        return int(summary["status"])
    for result in results:
        end = "" if result.complete else ", cut off there"
        say(
            labelled(
                result.bounds.name,
                f"{result.states} states, {result.edges} edges, "
                f"{result.depth} deep{end}; {result.seconds:.1f} s",
            )
        )
    if counted:
        pages, edges = (
            sum(getattr(each, name) for each in counted) for name in ("states", "edges")
        )
        say(labelled("page by page", f"{pages} states, {edges} edges with up to 8 pages"))
    never = summary["transitions"]["never"]
    reached = len(TRANSITIONS) - len(never)
    say(labelled("transitions", f"{reached} of {len(TRANSITIONS)} reached"))
    if never:
        say(labelled("", f"never: {', '.join(never)}"))
    say(
        labelled("guard outcomes", f"{summary['guards']['seen']} of {summary['guards']['of']} seen")
    )
    for missing in summary["guards"]["one_way"]:
        say(labelled("", missing))
    if broken is not None:
        for index, stride in enumerate(broken.path, 1):
            say(f"{index:>3}  {stride}")
    say(_verdict(summary))
    return int(summary["status"])


def _levels(name: str, tell: Callable[[str], None]) -> Callable[[int, int], None]:
    return lambda depth, states: tell(f"{name}: {states} states, {depth} deep")


def _summary(results: list[Explored], counted: list[Counted]) -> Outcomes:
    """Everything there is to say, as JSON. ``status`` is the exit status."""
    counts: Counter[str] = Counter()
    holds = fails = 0
    for result in results:
        counts += result.transitions
        holds, fails = holds | result.holds, fails | result.fails
    never = sorted(TRANSITIONS.keys() - counts.keys())
    names = outcomes(1).names
    one_way = [
        f"{transition}.{name} never {way}"
        for way, seen in (("held", holds), ("failed", fails))
        for bit, (transition, name) in enumerate(names)
        if not seen >> bit & 1
    ]
    broken = results[-1].broken
    mismatch = next((each.mismatch for each in counted if each.mismatch), None)
    violated = [f"{broken.invariant}.{broken.conjunct}"] if broken else []
    violated += ["INV-OWNER.counted"] if mismatch else []
    cut = not all(result.complete for result in results)
    inconclusive = cut and bool(never or one_way)
    return {
        "status": FOUND if violated else INCONCLUSIVE * inconclusive,
        "bounds": [
            {
                "name": each.bounds.name,
                "bounds": vars(each.bounds),
                "states": each.states,
                "edges": each.edges,
                "depth": each.depth,
                "complete": each.complete,
                "seconds": round(each.seconds, 2),
            }
            for each in results
        ],
        "pages": [
            {"name": each.bounds.name, "states": each.states, "edges": each.edges}
            for each in counted
        ],
        "transitions": {"counts": dict(sorted(counts.items())), "never": never},
        "guards": {"seen": 2 * len(names) - len(one_way), "of": 2 * len(names), "one_way": one_way},
        "violated": violated,
        "path": [
            {"transition": stride.transition, "params": stride.params}
            for stride in (broken.path if broken else ())
        ],
        "mismatch": mismatch,
    }


def _verdict(summary: Outcomes) -> str:
    if summary["mismatch"]:
        return f"counterexample: the pages are not what is counted: {summary['mismatch']}"
    if summary["violated"]:
        return f"counterexample: {summary['violated'][0]}, after {len(summary['path'])} transitions"
    if summary["status"] == INCONCLUSIVE:
        return "inconclusive: nothing broken, but the depth cut off what was not reached"
    return "explored: every invariant holds in every state within the bounds"


# An engine --------------------------------------------------------------------


class _Engine:
    """One engine, explored and reported."""

    def __init__(self, engine: Engine, spec: str, plan: Plan, out: Path) -> None:
        self.engine, self.spec, self.plan = engine, spec, plan
        self.path = out / f"{slug(spec, 60)}-explored-seed{plan.seed}.itf.json"
        self.problem: str | None = "was not written"

    def keep(self, trace: Trace) -> None:
        """Write what is found as soon as it is found; a full disk is told, not fatal."""
        try:
            itf.save(trace, self.path)
            self.problem = None
        except OSError as error:
            self.problem = f"could not be written to {self.path}: {error.strerror}"

    def run(self, depth: int, seconds: float | None, as_json: bool) -> int:
        with _status("starting", not as_json) as tell:
            outcome, reached = exploring.explore(
                self.engine,
                self.spec,
                self.plan,
                depth,
                seconds,
                lambda name, done, known: tell(f"{name}: {done} of {known} classes"),
                self.keep,
            )
        trace = outcome.trace
        summary = report.summary(outcome, self.plan, self.engine.capabilities)
        summary["explored"] = {name: vars(each) for name, each in reached.items()}
        summary["trace"] = str(self.path) if trace is not None and not self.problem else None
        if as_json:
            say_json({**summary, "itf": itf.to_itf(trace) if trace else None})
            return int(summary["status"])
        if trace is not None:
            say_text(text.render(trace, str(self.path)))
            say()
            say(labelled("trace", self.problem or self.path))
        say_all(report.text(summary))
        for name, each in reached.items():
            say(
                labelled(
                    name,
                    f"{each.pairs} words in {each.expanded} classes of states, "
                    f"{each.classes} known, {each.depth} words deep",
                )
            )
        if summary["status"] == CONFORMS:
            total = sum(each.pairs for each in reached.values())
            say(f"conforms: nothing found, each of {total} words tried in its class")
        else:
            say(report.verdict(summary))
        return int(summary["status"])
