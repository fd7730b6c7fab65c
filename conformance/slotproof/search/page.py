"""Report page of a long search: one HTML file made from the journals of several machines.

The estimate of further findings is Good's (I. J. Good, "The population frequencies of species and
the estimation of population parameters", Biometrika 40, 1953). If f1 identities were seen exactly
once in n examples, the next example shows a new identity with a probability of f1/n. Böhme uses the
estimate for fuzzing ("STADS: Software testing as species discovery", ACM TOSEM 27(2), 2018). After
n examples without a finding, 3/n bounds the rate of findings with 95 % confidence (Hanley,
Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA 249, 1983). No estimate covers
behaviour that no example can reach.
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
"""Largest number of points drawn for a curve."""
WIDTH, HEIGHT = 640, 200
"""Size of a chart in SVG units. The report page scales each chart to the page width."""
_EDGE, _TOP, _BOTTOM = 8, 14, 22


@dataclass(frozen=True)
class Chart:
    """Curves over the time of the search, one per journal."""

    title: str
    now: str
    """Last value of the curves, as text."""
    lines: list[str]
    """Points of each SVG polyline."""
    until: str


def merged(runs: Sequence[Run]) -> tuple[Outcome, Plan, list[list[Point]]]:
    """Return the joint outcome of campaigns of one build, a plan with all configurations, and each
    campaign's progress. Raises :class:`BadJournal` for different searches, or a seed used twice."""
    first, *others = runs
    for other in others:
        for what in ("slotproof", "sources", "subject", "ignored", "profile"):
            if getattr(first.head, what) != getattr(other.head, what):
                raise BadJournal(f"the journals are of different searches: {what} differs")
    seeds = [run.head.seed for run in runs]
    if (twice := next((seed for seed in seeds if seeds.count(seed) > 1), None)) is not None:
        raise BadJournal(f"two journals have the seed {twice}: their examples are the same")
    plans = [run.head.plan for run in runs]
    configs = {name: config for plan in plans for name, config in plan.configs.items()}
    whole = replace(plans[0], configs=configs, examples=None, seconds=float("inf"))
    if any(plan.configs != plans[0].configs for plan in plans):
        whole = replace(whole, array=None)  # shares of different arrays can't be added
    outcomes = [run.outcome() for run in runs]
    return reduce(_joined, outcomes), whole, [outcome.points for outcome in outcomes]


def _joined(one: Outcome, other: Outcome) -> Outcome:
    """Add the second outcome to the first. Of equal findings, the shorter trace stays."""
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
    every = [*one.findings, *other.findings]
    for finding in sorted(every, key=lambda finding: len(finding.trace.rows)):
        best.setdefault(finding.id, finding)
    one.findings = sorted(best.values(), key=lambda finding: finding.plainness)
    return one


def left(outcome: Outcome, points: Sequence[Sequence[Point]]) -> Iterator[str]:
    """Yield sentences that estimate how many findings a longer search would add."""
    examples, shown = outcome.examples, outcome.shown
    if not examples:
        yield "No task is finished: nothing can be estimated."
        return
    last = max((point.seconds for run in points for point in run if point.new), default=0.0)
    yield f"The last new transition or guard outcome was reached after {duration(last)}."
    if not shown:
        most = max(1, examples // 3)
        yield f"No finding in {examples:,} examples: under 1 in {most:,} has a finding (95 % sure)."
        return
    once = sum(count == 1 for count in shown.values())
    rate = (
        f"about one in {round(examples / once):,} examples shows a new identity"
        if once
        else "the estimate predicts no new identity"
    )
    yield f"{len(shown)} identities were seen, {once} of them only once: {rate}."


def render(
    runs: Sequence[Run],
    outcome: Outcome,
    points: Sequence[Sequence[Point]],
    causes: Sequence[Cause],
    reasons: Mapping[str, str],
    summary: Mapping[str, Any],
    where: Callable[[Finding], str | None],
    folder: Path,
) -> str:
    """Return the report page, with links relative to ``folder``. ``reasons``: reason for accepting
    a cause, by the cause's name."""
    traces = {finding.id: _link(where(finding), folder) for finding in outcome.findings}
    open_ = sum(run.end is None for run in runs)
    template = templates("search").get_template("page.html.jinja")
    return template.render(
        runs=runs,
        title=outcome.engine,
        release=sources.release(),
        ended=f"{open_} of {len(runs)} searches unfinished" if open_ else "All finished",
        written=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        outcome=outcome,
        charts=[*charts(points)],
        new=[cause for cause in causes if cause.name not in reasons],
        known=[cause for cause in causes if cause.name in reasons],
        reasons=reasons,
        traces=traces,
        sure=[*left(outcome, points)],
        never=summary["transitions"]["never"],
        unseen=runs[0].head.subject.capabilities.unseen,
        duration=duration,
        width=WIDTH,
        height=HEIGHT,
    )


def _link(path: str | None, folder: Path) -> tuple[str, str] | None:
    """Return the link from the report page to a trace, and the trace's file name."""
    if path is None:
        return None
    return quote(Path(os.path.relpath(path, folder)).as_posix()), Path(path).name


def charts(runs: Sequence[Sequence[Point]]) -> Iterator[Chart]:
    """Yield charts of coverage and findings over time. Yield none before a round ends."""
    if any(runs):
        yield _chart("Transitions and guard outcomes", runs, lambda point: point.coverage)
        yield _chart("Findings", runs, lambda point: point.findings)


def _chart(title: str, runs: Sequence[Sequence[Point]], value: Callable[[Point], int]) -> Chart:
    every = [point for points in runs for point in points]
    until = max(1e-9, *(point.seconds for point in every))
    most = max(1, *map(value, every))
    across, up, floor = WIDTH - 2 * _EDGE, HEIGHT - _TOP - _BOTTOM, HEIGHT - _BOTTOM

    def line(points: Sequence[Point]) -> str:
        few = [*points[:: max(1, len(points) // POINTS)], *points[-1:]]
        return " ".join(
            f"{_EDGE + across * at / until:.1f},{floor - up * height / most:.1f}"
            for at, height in [(0.0, 0), *((point.seconds, value(point)) for point in few)]
        )

    return Chart(title, f"{most:,}", [line(points) for points in runs], duration(until))
