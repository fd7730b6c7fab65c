"""What older traces say in words alone, as the fields that traces have now.

Until November 2026 a violation was its sentence, and what differs was ``s1 turn.C``; the actor's
request was called ``turn`` whether or not it had a session, and INV-CLEAN was five invariants in
one.
"""

from __future__ import annotations

import re
from typing import Any

from slotproof.lockstep.observation import actor_of
from slotproof_model.evaluation.layout import LAYOUT

_DIFFERS = re.compile(
    r"(?:\S+ )?(?P<variable>\w+\.\w+) is (?P<engine>-?\d+)(?: after \S+)?, "
    r"the spec says (?P<spec>-?\d+)(?: \(.*\))?"
)
_GUARD = re.compile(r"\S+ needs “(?P<guard>.+)” \(.*\)")


_CLAUSES = {
    **{
        f"INV-{name}.turn": f"INV-{name}.req"
        for name in ("ORDER", "ALIGN", "CURSOR", "WINDOW", "COVER", "LOCK", "ROWS-STEP")
    },
    **{f"INV-CLEAN.{name}": f"INV-ABSENT.{name}" for name in ("slot", "session")},
    "INV-CLEAN.turn": "INV-ABSENT.kv",
    "INV-CLEAN.request": "INV-ABSENT.req",
    "INV-CLEAN.kinds": "INV-KIND.range",
    "INV-CLEAN.alone": "INV-KIND.alone",
    **{f"INV-CLEAN.{name}": f"INV-PHASE.{name}" for name in ("row", "matched", "parked")},
    "INV-CLEAN.own_slot": "INV-LOAN.lent",
    "INV-CLEAN.loan": "INV-LOAN.prefix",
    "INV-CLEAN.tokens": "INV-TOKENS.counted",
    "INV-CLEAN.prompt": "INV-TOKENS.prompt",
}


def clause(name: str) -> str:
    """What a clause is called now.

    >>> clause("INV-CLEAN.prompt"), clause("INV-SUM-FULL.equation")
    ('INV-TOKENS.prompt', 'INV-SUM-FULL.equation')
    """
    return _CLAUSES.get(name, name)


def _variable(name: str) -> str:
    return name.replace("turn.", "req.", 1) if name.startswith("turn.") else name


def violation(violated: dict[str, Any]) -> dict[str, Any]:
    """A violation with the fields and the names that they have now.

    >>> violation({"invariant": "INV-ORDER", "conjunct": "turn", "detail": ""})
    {'invariant': 'INV-ORDER', 'conjunct': 'req', 'detail': ''}
    """
    known = {**shown(violated), **violated}
    now = clause(f"{violated['invariant']}.{violated['conjunct']}")
    known["invariant"], _, known["conjunct"] = now.partition(".")
    if known.get("variable"):
        known["variable"] = _variable(known["variable"])
    return known


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
    {'what': '/r1 turn.C', 'spec': 1, 'variable': 'req.C', 'rid': 'r1'}
    """
    if differs.keys() & {"variable", "session", "rid"}:
        if differs.get("variable"):
            return differs | {"variable": _variable(differs["variable"])}
        return differs
    key, _, variable = differs["what"].rpartition(" ")
    variable = _variable(variable)
    if variable not in LAYOUT:  # an actor that is on one side only
        key, variable = differs["what"], ""
    session, rid = actor_of(key or None)
    known = {"variable": variable or None, "session": session, "rid": rid}
    return differs | {name: text for name, text in known.items() if text}
