"""Where to look: the transitions of the last iteration that what is wrong points at.

The spec knows which transitions write a field. A field that is not where the spec says
was either not written by one that should have, or written by one that must not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from slotproof.conformance.traces.story import Story
from slotproof.model.render import guard
from slotproof.model.transitions import TRANSITIONS

MOST = 3
"""Places shown."""

_PAGES = ("INV-OWNER", "INV-BACKED", "INV-LOCK")
_FIGURES = ("full.", "swa.")


@dataclass(frozen=True)
class Place:
    """What is wrong, and the transitions of the engine to read next."""

    why: str
    how: str
    """How the transitions have to do with it; their names follow."""
    transitions: tuple[str, ...]
    """In their order, each once."""

    @property
    def sentences(self) -> list[tuple[str, str]]:
        """Each transition with its sentence in the spec."""
        return [(name, TRANSITIONS[name].sentence) for name in self.transitions]


def places(story: Story) -> list[Place]:
    """The plainest first; none where the engine died, or where only its own check is wrong."""
    last = story.beats[-1]
    if not last.ran:
        return []
    events = [each for each in story.last_events if each["transition"] in TRANSITIONS]
    found: dict[tuple[str, ...], Place] = {}
    for place in (*_fields(last.differs, events), *_named(story)):
        # One is enough of several fields that the same transitions wrote.
        found.setdefault(place.transitions, place)
    if not found:
        found = {each.transitions: each for each in _others(story, events)}
    return list(found.values())[:MOST]


def _fields(differs: Sequence[dict[str, Any]], events: list[dict[str, Any]]) -> Iterator[Place]:
    for each in differs:
        have, want = each.get("engine", "not there"), each.get("spec", "not there")
        why = f"{each['what'].lstrip('/')} is {have}, the spec says {want}"
        actor, _, name = each["what"].partition(" ")
        if not name:  # a figure of a pool, or somebody who should not be there, or should
            if each.get("at") in TRANSITIONS:
                yield Place(why, "moved by", (each["at"],))
            continue
        mine = [event for event in events if _about(event, actor)]
        writes = [name in TRANSITIONS[event["transition"]].effect for event in mine]
        if any(writes):
            writer = len(writes) - 1 - writes[::-1].index(True)
            names = _once(mine[writer:])
            how = (
                "the first of these writes it, the others must not:" if names[1:] else "written by"
            )
            yield Place(why, how, names)
        elif mine:
            yield Place(why, "none of these may change it, one did:", _once(mine))


def _named(story: Story) -> Iterator[Place]:
    """What a violated clause names itself, and where it is only a guard."""
    for violation in story.trace.violations:
        if violation.transition in TRANSITIONS and violation.conjunct == "guard":
            name = violation.detail.partition("“")[2].partition("”")[0]
            lines = guard(TRANSITIONS[violation.transition]).get(name, [])
            formula = f": {' '.join(' '.join(lines).split())}" if lines else ""
            why = f"{violation.detail}{formula}"
            yield Place(why, "not allowed here:", (violation.transition,))


def _others(story: Story, events: list[dict[str, Any]]) -> Iterator[Place]:
    """No length and no count is wrong."""
    broken = {each.invariant for each in story.trace.violations}
    for each in story.trace.violations:
        if each.transition in TRANSITIONS:
            yield Place(f"{each.clause}: {each.detail}", "at", (each.transition,))
    if "INV-PROGRESS" in broken and events:
        yield Place("nothing changes any more", "each iteration is only", _once(events))
    if broken.intersection(_PAGES):
        moved = [event for event in events if _moves(event["transition"])]
        if moved:
            why = "every length and count is right, but not which page is whose"
            yield Place(why, "one of these gave or took a wrong page, or lock:", _once(moved))


def _moves(transition: str) -> bool:
    """Memory, or the lock that keeps it."""
    effect = TRANSITIONS[transition].full_effect
    return any(name.startswith(_FIGURES) or name.endswith(".locked") for name in effect)


def _about(event: dict[str, Any], actor: str) -> bool:
    if actor.startswith("/"):
        return event.get("request") == actor[1:]
    return event.get("session") == actor


def _once(events: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(event["transition"] for event in events))
