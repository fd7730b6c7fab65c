"""``slotproof explore``: every behaviour of the spec within small bounds."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

from slotproof.cli.options import BOUNDS, JsonOption, number
from slotproof.support.statuses import FOUND, INCONCLUSIVE
from slotproof.support.terminal import labelled, say, say_json
from slotproof_model.evaluation.evaluate import outcomes
from slotproof_model.evaluation.explore import Explored, explore as explore_spec
from slotproof_model.evaluation.explore_bounds import default
from slotproof_model.evaluation.explore_pages import PAGED, Counted, count_pages
from slotproof_model.spec.transitions import TRANSITIONS

Outcomes = dict[str, Any]


def explore(
    depth: Annotated[
        int | None,
        typer.Option("--depth", help="How many transitions.", metavar="N", rich_help_panel=BOUNDS),
    ] = None,
    pages: Annotated[
        int | None,
        typer.Option("--pages", help="Pages of each pool.", metavar="N", rich_help_panel=BOUNDS),
    ] = None,
    sessions: Annotated[
        int | None,
        typer.Option("--sessions", help="How many sessions.", metavar="N", rich_help_panel=BOUNDS),
    ] = None,
    page_size: Annotated[
        int | None,
        typer.Option("--page-size", help="Tokens of a page.", metavar="N", rich_help_panel=BOUNDS),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Explore every state of the spec within small bounds; those by default page by page, too."""
    sizes = {"pages": pages, "sessions": sessions, "page_size": page_size, "depth": depth}
    changes = {name: value for name, value in sizes.items() if value is not None}
    for name, value in changes.items():
        number(value, int(name != "depth"), "--" + name.replace("_", "-"))
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


@contextmanager
def _status(text_: str, wanted: bool) -> Iterator[Callable[[str], None]]:
    """A line that says how far it is, on a terminal; nothing in a pipe."""
    if not wanted or not sys.stderr.isatty():
        yield lambda _: None
        return
    with Console(stderr=True).status(text_) as line:
        yield line.update


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
