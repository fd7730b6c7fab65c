"""A life as a picture: states in a row, moves onwards above, moves back below.

Arcs are nested, the shorter one inside, so that no line crosses another's name.
Plain SVG with its own background: reads the same on paper and on a dark page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from slotproof.model.life import Life

BOX, GAP, MARGIN = 136, 96, 24
LINE = 14
"""Height of a line of text, in pixels."""
HEAD, RISE = 26, 18
"""Height of a state's name; how far an arc keeps from what is under it."""

_STYLE = """
text { font-family: ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; font-size: 11px;
  fill: #1a1a1a; text-anchor: middle; paint-order: stroke; stroke: #ffffff; stroke-width: 3px; }
.box ~ .state, .stays { stroke: none; }
.title { font-size: 14px; font-weight: bold; text-anchor: start; }
.state { font-size: 14px; font-weight: bold; }
.stays { font-size: 10px; fill: #444444; }
.box { fill: #eef2f7; stroke: #1a1a1a; stroke-width: 1.4; }
.arc { fill: none; stroke: #33415c; stroke-width: 1.3; }
.back { stroke-dasharray: 5 3; }
.tip { fill: #33415c; }
.paper { fill: #ffffff; }
""".strip()


@dataclass
class _Arc:
    """A move between two states, by their places in the row."""

    source: int
    target: int
    names: tuple[str, ...]
    start: float = 0.0
    end: float = 0.0
    height: float = 0.0
    """How far its level is from the boxes."""

    @property
    def forward(self) -> bool:
        return self.source < self.target

    @property
    def span(self) -> int:
        return abs(self.source - self.target)

    @property
    def room(self) -> float:
        return len(self.names) * LINE + 6


def picture(life: Life) -> str:
    """The life as an SVG document.

    >>> from slotproof.model.life import lives
    >>> picture(lives()["slot"]).startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    True
    """
    place = {name: index for index, name in enumerate(life.states)}
    arcs = [_Arc(place[a], place[b], names) for (a, b), names in life.moves.items()]
    above = [arc for arc in arcs if arc.forward]
    below = [arc for arc in arcs if not arc.forward]
    for side in (above, below):
        _ports(side, len(life.states))
        _levels(side)
    box_height = HEAD + 12 + LINE * max((len(ids) for ids in life.stays.values()), default=0)
    top = MARGIN + 30 + max((arc.height + arc.room for arc in above), default=0)
    bottom = top + box_height
    height = bottom + MARGIN + max((arc.height + arc.room for arc in below), default=0)
    width = 2 * MARGIN + len(life.states) * BOX + (len(life.states) - 1) * GAP
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_n(height)}" '
            f'width="{width}" height="{_n(height)}" role="img">'
        ),
        f"<title>{escape(life.title)}</title>",
        f"<desc>{escape(_words(life))}</desc>",
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{_n(height)}"/>',
        f'<text class="title" x="{MARGIN}" y="{MARGIN}">{escape(life.title)}</text>',
    ]
    for index, name in enumerate(life.states):
        parts += _box(name, life.stays.get(name, ()), _left(index), top, box_height)
    for arc in arcs:
        parts += _drawn(arc, top if arc.forward else bottom)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _words(life: Life) -> str:
    moves = (f"{a} to {b} by {', '.join(ids)}" for (a, b), ids in life.moves.items())
    return "; ".join(moves)


def _left(index: int) -> float:
    return MARGIN + index * (BOX + GAP)


def _ports(arcs: Sequence[_Arc], states: int) -> None:
    """Where arcs leave and reach their boxes: onwards by the right half, inner arcs outermost."""
    for index in range(states):
        leaving = sorted((a for a in arcs if a.source == index), key=lambda arc: arc.span)
        coming = sorted((a for a in arcs if a.target == index), key=lambda arc: arc.span)
        for at, arc in enumerate(leaving):
            arc.start = _port(index, at, len(leaving), right=arc.forward)
        for at, arc in enumerate(coming):
            arc.end = _port(index, at, len(coming), right=not arc.forward)


def _port(index: int, at: int, many: int, right: bool) -> float:
    step = (BOX / 2 - 12) / max(many, 1)
    inset = 12 + at * step
    return _left(index) + (BOX - inset if right else inset)


def _levels(arcs: Sequence[_Arc]) -> None:
    """Shorter arcs lie inside: each stays clear of the arcs and names under it."""
    placed: list[_Arc] = []
    for arc in sorted(arcs, key=lambda each: (each.span, each.source)):
        low, high = sorted((arc.start, arc.end))
        under = (
            other.height + other.room
            for other in placed
            if min(other.start, other.end) < high and low < max(other.start, other.end)
        )
        arc.height = RISE + max(under, default=0.0)
        placed.append(arc)


def _box(name: str, stays: Sequence[str], left: float, top: float, height: float) -> list[str]:
    middle = left + BOX / 2
    lines = [
        (
            f'<rect class="box" x="{_n(left)}" y="{_n(top)}" width="{BOX}" height="{_n(height)}" '
            'rx="8"/>'
        ),
        f'<text class="state" x="{_n(middle)}" y="{_n(top + 20)}">{escape(name)}</text>',
    ]
    return lines + [
        f'<text class="stays" x="{_n(middle)}" y="{_n(top + HEAD + 8 + at * LINE)}">↻ {id_}</text>'
        for at, id_ in enumerate(stays)
    ]


def _drawn(arc: _Arc, edge: float) -> list[str]:
    """The line, its tip and the names beside it; upwards for onward moves, else downwards."""
    up = -1 if arc.forward else 1
    level = edge + up * arc.height
    bend = min(8, arc.height / 2) * -up
    right = 8 if arc.end > arc.start else -8
    path = (
        f"M {_n(arc.start)} {_n(edge)} V {_n(level + bend)} "
        f"Q {_n(arc.start)} {_n(level)} {_n(arc.start + right)} {_n(level)} "
        f"H {_n(arc.end - right)} Q {_n(arc.end)} {_n(level)} {_n(arc.end)} {_n(level + bend)} "
        f"V {_n(edge + up * 6)}"
    )
    tip = f"{_n(arc.end)},{_n(edge)} {_n(arc.end - 4)},{_n(edge + up * 8)} "
    tip += f"{_n(arc.end + 4)},{_n(edge + up * 8)}"
    kind = "arc" if arc.forward else "arc back"
    lines = [f'<path class="{kind}" d="{path}"/>', f'<polygon class="tip" points="{tip}"/>']
    middle = _between(arc)
    first = level - 5 - (len(arc.names) - 1) * LINE if arc.forward else level + 13
    return lines + [
        f'<text x="{_n(middle)}" y="{_n(first + at * LINE)}">{escape(name)}</text>'
        for at, name in enumerate(arc.names)
    ]


def _between(arc: _Arc) -> float:
    """Where the names go: between two boxes, where no other line comes down."""
    low, high = sorted((arc.source, arc.target))
    middles = [_left(index) + BOX + GAP / 2 for index in range(low, high)]
    return min(middles, key=lambda x: abs(x - (arc.start + arc.end) / 2))


def _n(number: float) -> str:
    """A coordinate, short and the same on every machine."""
    return f"{number:.1f}".removesuffix(".0")
