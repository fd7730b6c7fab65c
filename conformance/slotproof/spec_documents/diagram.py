"""A life cycle as SVG, with states in a row, forward moves above and backward moves below.

Each move is an arc. Shorter arcs lie inside longer arcs, so no line crosses the names of another
arc. This module computes the positions, and ``life.svg.jinja`` draws the picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from slotproof.support.markup import templates
from slotproof_model.text.lifecycle import Lifecycle

BOX, GAP, MARGIN = 136, 96, 24
LINE = 14
"""Height of a text line, in pixels."""
HEAD, RISE = 26, 18
"""Height of a state's name, and distance between an arc and the names below the arc. In pixels."""


@dataclass
class _Arc:
    """A move between two states. ``source`` and ``target`` are the states' places in the row."""

    source: int
    target: int
    names: tuple[str, ...]
    start: float = 0.0
    end: float = 0.0
    height: float = 0.0
    """Distance between the arc and the boxes."""

    @property
    def forward(self) -> bool:
        return self.source < self.target

    @property
    def span(self) -> int:
        return abs(self.source - self.target)

    @property
    def reach(self) -> float:
        """Distance between the far end of the arc's names and the boxes."""
        return self.height + len(self.names) * LINE + 6

    @property
    def middle(self) -> float:
        """Horizontal center of the arc's names: between two boxes, where no other line passes."""
        low, high = sorted((self.source, self.target))
        middles = [_left(index) + BOX + GAP / 2 for index in range(low, high)]
        return min(middles, key=lambda x: abs(x - (self.start + self.end) / 2))


def picture(life: Lifecycle) -> str:
    """Return the life cycle as an SVG document.

    >>> from slotproof_model.text.lifecycle import lifecycles
    >>> picture(lifecycles()["slot"]).startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    True
    """
    place = {name: index for index, name in enumerate(life.states)}
    arcs = [_Arc(place[a], place[b], names) for (a, b), names in life.moves.items()]
    above = [arc for arc in arcs if arc.forward]
    below = [arc for arc in arcs if not arc.forward]
    for side in (above, below):
        _ports(side, len(life.states))
        _levels(side)
    top = MARGIN + 30 + max((arc.reach for arc in above), default=0)
    bottom = top + HEAD + 12 + LINE * max((len(ids) for ids in life.stays.values()), default=0)
    height = bottom + MARGIN + max((arc.reach for arc in below), default=0)
    width = 2 * MARGIN + len(life.states) * BOX + (len(life.states) - 1) * GAP
    sizes = {"box": BOX, "margin": MARGIN, "line": LINE, "head": HEAD, "left": _left}
    sizes |= {"top": top, "bottom": bottom, "width": width, "height": height}
    template = templates("spec_documents").get_template("life.svg.jinja")
    return template.render(sizes, life=life, arcs=arcs) + "\n"


def _left(index: int) -> float:
    return MARGIN + index * (BOX + GAP)


def _ports(arcs: Sequence[_Arc], states: int) -> None:
    """Put an arc's ends on the box halves that face each other. Short arcs are outermost."""
    for index, leaves in product(range(states), (True, False)):
        touching = [arc for arc in arcs if (arc.source if leaves else arc.target) == index]
        for at, arc in enumerate(sorted(touching, key=lambda arc: arc.span)):
            inset = 12 + at * (BOX / 2 - 12) / len(touching)
            port = _left(index) + (BOX - inset if leaves == arc.forward else inset)
            setattr(arc, "start" if leaves else "end", port)


def _levels(arcs: Sequence[_Arc]) -> None:
    """Set the heights of the arcs. A longer arc passes above the shorter arcs and their names."""
    placed: list[_Arc] = []
    for arc in sorted(arcs, key=lambda arc_: (arc_.span, arc_.source)):
        low, high = sorted((arc.start, arc.end))
        under = (
            other.reach
            for other in placed
            if min(other.start, other.end) < high and low < max(other.start, other.end)
        )
        arc.height = RISE + max(under, default=0.0)
        placed.append(arc)
