"""Where to look: the transitions of the last iteration that what is wrong points at.

The spec knows which transitions write a field. A field that is not where the spec says
was either not written by one that should have, or written by one that must not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from slotproof.conformance.traces.story import FIGURES, Story
from slotproof.model.render import guard
from slotproof.model.transitions import TRANSITIONS

MOST = 3
"""Places shown."""

_PAGES = ("INV-OWNER", "INV-BACKED", "INV-LOCK")
_POOLS = ("full.", "swa.")
_SESSION = "session."

Event = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """What is wrong, and the transitions of the engine to read next."""

    why: str
    how: str
    """What the transitions have to do with it; their names follow."""
    events: tuple[str, ...]
    """``T-REJECT r2``, in their order, each once."""
    also: tuple[str, ...] = ()
    """Others that moved the same figure in the iteration."""

    @property
    def steps(self) -> list[tuple[str, str]]:
        """Each with its sentence in the spec."""
        return [(each, TRANSITIONS[each.partition(" ")[0]].sentence) for each in self.events]


def places(story: Story) -> list[Place]:
    """The plainest first; none where the engine died, or where only its own check is wrong."""
    if not story.beats[-1].ran:
        return []
    events = [each for each in story.last_events if each["transition"] in TRANSITIONS]
    every = [*_fields(story, events), *_guards(story)] or list(_others(story, events))
    found: dict[tuple[str, ...], Place] = {}
    for place in every:
        # One is enough of several fields that the same transitions wrote.
        found.setdefault(place.events, place)
    return list(found.values())[:MOST]


def _fields(story: Story, events: list[Event]) -> Iterator[Place]:
    for each in story.beats[-1].differs:
        have, want = each.get("engine", "not there"), each.get("spec", "not there")
        why = f"{each['what'].lstrip('/')} is {have}, the spec says {want}"
        name = each.get("variable", "")
        if name and name not in FIGURES:
            yield from _field(why, name, [event for event in events if _about(event, each, story)])
        elif each.get("at") in TRANSITIONS:
            moved = [event for event in events if _writes(event, name)]
            last = [event for event in moved if event["transition"] == each["at"]][-1:]
            names = _names(last) or (each["at"],)
            also = tuple(each for each in _names(moved) if each not in names)
            yield Place(why, "last moved by", names, also)


def _field(why: str, name: str, mine: list[Event]) -> Iterator[Place]:
    """``mine``: what happened to the actor whose field it is."""
    writes = [_writes(event, name) for event in mine]
    if not any(writes):
        if mine:
            yield Place(why, "none of these may change it, one did:", _names(mine))
        return
    at = len(writes) - 1 - writes[::-1].index(True)
    (writer,), after = _names([mine[at]]), _names(mine[at + 1 :])
    if after:
        yield Place(why, f"{writer} writes it; if it did, one of these undid it:", after)
    else:
        yield Place(why, "written by", (writer,))


def _guards(story: Story) -> Iterator[Place]:
    for violation in story.trace.violations:
        known = TRANSITIONS.get(violation.transition or "")
        if known is None or violation.conjunct != "guard":
            continue
        formula = " ".join(" ".join(guard(known).get(violation.guard or "", ())).split())
        why = f"{violation.detail}: {formula}" if formula else violation.detail
        yield Place(why, "not allowed here:", (known.id,))


def _others(story: Story, events: list[Event]) -> Iterator[Place]:
    """No length and no count is wrong."""
    broken = {each.invariant for each in story.trace.violations}
    for each in story.trace.violations:
        if each.transition in TRANSITIONS:
            yield Place(f"{each.clause}: {each.detail}", "at", (each.transition,))
    if "INV-PROGRESS" in broken and events:
        yield Place("nothing changes any more", "each iteration is only", _names(events))
    if broken.intersection(_PAGES):
        moved = [event for event in events if _moves(event)]
        if moved:
            why = "every length and count is right, but not which page is whose"
            how = "one of these gave or took a wrong page, or lock:"
            yield Place(why, how, _names(moved))


def _writes(event: Event, name: str) -> bool:
    return name in TRANSITIONS[event["transition"]].full_effect


def _moves(event: Event) -> bool:
    """Memory, or the lock that keeps it."""
    effect = TRANSITIONS[event["transition"]].full_effect
    return any(name.startswith(_POOLS) or name.endswith(".locked") for name in effect)


def _about(event: Event, differs: dict[str, Any], story: Story) -> bool:
    """A request that was rejected is no turn of the session; it may touch it all the same."""
    request, session = event.get("request"), differs.get("session")
    if session is None:
        return bool(request == differs["rid"])
    if event.get("session") == session:
        return True
    sent_to: str | None = story.sent_to.get(request or "")
    variable: str = differs["variable"]
    return sent_to == session and variable.startswith(_SESSION)


def _names(events: Iterable[Event]) -> tuple[str, ...]:
    named = (
        " ".join(filter(None, (event["transition"], event.get("request")))) for event in events
    )
    return tuple(dict.fromkeys(named))
