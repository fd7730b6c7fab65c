"""The status page of a campaign: one HTML file, nothing to load; a running one loads itself again,
unless it is told to stay as it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from slotproof.campaigns import sure
from slotproof.campaigns.state import CampaignState, Point
from slotproof.search.findings import Finding
from slotproof.search.report import impossible
from slotproof.support.markup import digest, templates
from slotproof.support.terminal import duration

POINTS = 300
"""Of a curve at most."""
WIDTH, HEIGHT = 640, 200
"""Of a chart, in units of its own: it is as wide as there is room."""
AGAIN = Markup("""
const label = document.getElementById("again"), box = label.firstElementChild;
label.hidden = false;
box.checked = location.hash !== "#still";
box.addEventListener("change", () => history.replaceState(null, "", box.checked ? "#" : "#still"));
setInterval(() => { if (box.checked) location.reload(); }, 30000);
""")
_LEFT, _RIGHT, _TOP, _BOTTOM = 8, 8, 14, 22


@dataclass(frozen=True)
class Chart:
    """A curve over the time of work."""

    title: str
    now: str
    """The last value, in words."""
    line: str
    """Points of an SVG polyline."""
    most: str
    until: str
    rests: str = ""
    """What is under the curve, as a polygon."""


def render(
    state: CampaignState,
    running: int = 0,
    ended: str = "",
    where: Callable[[Finding], str | None] = lambda _: None,
    folder: Path = Path(),
) -> str:
    """The whole page, as it is in that folder: so many examples are run and not journalled,
    ``ended`` is how the call ended, ``where`` says where the trace of a finding is."""
    findings = [
        (each, state.when.get(each.id), _link(where(each), folder)) for each in state.findings.all()
    ]
    estimates = sure.how_sure(state)
    return (
        templates("campaigns")
        .get_template("status.html.jinja")
        .render(
            state=state,
            head=state.head,
            done=state.done + running,
            rate=state.done / state.seconds if state.seconds else 0.0,
            ended=ended,
            script=AGAIN,
            digest=digest(AGAIN),
            written=time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
            charts=charts(state.points),
            new=[each for each in findings if not state.judged.get(each[0].id)],
            pending=bool(state.head.known) and not ended,
            known=[each for each in findings if state.judged.get(each[0].id)],
            sure=list(sure.sentences(estimates)),
            configs=[
                (name, place, len(place.coverage.transitions))
                for name, place in state.places.items()
            ],
            never=never(state),
            duration=duration,
            width=WIDTH,
            height=HEIGHT,
        )
    )


def _link(path: str | None, folder: Path) -> tuple[str, str] | None:
    """Where the page finds a trace, and its name."""
    if path is None:
        return None
    return quote(Path(os.path.relpath(path, folder)).as_posix()), Path(path).name


def never(state: CampaignState) -> list[str]:
    """Transitions that the engine offers and a configuration allows, and that never happened."""
    offered = state.head.capabilities.seen_to_make
    excluded = impossible(offered, state.head.configs.values(), state.head.profile)
    return sorted(offered - excluded.keys() - state.coverage.transitions.keys())


def charts(points: Sequence[Point]) -> list[Chart]:
    """Examples, features and findings, over the time."""
    if not points:
        return []
    few = points[:: max(1, len(points) // POINTS)]
    if few[-1] != points[-1]:
        few = [*few, points[-1]]
    return [
        _chart("Examples", few, [each.examples for each in few], steps=False),
        _chart("Features reached", few, [each.features for each in few], steps=False),
        _chart("Findings", few, [each.findings for each in few], steps=True),
    ]


def _chart(title: str, points: Sequence[Point], values: Sequence[int], steps: bool) -> Chart:
    until, most = max(points[-1].seconds, 1e-9), max(*values, 1)
    across, up = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    places = [(float(_LEFT), float(HEIGHT - _BOTTOM))]
    for point, value in zip(points, values, strict=True):
        x = _LEFT + across * point.seconds / until
        y = HEIGHT - _BOTTOM - up * value / most
        if steps:
            places.append((x, places[-1][1]))
        places.append((x, y))
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    floor = HEIGHT - _BOTTOM
    under = f"{line} {places[-1][0]:.1f},{floor} {_LEFT},{floor}"
    return Chart(title, f"{values[-1]:,}", line, f"{most:,}", duration(until), under)
