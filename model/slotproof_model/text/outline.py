"""The spec as plain data, every formula as text: what two versions of it are compared by.

Reads an older spec as well: ``slotproof docs --diff`` puts this module and what it is
rendered with beside the model of that time.
"""

from __future__ import annotations

from slotproof_model.spec.invariants import ENVIRONMENT, INVARIANTS
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.text import render
from slotproof_model.text.named import named

Outline = dict[str, dict[str, dict[str, str]]]
"""By section (transitions, invariants, …) and name: what it says, by field."""


def outline() -> Outline:
    """The spec of this package.

    >>> outline()["transitions"]["T-PARK"]["guard.running"]
    'req.phase = running'
    """
    return {
        "transitions": {each.id: _transition(each) for each in TRANSITIONS.values()},
        "invariants": {
            each.id: {
                "sentence": each.sentence,
                "kind": each.kind.value,
                **{name: render.formula(expr) for name, expr in each.conjuncts.items()},
                **{f"{name} (on engines)": text for name, text in each.observed.items()},
            }
            for each in INVARIANTS.values()
        },
        "terms": {
            each.name: {"is": render.formula(each.expr, written_out=True)} for each in named()
        },
        "environment": {name: {"is": render.formula(expr)} for name, expr in ENVIRONMENT.items()},
        "meaning": {
            each.id: {name: render.formula(expr) for name, expr in each.means.items()}
            for each in TRANSITIONS.values()
        },
        "profiles": {
            name: {choice: str(value) for choice, value in profile.choices.items()}
            for name, profile in PROFILES.items()
        },
    }


def _transition(each: Transition) -> dict[str, str]:
    says = {"sentence": each.sentence}
    if each.params:
        says["parameters"] = ", ".join(render.symbol(var.name) for var in each.params)
        says |= {f"parameter {render.symbol(var.name)}": var.sentence for var in each.params}
    cut, room = render.cut_of(each), render.room_of(each)
    if cut:
        says["where m"] = cut
    if room:
        says["where room"] = room
    says |= {f"guard.{name}": " ".join(lines) for name, lines in render.guard(each, 10**6).items()}
    for index, move in enumerate(render.moves(each), start=1):
        pools = [text for text in (move.full, f"swa {move.swa}" if move.swa else "") if text]
        says[f"memory.{index}"] = f"{move.name} {', '.join(pools)}"
    for names, value in render.assignments(each):
        says |= {f"{name}'": value for name in names}
    if each.detaches:
        says["goes on alone"] = each.detaches
    if each.source:
        says["from"] = each.source
    return says
