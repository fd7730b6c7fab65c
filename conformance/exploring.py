"""Exhaustive where Hypothesis samples: every command of a small alphabet in every class of states.

The engine is explored breadth first. A state is known by its *class*: a small
abstraction of what its snapshot shows. The shortest way to each new class is
kept; from it every word of the alphabet is tried once, on a fresh engine that
went that way. All oracles look on, as in ``run``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from slotproof.conformance.machine import prompt
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.model.evaluate import INDEX
from slotproof.model.state import MATCHED, PLAIN
from slotproof.model.world import POOLS, World

Class = tuple[object, ...]
_AT = {name: index - POOLS for name, index in INDEX.items()}


def class_of(world: World) -> Class:
    """What makes two states alike: who is in which phase, what their KV is like, how tight it is.

    Sessions are interchangeable, lengths count only by what the guards ask of them.
    """
    page = world.constants.page_size
    sessions = []
    alone = []
    for key, values in world.actors.items():
        if key.startswith("/"):
            alone.append(_request(values, page))
        else:
            sessions.append((*_session(values), *_slot(values, page), *_request(values, page)))
    full, swa = world.pools[1:4], world.pools[5:8]
    return (
        tuple(sorted(sessions)),
        tuple(sorted(alone)),
        min(full[0] // page, 1),
        full[1] > 0,
        min(world.pools[9], 1),
        min(swa[0] // page, 1),
    )


def _session(values: list[int]) -> tuple[bool, ...]:
    return (
        bool(values[_AT["session.open"]]),
        bool(values[_AT["session.closing"]]),
        bool(values[_AT["session.inflight"]]),
        values[_AT["session.history"]] > 0,
    )


def _slot(values: list[int], page: int) -> tuple[bool, ...]:
    get = {name: values[_AT[f"slot.{name}"]] for name in ("holding", "lent", "C", "A", "Q", "E")}
    if not get["holding"]:
        return (False,) * 6
    if get["lent"]:
        return (True, True, False, False, False, False)
    partial = get["C"] > values[_AT["session.history"]]
    return (True, False, partial, get["A"] % page > 0, get["Q"] > 0, get["E"] > 0)


def _request(values: list[int], page: int) -> tuple[int, ...]:
    get = {
        name: values[_AT[f"turn.{name}"]]
        for name in ("kind", "phase", "prompt", "output", "C", "A", "Q", "E")
    }
    if get["phase"] < MATCHED:
        return (int(get["kind"] == PLAIN), get["phase"], int(get["output"] > 0), 0, 0, 0)
    known = get["prompt"] + get["output"]
    kv = (get["A"] > get["C"]) + 2 * (get["Q"] > 0) + 4 * (get["E"] > get["Q"])
    return (int(get["kind"] == PLAIN), get["phase"], int(get["output"] > 0), int(known - 1 > get["C"]),
            kv, get["A"] % page > 0)
