"""Fault localisation: the transitions of the last iteration that may have done it.

The spec knows which transitions write a field. A field that is not where the spec says
was either not written by one that should have, or written by one that must not. Beside each
transition are the methods that make it, where they are known of the engine.
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
"""Shown at most."""

DIFFERS = "the answer differs from that without a cache"
_POOLS = ("full.", "swa.")

Event = dict[str, Any]


@dataclass(frozen=True)
class Suspects:
    """What is wrong, and the transitions of the engine to read next."""

    why: str
    how: str
    """What the transitions have to do with it; their names follow."""
    events: tuple[str, ...]
    """``T-REJECT r2``, in their order, each once."""
    also: tuple[str, ...] = ()
    """Others that moved the same figure in the iteration."""
    methods: Methods = field(default_factory=dict)
    """Those of the engine that the trace was made on."""

    def made_by(self, event: str) -> tuple[str, ...]:
        """Return the engine's methods that make an event; none where they are not known."""
        return self.methods.get(event.partition(" ")[0], ())

    def sentence(self, event: str) -> str:
        """Return the spec's sentence about the event's transition."""
        return TRANSITIONS[event.partition(" ")[0]].sentence

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        found = {"transitions": self.events, "also": self.also}
        return {"why": self.why, "how": self.how} | {
            key: [{"event": each, "methods": self.made_by(each)} for each in events]
            for key, events in found.items()
        }


def suspects(view: View) -> list[Suspects]:
    """The plainest first; none where nothing is violated, the engine died, or only its own check
    is wrong."""
    if not view.trace.violations or not view.steps[-1].ran:
        return []
    events = [each for each in view.last_events if each["transition"] in TRANSITIONS]
    every = [*_guards(view), *_fields(view, events)] or list(_others(view, events))
    # What one change of the spec explains is certain, or nearly so.
    for change in (view.trace.explained or ())[:1]:
        done = _names(event for event in events if event["transition"] == change.transition)
        every.insert(0, Suspects(f"as if {change}", "see", done or (change.transition,)))
    found: dict[tuple[str, ...], Suspects] = {}
    for each in every:
        # One is enough of several fields that the same transitions wrote.
        found.setdefault(each.events, each)
    methods = methods_of(view.trace.engine)
    return [replace(each, methods=methods) for each in list(found.values())[:MOST]]


def _fields(view: View, events: list[Event]) -> Iterator[Suspects]:
    for each in view.steps[-1].differs:
        name = each.get("variable", "")
        have, want = (
            words_of(name).get(each[side], each[side]) if side in each else "not there"
            for side in ("engine", "spec")
        )
        why = f"{each['what'].lstrip('/')} is {have}, the spec says {want}"
        if name and name not in FIGURES:
            yield from _field(why, name, [event for event in events if _about(event, each, view)])
        elif each.get("at") in TRANSITIONS:
            moved = [event for event in events if _writes(event, name)]
            last = [event for event in moved if event["transition"] == each["at"]][-1:]
            names = _names(last) or (each["at"],)
            also = tuple(each for each in _names(moved) if each not in names)
            yield Suspects(why, "last moved by", names, also)


def _field(why: str, name: str, mine: list[Event]) -> Iterator[Suspects]:
    """``mine``: what happened to the actor whose field it is."""
    writes = [_writes(event, name) for event in mine]
    if not any(writes):
        if mine:
            yield Suspects(why, "none of these may change it, one did:", _names(mine))
        return
    at = len(writes) - 1 - writes[::-1].index(True)
    (writer,), after = _names([mine[at]]), _names(mine[at + 1 :])
    if after:
        yield Suspects(why, f"{writer} writes it; if it did, one of these undid it:", after)
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
        yield Suspects(why, "not allowed here:", (known.id,))


def _others(view: View, events: list[Event]) -> Iterator[Suspects]:
    """No length and no count is wrong."""
    broken = {name for each in view.trace.violations for name in (each.invariant, each.clause)}
    stored = any(each.detail.endswith(STORED_RIGHT) for each in view.trace.violations)
    stalls = any(each.clause == "INV-PROGRESS.stalled" for each in view.trace.violations)
    for each in view.trace.violations:
        if each.transition in TRANSITIONS:
            yield Suspects(f"{each.clause}: {each.detail}", "at", (each.transition,))
    if stalls and events:
        yield Suspects("nothing changes any more", "each iteration is only", _names(events))
    looks = (
        (
            {"INV-CONTENT.stamp"},
            _fills,
            "what is stored is wrong, or it is another's: lengths and counts are right",
            "one of these wrote it, or pointed the row to it:",
        ),
        (
            {"INV-CONTENT.tokens"},
            _samples if stored else _fills,
            f"the sampled tokens are wrong, {STORED_RIGHT}" if stored else DIFFERS,
            "the last were sampled by:" if stored else "the last came of:",
        ),
        (
            {"INV-OWNER", "INV-BACKED", "INV-LOCK"},
            _moves,
            "every length and count is right, but not which page is whose",
            "one of these gave or took a wrong page, or lock:",
        ),
    )
    for invariants, moves, why, how in looks:
        moved = _names(filter(moves, events))
        if moved and broken & invariants:
            yield Suspects(why, how, moved)


def _writes(event: Event, name: str) -> bool:
    return name in TRANSITIONS[event["transition"]].full_effect


def _moves(event: Event) -> bool:
    """Memory, or the lock that keeps it."""
    effect = TRANSITIONS[event["transition"]].full_effect
    return any(name.startswith(_POOLS) or name.endswith(".locked") for name in effect)


def _fills(event: Event) -> bool:
    """It computes KV, or has a row point to that of others."""
    known = TRANSITIONS[event["transition"]]
    return any(each.move in (Move.ALLOC, Move.POINT) for each in known.memory)


def _samples(event: Event) -> bool:
    """It appends to the output: other transitions set its length to a constant."""
    known = TRANSITIONS[event["transition"]]
    return _writes(event, req.output.name) and known.becomes(req.output) is None


def _about(event: Event, differs: dict[str, Any], view: View) -> bool:
    """A request that was rejected is no turn of the session; it may touch it all the same."""
    request, session = event.get("request"), differs.get("session")
    if session is None:
        return bool(request == differs["rid"])
    if event.get("session") == session:
        return True
    sent_to: str | None = view.sent_to.get(request or "")
    variable: str = differs["variable"]
    return sent_to == session and variable.startswith("session.")


def _names(events: Iterable[Event]) -> tuple[str, ...]:
    named = (
        " ".join(filter(None, (event["transition"], event.get("request")))) for event in events
    )
    return tuple(dict.fromkeys(named))
