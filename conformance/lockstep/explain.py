"""The search that explains two snapshots of an engine that has no event list.

Actor by actor: the shortest sequences of transitions from its values in one
snapshot to those in the next, with parameters taken from the figures that are
seen. What the sequences do to the free list and the tree must add up to what
they show. The shortest explanation need not be the true one: on random runs of
the reference engine about 1 in 50 names a transition that did not happen (its
test keeps that figure), which is why it earns coverage and is never a finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

from slotproof.conformance.protocol.snapshot import Snapshot
from slotproof.model.evaluate import Params, Step, steps
from slotproof.model.layout import ACTOR, EMPTY_ACTOR, INDEX, OWN, Vector
from slotproof.model.world import World

DEPTH = 6
NODES = 4000
"""States tried per actor before the search gives up."""

_PLENTY = 1_000_000
_FULL = INDEX["full.available"]
_TREE = (INDEX["full.evictable"], INDEX["full.protected"])
_ROWS = [i for name, i in OWN.items() if name.endswith(".row")]

Trail = tuple[str, ...]
Path = tuple[Trail, int, int]
"""Transitions, and the tokens they give to the free list and to the tree."""


def explain(
    before: World, after: World, was: Snapshot | None = None, now: Snapshot | None = None
) -> list[Counter[str]] | None:
    """Every distinct shortest explanation (transitions, counted); ``None`` when none was found.

    The snapshots, where they are given, rule explanations out: by the monotone
    counters of the pool and of each request. A request that came and went
    between them can't be seen: then nothing is explained.
    """
    if was is not None and now is not None and _unseen(was, now):
        return None
    evicted_now = None if was is None or now is None else _evicted(was, now)
    options: list[list[Path]] = []
    for key in before.actors.keys() | after.actors.keys():
        start = before.actors.get(key, list(EMPTY_ACTOR))
        goal = after.actors.get(key, list(EMPTY_ACTOR))
        if start != goal:
            found = _paths(before, key, start, goal)
            if was is not None and now is not None:
                counted = _counted(was, now, key)
                found = [path for path in found if _fits(path[0], counted)]
            if not found:
                return None
            options.append(found)
    gained = after.pools[_FULL] - before.pools[_FULL]
    grown = sum(after.pools[index] - before.pools[index] for index in _TREE)
    result: dict[frozenset[tuple[str, int]], Counter[str]] = {}
    for choice in product(*options):
        rest = gained - sum(freed for _, freed, _ in choice)
        evicted = sum(taken for _, _, taken in choice) - grown
        if rest < 0 or rest % before.constants.page_size or rest != evicted:
            continue
        if evicted_now is not None and bool(rest) != evicted_now:
            continue
        names = Counter(name for trail, _, _ in choice for name in trail)
        if rest:
            names["T-EVICT"] += 1
        result[frozenset(names.items())] = names
    return list(result.values()) or None


def _unseen(was: Snapshot, now: Snapshot) -> bool:
    """Whether a request ended that the snapshot before does not know."""
    return any(ended["rid"] not in was["requests"] for ended in now["ended"])


def _evicted(was: Snapshot, now: Snapshot) -> bool | None:
    """Whether the tree gave up pages; ``None`` where no counter says so."""
    counters = now["pools"]["full"].get("counters")
    if counters is None or "evicted" not in counters:
        return None
    full = was["pools"].get("full")
    old = {} if full is None else full.get("counters", {})
    return counters["evicted"] != old.get("evicted", 0)


_COUNTED = {
    "chunks": ("T-EXTEND",),
    "matches": ("T-MATCH", "T-RESTORE"),
    "refusals": ("T-REFUSE",),
    "retractions": ("T-RETRACT", "T-RETRACT-WIPE", "T-PLAIN-RETRACT"),
}


def _counted(was: Snapshot, now: Snapshot, key: str) -> dict[str, int]:
    """How often what happened to the actor's request, where it lives in both snapshots."""
    for rid, request in now["requests"].items():
        mine = key == "/" + rid or (request["kind"] == "turn" and request["session"] == key)
        if mine and "counts" in request:
            then = was["requests"].get(rid)
            old = {} if then is None else then.get("counts", {})
            return {name: count - old.get(name, 0) for name, count in request["counts"].items()}
    return {}


def _fits(trail: Trail, counted: dict[str, int]) -> bool:
    """Whether the counters allow it; and nothing decodes twice in one iteration."""
    return trail.count("T-DECODE") <= 1 and all(
        sum(trail.count(name) for name in _COUNTED[what]) == times
        for what, times in counted.items()
        if what in _COUNTED
    )


def _paths(world: World, key: str, start: Vector, goal: Vector) -> list[Path]:
    """The shortest paths from start to goal."""
    table = steps(world.constants.page_size)
    allowed = [
        each
        for each in table.values()
        if each.transition.detaches is None
        and each.transition.id != "T-EVICT"
        and each.transition.id.startswith("T-PLAIN") <= key.startswith("/")
    ]
    numbers = _numbers(start, goal, world.constants.page_size)
    layer: dict[tuple[int, ...], list[Path]] = {tuple(start): [((), 0, 0)]}
    seen = set(layer)
    wanted = tuple(goal)
    for _ in range(DEPTH):
        following: dict[tuple[int, ...], list[Path]] = {}
        for values, trails in layer.items():
            for step, params in _moves(allowed, numbers):
                vector = _vector(world, values)
                if step.blocked(vector, params) is not None:
                    continue
                step.apply(vector, params)
                moved = vector[_FULL] - _PLENTY
                kept = sum(vector[index] for index in _TREE) - 2 * _PLENTY
                reached = tuple(vector[ACTOR])
                if reached in seen and reached != wanted:
                    continue
                extended = following.setdefault(reached, [])
                for trail, freed, taken in trails[:4]:
                    candidate = ((*trail, step.transition.id), freed + moved, taken + kept)
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
    names = dict(zip(OWN, zip(start, goal, strict=True), strict=True))
    lengths = {value for name, pair in names.items() for value in pair if name[-2:] in _LENGTHS}
    lengths |= {names["turn.prompt"][1], names["turn.prompt"][0]}
    lengths |= {sum(pair) for pair in zip(names["turn.prompt"], names["turn.output"], strict=True)}
    lengths |= {names["session.history"][1] - 1}
    pages = sorted({value // page_size * page_size for value in lengths if value >= 0})
    new = names["turn.prompt"][1] - names["session.history"][0]
    committed = sorted({names["turn.C"][1] - names["turn.C"][0], 1} - {0})
    allocated = sorted({names["turn.A"][1] - names["turn.A"][0], 0, 1})
    return {
        "t": sorted(value for value in lengths if value > 0),
        "q": pages,
        "dup": pages,
        "m": pages,
        "e": pages,
        "new": [new if new > 0 else 1],
        "prompt": [names["turn.prompt"][1] or 1],
        "row": sorted({value for i in _ROWS for value in (start[i], goal[i]) if value >= 0}) or [0],
        "sampled": [0, 1],
        "F": sorted({0, names["session.history"][1] - names["turn.prompt"][0]} - {-1}),
        "d": allocated,
        "k": committed,
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
