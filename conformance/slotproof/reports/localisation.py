"""Fault localization: transitions that the engine may have got wrong in the last iteration.

The spec defines which fields each transition writes. If a field differs from the spec, a transition
failed to write the field, or some transition wrote a wrong value. For each transition, the report
also names the engine methods that carry out the transition, if they are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from slotproof.engines.methods import Methods, methods_of
from slotproof.lockstep.oracles.content import STORED_RIGHT
from slotproof.reports.view import FIGURES, View
from slotproof.reports.wording import guard_words
from slotproof_model.spec.memory import Move
from slotproof_model.spec.state import req
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.text.idioms import words_of
from slotproof_model.text.render import guard

MOST = 3
"""Maximum number of suspects in a report."""

DIFFERS = "the answer differs from the answer of a run without a cache"

Event = dict[str, Any]


@dataclass(frozen=True)
class Suspects:
    """A symptom, and the transitions that may have caused the symptom."""

    why: str
    how: str
    """Words between the symptom and the transitions' names, such as ``written by``."""
    events: tuple[str, ...]
    """Transitions with their requests, as ``T-REJECT r2``, in order and without repetition."""
    also: tuple[str, ...] = ()
    """Other transitions of the iteration that changed the same variable."""
    methods: Methods = field(default_factory=dict)
    """Methods of the engine that carry out each transition, by transition."""

    def made_by(self, event: str) -> tuple[str, ...]:
        """Return the engine's methods for an event's transition, or () if unknown."""
        return self.methods.get(event.partition(" ")[0], ())

    def sentence(self, event: str) -> str:
        """Return the spec's sentence about the event's transition."""
        return TRANSITIONS[event.partition(" ")[0]].sentence

    def to_json(self) -> dict[str, Any]:
        """Return the suspects as JSON."""
        return {"why": self.why, "how": self.how} | {
            key: [{"event": event, "methods": self.made_by(event)} for event in events]
            for key, events in {"transitions": self.events, "also": self.also}.items()
        }


def suspects(view: View) -> list[Suspects]:
    """Return the suspects, the most certain first. Return an empty list if nothing is violated, if
    the engine crashed, or if only the engine's own check is wrong."""
    if not view.trace.violations or not view.steps[-1].ran:
        return []
    events = [event for event in view.last_events if event["transition"] in TRANSITIONS]
    every = [*_guards(view), *_fields(view, events)] or list(_others(view, events))
    # If one change of the spec explains the violation, that change is almost certainly the bug.
    for change in (view.trace.explained or ())[:1]:
        done = _names(event for event in events if event["transition"] == change.transition)
        every.insert(0, Suspects(f"as if {change}", "see", done or (change.transition,)))
    distinct: dict[tuple[str, ...], Suspects] = {}
    for suspect in every:
        # Several wrong fields may have the same suspects. The first such field is enough.
        distinct.setdefault(suspect.events, suspect)
    methods = methods_of(view.trace.engine)
    return [replace(suspect, methods=methods) for suspect in list(distinct.values())[:MOST]]


def _fields(view: View, events: list[Event]) -> Iterator[Suspects]:
    for at in view.steps[-1].differs:
        name = at.get("variable", "")
        have, want = (
            words_of(name).get(at[side], at[side]) if side in at else "missing"
            for side in ("engine", "spec")
        )
        why = f"{at['what'].lstrip('/')} is {have}, the spec says {want}"
        if name and name not in FIGURES:
            yield from _field(why, name, [event for event in events if _about(event, at, view)])
        elif at.get("at") in TRANSITIONS:
            moved = [event for event in events if _writes(event, name)]
            last = [event for event in moved if event["transition"] == at["at"]][-1:]
            names = _names(last) or (at["at"],)
            also = tuple(event for event in _names(moved) if event not in names)
            yield Suspects(why, "last changed by", names, also)


def _field(why: str, name: str, events: list[Event]) -> Iterator[Suspects]:
    """Yield the suspects for a field. ``events`` are the events of the field's actor."""
    writes = [_writes(event, name) for event in events]
    if not any(writes):
        if events:
            yield Suspects(why, "the field was wrongly changed by one of:", _names(events))
        return
    at = len(writes) - 1 - writes[::-1].index(True)
    (writer,), after = _names([events[at]]), _names(events[at + 1 :])
    if after:
        yield Suspects(why, f"{writer} wrote a wrong value, or the field was changed by:", after)
    else:
        yield Suspects(why, "written by", (writer,))


def _guards(view: View) -> Iterator[Suspects]:
    for violation in view.trace.violations:
        known = TRANSITIONS.get(violation.transition or "")
        if known is None or violation.conjunct != "guard":
            continue
        formula = " ".join(" ".join(guard(known).get(violation.guard or "", ())).split())
        words = guard_words(known.id, violation.guard or "")
        why = f"{violation.detail}: {words} ({formula})" if words else violation.detail
        yield Suspects(why, "the spec does not allow this transition in this state:", (known.id,))


def _others(view: View, events: list[Event]) -> Iterator[Suspects]:
    """Yield suspects for violations without a wrong length or count."""
    broken = {name for bad in view.trace.violations for name in (bad.invariant, bad.clause)}
    stored = any(violation.detail.endswith(STORED_RIGHT) for violation in view.trace.violations)
    stalls = any(violation.clause == "INV-PROGRESS.stalled" for violation in view.trace.violations)
    for bad in view.trace.violations:
        if bad.transition in TRANSITIONS:
            yield Suspects(f"{bad.clause}: {bad.detail}", "at", (bad.transition,))
    if stalls and events:
        yield Suspects("nothing changes any more", "every iteration repeats only", _names(events))
    for invariants, moves, why, how in (
        (
            {"INV-CONTENT.stamp"},
            _fills,
            "lengths and counts are right, but the KV is wrong or belongs to another request",
            "one of these transitions wrote the KV, or pointed the row to it:",
        ),
        (
            {"INV-CONTENT.tokens"},
            _samples if stored else _fills,
            f"the sampled tokens are wrong, {STORED_RIGHT}" if stored else DIFFERS,
            "the last tokens were sampled by:" if stored else "the last tokens came from:",
        ),
        (
            {"INV-OWNER", "INV-BACKED", "INV-LOCK"},
            _moves,
            "every length and count is right, but a page has the wrong owner",
            "one of these transitions took or released a wrong page or lock:",
        ),
    ):
        if (moved := _names(filter(moves, events))) and broken & invariants:
            yield Suspects(why, how, moved)


def _writes(event: Event, name: str) -> bool:
    return name in TRANSITIONS[event["transition"]].full_effect


def _moves(event: Event) -> bool:
    """Return True if the event moves memory, or takes or releases a lock."""
    effect = TRANSITIONS[event["transition"]].full_effect
    return any(name.startswith(("full.", "swa.")) or name.endswith(".locked") for name in effect)


def _fills(event: Event) -> bool:
    """Return True if the event computes KV, or points a row to KV that already exists."""
    known = TRANSITIONS[event["transition"]]
    return any(step.move in (Move.ALLOC, Move.POINT) for step in known.memory)


def _samples(event: Event) -> bool:
    """Return True if the event appends output tokens, instead of setting the output's length."""
    known = TRANSITIONS[event["transition"]]
    return _writes(event, req.output.name) and known.becomes(req.output) is None


def _about(event: Event, differs: dict[str, Any], view: View) -> bool:
    """Return True if the event is about the differing actor, or rejects a turn of its session."""
    request, session = event.get("request"), differs.get("session")
    if session is None:
        return bool(request == differs["rid"])
    if event.get("session") == session:
        return True
    sent_to: str | None = view.sent_to.get(request or "")
    variable: str = differs["variable"]
    return sent_to == session and variable.startswith("session.")


def _names(events: Iterable[Event]) -> tuple[str, ...]:
    told = (" ".join(filter(None, (event["transition"], event.get("request")))) for event in events)
    return tuple(dict.fromkeys(told))
