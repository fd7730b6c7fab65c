"""The search that explains two snapshots of an engine that has no event list.

Actor by actor: the shortest sequences of transitions from its values in one
snapshot to those in the next, with parameters taken from the figures that are
seen. What the sequences do to the free list must add up to what it shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

from slotproof.model import state
from slotproof.model.evaluate import LAYOUT, Params, Step, Vector, steps
from slotproof.model.transitions import TRANSITIONS
from slotproof.model.world import EMPTY_ACTOR, POOLS, World

DEPTH = 6
NODES = 4000
"""States tried per actor before the search gives up."""

_PLENTY = 1_000_000
_FULL = LAYOUT.index("full.available")
_ACTOR = slice(POOLS, len(state.STATE))
_ROWS = [i - POOLS for i, name in enumerate(LAYOUT) if name.endswith(".row")]

Trail = tuple[str, ...]


def explain(before: World, after: World) -> list[Counter[str]] | None:
    """Every distinct explanation (transitions, counted); ``None`` when none was found."""
    options: list[list[tuple[Trail, int]]] = []
    for key in before.actors.keys() | after.actors.keys():
        start = before.actors.get(key, list(EMPTY_ACTOR))
        goal = after.actors.get(key, list(EMPTY_ACTOR))
        if start != goal:
            found = _paths(before, key, start, goal)
            if not found:
                return None
            options.append(found)
    gained = after.pools[_FULL] - before.pools[_FULL]
    result: dict[frozenset[tuple[str, int]], Counter[str]] = {}
    for choice in product(*options):
        rest = gained - sum(moved for _, moved in choice)
        if rest < 0 or rest % before.constants.page_size:
            continue
        names = Counter(name for trail, _ in choice for name in trail)
        if rest:
            names["T-EVICT"] += 1
        result[frozenset(names.items())] = names
    return list(result.values()) or None


def _paths(world: World, key: str, start: Vector, goal: Vector) -> list[tuple[Trail, int]]:
    """The shortest trails from start to goal, with the tokens each gives to the free list."""
    table = steps(world.constants.page_size)
    allowed = [
        each
        for each in table.values()
        if each.transition.detaches is None
        and each.transition.id != "T-EVICT"
        and each.transition.id.startswith("T-PLAIN") <= key.startswith("/")
    ]
    numbers = _numbers(start, goal, world.constants.page_size)
    layer: dict[tuple[int, ...], list[tuple[Trail, int]]] = {tuple(start): [((), 0)]}
    seen = set(layer)
    wanted = tuple(goal)
    for _ in range(DEPTH):
        following: dict[tuple[int, ...], list[tuple[Trail, int]]] = {}
        for values, trails in layer.items():
            for step, params in _moves(allowed, numbers):
                vector = _vector(world, values)
                if step.blocked(vector, params) is not None:
                    continue
                step.apply(vector, params)
                moved = vector[_FULL] - _PLENTY
                reached = tuple(vector[_ACTOR])
                if reached in seen and reached != wanted:
                    continue
                extended = following.setdefault(reached, [])
                for trail, sum_ in trails[:4]:
                    candidate = ((*trail, step.transition.id), sum_ + moved)
                    if candidate not in extended:
                        extended.append(candidate)
        if wanted in following:
            return following[wanted]
        seen |= following.keys()
        if len(seen) > NODES:
            return []
        layer = following
    return []


def _vector(world: World, values: tuple[int, ...]) -> Vector:
    """The actor alone in pools that have plenty of everything."""
    figures = [4 * _PLENTY, _PLENTY, _PLENTY, _PLENTY]
    frame = [0] * 6 + [4 * _PLENTY]
    return [*figures, *figures, 99, 99, *values, *frame, *world.constants.vector]


def _numbers(start: Vector, goal: Vector, page_size: int) -> dict[str, list[int]]:
    """Candidates per parameter, from the figures of both snapshots."""
    names = {LAYOUT[POOLS + i]: (a, b) for i, (a, b) in enumerate(zip(start, goal, strict=True))}
    lengths = {value for name, pair in names.items() for value in pair if name[-2:] in _LENGTHS}
    lengths |= {names["turn.prompt"][1], names["turn.prompt"][0]}
    lengths |= {sum(pair) for pair in zip(names["turn.prompt"], names["turn.output"], strict=True)}
    lengths |= {names["session.history"][1] - 1}
    pages = sorted({value // page_size * page_size for value in lengths if value >= 0})
    new = names["turn.prompt"][1] - names["session.history"][0]
    steps_up = sorted({names["turn.C"][1] - names["turn.C"][0], 1})
    return {
        "t": sorted(value for value in lengths if value > 0),
        "q": pages,
        "m": pages,
        "e": pages,
        "new": [new if new > 0 else 1],
        "prompt": [names["turn.prompt"][1] or 1],
        "row": sorted({value for i in _ROWS for value in (start[i], goal[i]) if value >= 0}) or [0],
        "sampled": [0, 1],
        "F": sorted({0, names["session.history"][1] - names["turn.prompt"][0]} - {-1}),
        "d": steps_up,
        "k": steps_up,
    }


_LENGTHS = (".C", ".A", ".Q", ".E")


def _moves(allowed: list[Step], numbers: dict[str, list[int]]) -> Iterator[tuple[Step, Params]]:
    for step in allowed:
        names = [var.name.removeprefix("param.") for var in step.transition.params]
        free = [name for name in names if name in numbers]
        for values in product(*(numbers[name] for name in free)):
            params = dict.fromkeys(names, 0)
            params.update(zip(free, values, strict=True))
            if step.transition.id == "T-MATCH":
                params["u"] = params["m"]
            elif step.transition.id == "T-INSERT":
                params["u"] = params["q"]
            yield step, params


assert "T-EVICT" in TRANSITIONS
