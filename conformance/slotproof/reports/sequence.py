"""The sequence diagram: its participants and arrows."""

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
"""Source and target of an arrow, by memory move. The first move that a transition has decides."""


def _way(transition: Transition) -> tuple[str, str]:
    """Return the source and target of the arrow that stands for a transition."""
    if transition.becomes(slot.lent):
        return "slot", "turn"
    if transition.becomes(slot.lent) is False and transition.becomes(slot.holding) is not False:
        return "turn", "slot"
    moved = {mem.move: mem for mem in transition.memory}
    for move, way in _WAYS.items():
        if move in moved:
            return way
    if Move.FREE in moved:
        mem = moved[Move.FREE]
        ends = (mem.full.lo, mem.full.hi, mem.swa.lo, mem.swa.hi)
        names = {name for end in ends for name in variables(end)}
        return "slot" if any(name.startswith("slot.") for name in names) else "turn", "pool"
    if any(name.startswith("req.") for name in transition.effect):
        return "scheduler", "turn"
    return ("client", "scheduler") if transition.effect else ("scheduler", "client")


WAYS: dict[str, tuple[str, str]] = {name: _way(of) for name, of in TRANSITIONS.items()}


@dataclass(frozen=True)
class Arrow:
    """An arrow from one participant to another."""

    source: str
    target: str
    label: str
    """Name of a transition, such as ``T-EXTEND``, or a message to a client."""
    note: str = ""
    """Request, session and parameters of the event."""
    sentence: str = ""
    """The transition's sentence in the spec."""
    reasons: tuple[str, ...] = ()
    """Messages of the violated clauses that name this transition."""

    @property
    def bad(self) -> bool:
        """True if a violated clause names this transition."""
        return bool(self.reasons)


def arrows(frame: Any, wrong: Mapping[str, Sequence[str]]) -> Iterator[Arrow]:
    """Yield an arrow per transition of an iteration, then an arrow per message to a client.
    ``wrong`` has the messages of violated clauses, by transition."""
    for event in frame.events:
        name = event["transition"]
        # The request comes first, because a turn is more specific than its session.
        who = " of ".join(event[key] for key in ("request", "session") if event.get(key))
        params = event.get("params", {}).items()
        shown = " ".join(f"{key}={value}" for key, value in params if key != "row")
        note = ", ".join(filter(None, (who, shown)))
        sentence = TRANSITIONS[name].sentence if name in TRANSITIONS else ""
        source, target = WAYS.get(name, ("scheduler", "scheduler"))
        yield Arrow(source, target, name, note, sentence, tuple(wrong.get(name, ())))
    yield from map(answer, frame.told)


def answer(message: dict[str, Any]) -> Arrow:
    """Return a message to a client as an arrow."""
    label, note = f"{message.get('session', '?')} {message['type']}", ""
    if message["type"] == "finish":
        label = f"{message.get('rid', '?')} ends: {message.get('reason', '?')}"
        note = f"{message['tokens']} tokens" if "tokens" in message else ""
    return Arrow("scheduler", "client", label, note, message.get("message", ""))
