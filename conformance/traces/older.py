"""What older traces say in words alone, as the fields that traces have now.

Until November 2026 a violation was its sentence, and what differs was ``s1 turn.C``.
"""

from __future__ import annotations

import re
from typing import Any

from slotproof.conformance.lockstep.observation import actor_of
from slotproof.model.layout import LAYOUT

_DIFFERS = re.compile(
    r"(?:\S+ )?(?P<variable>\w+\.\w+) is (?P<engine>-?\d+)(?: after \S+)?, "
    r"the spec says (?P<spec>-?\d+)(?: \(.*\))?"
)
_GUARD = re.compile(r"\S+ needs “(?P<guard>.+)” \(.*\)")


def shown(violated: dict[str, Any]) -> dict[str, Any]:
    """The fields of a violation that has none.

    >>> shown({"conjunct": "state", "detail": "full.available is 62, the spec says 63"})
    {'variable': 'full.available', 'engine': 62, 'spec': 63}
    >>> shown({"conjunct": "guard", "detail": "T-EXTEND needs “t” (r2 of s1)"})
    {'guard': 't'}
    """
    pattern = {"state": _DIFFERS, "guard": _GUARD}.get(violated["conjunct"])
    found = pattern.fullmatch(violated["detail"]) if pattern else None
    if found is None:
        return {}
    numbers = ("engine", "spec")
    return {k: int(v) if k in numbers else v for k, v in found.groupdict().items()}


def parted(differs: dict[str, Any]) -> dict[str, Any]:
    """A difference with its variable and its actor apart.

    >>> parted({"what": "/r1 turn.C", "spec": 1})
    {'what': '/r1 turn.C', 'spec': 1, 'variable': 'turn.C', 'rid': 'r1'}
    """
    if differs.keys() & {"variable", "session", "rid"}:
        return differs
    key, _, variable = differs["what"].rpartition(" ")
    if variable not in LAYOUT:  # an actor that is on one side only
        key, variable = differs["what"], ""
    session, rid = actor_of(key or None)
    known = {"variable": variable or None, "session": session, "rid": rid}
    return differs | {name: text for name, text in known.items() if text}
