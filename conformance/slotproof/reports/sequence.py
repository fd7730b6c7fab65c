"""The sequence diagram: its participants, and what goes from which of them to which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slotproof_model.spec.expr import variables
from slotproof_model.spec.memory import Move
from slotproof_model.spec.state import slot
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS

LANES = ("client", "scheduler", "slot", "turn", "pool", "tree")

_WAYS = {
    Move.TO_TREE: ("turn", "tree"),
    Move.ALLOC: ("pool", "turn"),
    Move.LOCK: ("tree", "turn"),
    Move.EVICT: ("tree", "pool"),
}
"""Memory moves by what matters most."""


def _way(each: Transition) -> tuple[str, str]:
    """From where to where what it moves goes."""
    if each.becomes(slot.lent):
        return "slot", "turn"
    if each.becomes(slot.lent) is False and each.becomes(slot.holding) is not False:
        return "turn", "slot"
    moved = {mem.move: mem for mem in each.memory}
    for move, way in _WAYS.items():
        if move in moved:
            return way
    if Move.FREE in moved:
        mem = moved[Move.FREE]
        ends = (mem.full.lo, mem.full.hi, mem.swa.lo, mem.swa.hi)
        names = {name for end in ends for name in variables(end)}
        return "slot" if any(name.startswith("slot.") for name in names) else "turn", "pool"
    if any(name.startswith("req.") for name in each.effect):
        return "scheduler", "turn"
    return ("client", "scheduler") if each.effect else ("scheduler", "client")


WAYS: dict[str, tuple[str, str]] = {id_: _way(each) for id_, each in TRANSITIONS.items()}


@dataclass(frozen=True)
class Arrow:
    """Something that goes from one participant to another."""

    source: str
    target: str
    label: str
    """``T-EXTEND``, or what a client said or was told."""
    note: str = ""
    """Whom it is about, and its parameters."""
    sentence: str = ""
    """The transition's sentence in the spec."""
    reasons: tuple[str, ...] = ()
    """What violated clauses that name it say."""

    @property
    def bad(self) -> bool:
        """A violated clause names it."""
        return bool(self.reasons)


def arrows(frame: Any, wrong: Mapping[str, Sequence[str]]) -> Iterator[Arrow]:
    """The transitions of an iteration, then what clients were told. ``wrong``: by transition,
    what violated clauses say of it."""
    for event in frame.events:
        name = event["transition"]
        # Who it is about: the turn says more than its session.
        who = " of ".join(event[key] for key in ("request", "session") if event.get(key))
        params = event.get("params", {}).items()
        shown = " ".join(f"{key}={value}" for key, value in params if key != "row")
        note = ", ".join(filter(None, (who, shown)))
        sentence = TRANSITIONS[name].sentence if name in TRANSITIONS else ""
        source, target = WAYS.get(name, ("scheduler", "scheduler"))
        yield Arrow(source, target, name, note, sentence, tuple(wrong.get(name, ())))
    yield from map(answer, frame.told)


def answer(message: dict[str, Any]) -> Arrow:
    """What a client was told, as an arrow."""
    label, note = f"{message.get('session', '?')} {message['type']}", ""
    if message["type"] == "finish":
        label = f"{message.get('rid', '?')} ends: {message.get('reason', '?')}"
        note = f"{message['tokens']} tokens" if "tokens" in message else ""
    return Arrow("scheduler", "client", label, note, message.get("message", ""))
