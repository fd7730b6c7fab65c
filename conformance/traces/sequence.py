"""The sequence diagram: its participants, and what goes from which of them to which."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slotproof.model.transitions import TRANSITIONS

LANES = ("client", "scheduler", "slot", "turn", "pool", "tree")

WAYS: dict[str, tuple[str, str]] = {
    "T-OPEN": ("client", "scheduler"),
    "T-CLOSE": ("slot", "pool"),
    "T-CLOSE-DEFER": ("client", "scheduler"),
    "T-REAP": ("slot", "pool"),
    "T-SUBMIT": ("scheduler", "turn"),
    "T-REJECT": ("scheduler", "client"),
    "T-DOOM": ("scheduler", "turn"),
    "T-PLAIN-SUBMIT": ("scheduler", "turn"),
    "T-MATCH": ("tree", "turn"),
    "T-RESTORE": ("slot", "turn"),
    "T-DISCARD": ("slot", "pool"),
    "T-REFUSE": ("turn", "slot"),
    "T-EXTEND": ("pool", "turn"),
    "T-PARK": ("scheduler", "turn"),
    "T-INSERT": ("turn", "tree"),
    "T-DECODE": ("pool", "turn"),
    "T-SWA-ADVANCE": ("turn", "pool"),
    "T-SAVE": ("turn", "slot"),
    "T-ABORT": ("turn", "pool"),
    "T-ABORT-PUBLISH": ("turn", "tree"),
    "T-OOM": ("turn", "pool"),
    "T-ABORT-WAITING": ("scheduler", "turn"),
    "T-ABORT-PARTIAL": ("slot", "pool"),
    "T-RETRACT": ("turn", "slot"),
    "T-RETRACT-WIPE": ("turn", "pool"),
    "T-EVICT": ("tree", "pool"),
    "T-PLAIN-FINISH": ("turn", "tree"),
    "T-PLAIN-ABORT": ("turn", "pool"),
    "T-PLAIN-RETRACT": ("turn", "pool"),
}
"""From where to where what a transition moves goes; of several, what matters most."""


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


def arrow(event: dict[str, Any], reasons: Sequence[str] = ()) -> Arrow:
    """A transition as an arrow."""
    name = event["transition"]
    source, target = WAYS.get(name, ("scheduler", "scheduler"))
    # Who it is about: the turn says more than its session.
    who = " of ".join(event[key] for key in ("request", "session") if event.get(key))
    params = " ".join(
        f"{key}={value}" for key, value in event.get("params", {}).items() if key != "row"
    )
    known = TRANSITIONS.get(name)
    sentence = known.sentence if known is not None else ""
    note = ", ".join(filter(None, (who, params)))
    return Arrow(source, target, name, note, sentence, tuple(reasons))


def answer(message: dict[str, Any]) -> Arrow:
    """What a client was told, as an arrow."""
    kind = message["type"]
    if kind == "finish":
        label = f"{message.get('rid', '?')} ends: {message.get('reason', '?')}"
        tokens = message.get("tokens")
        note = "" if tokens is None else f"{tokens} tokens"
    else:
        label, note = f"{message.get('session', '?')} {kind}", ""
    said = message.get("message", "")
    return Arrow("scheduler", "client", label, note, said)


def arrows(frame: Any, wrong: Mapping[str, Sequence[str]]) -> Iterator[Arrow]:
    """The transitions of an iteration, then what clients were told. ``wrong``: by transition,
    what violated clauses say of it."""
    for event in frame.events:
        yield arrow(event, wrong.get(event["transition"], ()))
    for message in frame.told:
        yield answer(message)
