"""Parameters of events that report tokens, for tests that do not care about them."""

from __future__ import annotations

from collections.abc import Mapping

from slotproof_model.evaluation.layout import INDEX, Vector
from slotproof_model.spec.transitions import TRANSITIONS


def whole(transition: str, vector: Vector, params: Mapping[str, int]) -> dict[str, int]:
    """Add ``at``, ``told`` and ``ahead``: the tokens follow the known tokens, all belong to the
    answer, and nothing is allocated ahead."""
    known = vector[INDEX["req.prompt"]] + vector[INDEX["req.output"]]
    reported = params.get("sampled", params.get("k", 0))
    names = TRANSITIONS[transition].names if transition in TRANSITIONS else ()
    more = {"at": known, "told": reported, "ahead": 0}
    return {**{name: value for name, value in more.items() if name in names}, **params}
