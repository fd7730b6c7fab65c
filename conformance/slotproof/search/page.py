"""The page of a search of hours: journals of several machines as one HTML file.

The estimate of what is left is Good's (I. J. Good, "The population frequencies of species and the
estimation of population parameters", Biometrika 40, 1953): of n examples, if f1 identities were
shown by exactly one, the next example shows a new one with a probability of f1/n. Böhme uses it for
fuzzing ("STADS: Software testing as species discovery", ACM TOSEM 27(2), 2018). Where n examples
showed nothing, 3/n bounds with 95 % confidence how often one like these shows anything (Hanley,
Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249, 1983). None of it speaks
of what no example can reach.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import quote

from slotproof.search.campaign import Outcome, Point
from slotproof.search.causes import Cause
from slotproof.search.findings import Finding
from slotproof.search.journal import BadJournal, Run
from slotproof.search.plan import Plan
from slotproof.support import sources
from slotproof.support.markup import templates
from slotproof.support.terminal import duration

POINTS = 300
"""Of a curve at most."""
WIDTH, HEIGHT = 640, 200
"""Of a chart, in units of its own: it is as wide as there is room."""
_EDGE, _TOP, _BOTTOM = 8, 14, 22


@dataclass(frozen=True)
class Chart:
    """Curves over the time of work, one for each journal."""

    title: str
    now: str
    """The last value, in words."""
    lines: list[str]
    """Points of SVG polylines."""
    until: str


def merged(runs: Sequence[Run]) -> tuple[Outcome, Plan, list[list[Point]]]:
    """Return what several campaigns of one build saw together, a plan of all configurations, and
    the points of each. Raises :class:`BadJournal` for several builds, or for one search twice."""
    first, *others = runs
    for other in others:
        for what in ("slotproof", "sources", "subject", "ignored", "profile"):
            if getattr(first.head, what) != getattr(other.head, what):
                raise BadJournal(f"the journals are of two searches: not the same {what}")
    seeds = [run.head.seed for run in runs]
    twice = next((seed for seed in seeds if seeds.count(seed) > 1), None)
    if twice is not None:
        raise BadJournal(f"two journals have the seed {twice}: their examples are the same")
    plans = [run.head.plan for run in runs]
    configs = {name: each for plan in plans for name, each in plan.configs.items()}
    whole = replace(plans[0], configs=configs, examples=None, seconds=float("inf"))
    if any(plan.configs != plans[0].configs for plan in plans):
        whole = replace(whole, array=None)  # several arrays have no share in common
    outcomes = [run.outcome() for run in runs]
    return reduce(_joined, outcomes), whole, [each.points for each in outcomes]


def _joined(one: Outcome, other: Outcome) -> Outcome:
    """Add the other one to an outcome; of two findings with one identity the shorter stays."""
    for name, coverage in other.covered.items():
        one.covered[name].add(coverage)
    one.configs += [name for name in other.configs if name not in one.configs]
    one.skipped |= other.skipped
    one.accepted |= other.accepted
    for name in ("run", "shown", "spent"):
        setattr(one, name, getattr(one, name) + getattr(other, name))
    one.planned = dict(Counter(one.planned) + Counter(other.planned))
    one.seconds += other.seconds
    one.replays += other.replays
    one.interrupted |= other.interrupted
    best: dict[str, Finding] = {}
    for each in sorted([*one.findings, *other.findings], key=lambda each: len(each.trace.rows)):
        best.setdefault(each.id, each)
    one.findings = sorted(best.values(), key=lambda each: each.plainness)
    return one


def left(outcome: Outcome, points: Sequence[Sequence[Point]]) -> Iterator[str]:
    """Yield sentences on what more of the same search may show."""
    examples, shown = outcome.examples, outcome.shown
    if not examples:
        yield "No task is done: nothing can be estimated."
        return
    last = max((each.seconds for run in points for each in run if each.new), default=0.0)
    yield f"The last new transition or guard outcome was reached after {duration(last)}."
    if not shown:
        most = max(1, examples // 3)
        yield f"Nothing in {examples:,} examples: fewer than one of {most:,} shows anything."
        return
    once = sum(count == 1 for count in shown.values())
    rate = (
        f"about one in {round(examples / once):,} examples shows a new one"
        if once
        else ("the estimate sees no new one")
    )
    yield f"{len(shown)} identities were shown, {once} of them by one example: {rate}."


def render(
    runs: Sequence[Run],
    outcome: Outcome,
    points: Sequence[Sequence[Point]],
    found: Sequence[Cause],
    reasons: Mapping[str, str],
    summary: Mapping[str, Any],
    where: Callable[[Finding], str | None],
    folder: Path,
) -> str:
    """Return the whole page, as it is in that folder. ``reasons``: of each known cause why it is
    known."""
    traces = {each.id: _link(where(each), folder) for each in outcome.findings}
    open_ = sum(run.end is None for run in runs)
    return (
        templates("search")
        .get_template("page.html.jinja")
        .render(
            runs=runs,
            title=outcome.engine,
            release=sources.release(),
            ended=f"{open_} of {len(runs)} not at its end" if open_ else "All at their ends",
            written=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
            outcome=outcome,
            charts=[*charts(points)],
            new=[each for each in found if each.name not in reasons],
            known=[each for each in found if each.name in reasons],
            reasons=reasons,
            traces=traces,
            sure=[*left(outcome, points)],
            never=summary["transitions"]["never"],
            unseen=runs[0].head.subject.capabilities.unseen,
            duration=duration,
            width=WIDTH,
            height=HEIGHT,
        )
    )


def _link(path: str | None, folder: Path) -> tuple[str, str] | None:
    """Return where the page finds a trace, and its name."""
    if path is None:
        return None
    return quote(Path(os.path.relpath(path, folder)).as_posix()), Path(path).name


def charts(runs: Sequence[Sequence[Point]]) -> Iterator[Chart]:
    """Yield curves of coverage and of findings over the time; none before a round is over."""
    if any(runs):
        yield _chart("Transitions and guard outcomes", runs, lambda each: each.coverage)
        yield _chart("Findings", runs, lambda each: each.findings)


def _chart(title: str, runs: Sequence[Sequence[Point]], value: Callable[[Point], int]) -> Chart:
    every = [each for points in runs for each in points]
    until = max(1e-9, *(each.seconds for each in every))
    most = max(1, *map(value, every))
    across, up, floor = WIDTH - 2 * _EDGE, HEIGHT - _TOP - _BOTTOM, HEIGHT - _BOTTOM

    def line(points: Sequence[Point]) -> str:
        few = [*points[:: max(1, len(points) // POINTS)], *points[-1:]]
        places = [(0.0, 0), *((each.seconds, value(each)) for each in few)]
        return " ".join(
            f"{_EDGE + across * at / until:.1f},{floor - up * height / most:.1f}"
            for at, height in places
        )

    return Chart(title, f"{most:,}", [line(points) for points in runs], duration(until))
