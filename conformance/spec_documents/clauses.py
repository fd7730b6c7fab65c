"""What the page of a transition and of an invariant shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from slotproof.conformance.spec_documents import facts
from slotproof.model import cores, render
from slotproof.model.invariant import Invariant, Kind
from slotproof.model.invariants import INVARIANTS
from slotproof.model.profiles import CHOICES
from slotproof.model.transition import Transition
from slotproof.model.transitions import TRANSITIONS

CELL = 64
"""Characters of a formula in a table's cell before it is broken."""


def cell(lines: Iterable[str]) -> str:
    """A formula in a table: one line, or several."""
    return "<br>".join(f"`{line.strip()}`" for line in lines)


def sizes() -> str:
    """The page sizes of the proofs, in words."""
    *numbers, last = facts.proofs().page_sizes
    return ", ".join(numbers) + (" and for all at once" if last == "any" else f" and {last}")


def _links(ids: Iterable[str], brief: bool = False) -> str:
    return facts.listed(ids, "../invariants", brief)


def bug_link(name: str, page: str = "../bugs.md") -> str:
    """A link to where a bug is told."""
    return f"[{name}]({page}#{name})"


def of_transition(each: Transition) -> dict[str, Any]:
    """Its formulas, what its proofs needed, its bugs.

    >>> of_transition(TRANSITIONS["T-PARK"])["effect"]
    [('`turn.phase`', 'parked')]
    """
    needed = facts.needed_for(each)
    touched = [inv for inv in facts.proved() if facts.touches(each, inv)]
    needs = facts.proofs().needs[each.id]
    needy = [inv for inv in touched if inv.id in needs and needs[inv.id] != cores.Need((), ())]
    untouched = [inv.id for inv in facts.proved() if inv not in touched]
    return {
        "id": each.id,
        "sentence": each.sentence,
        "source": facts.linked(each.source),
        "by": each.by,
        "profile": _profile_choice(each),
        "detaches": each.detaches,
        "text": render.text(each),
        "params": list(_meanings(each)),
        "guard": [
            {
                "name": name,
                "formula": cell(lines),
                "derived": name not in each.guard,
                "needed": _links((i for i in needed[name] if INVARIANTS[i] in touched), brief=True),
            }
            for name, lines in render.guard(each, CELL).items()
        ],
        "derived": each.full_guard.keys() - each.guard.keys(),
        "memory": [
            {
                "name": move.name,
                "what": move.what,
                "full": f"`{move.full}`" if move.full else "",
                "swa": f"`{move.swa}`" if move.swa else "",
            }
            for move in render.moves(each)
        ],
        "effect": [
            (", ".join(f"`{name}`" for name in names), value)
            for names, value in render.assignments(each)
        ],
        "page_sizes": sizes(),
        "preserves": [_preserved(each, inv) for inv in needy],
        "alone": _links(inv.id for inv in touched if inv not in needy),
        "untouched": _links(untouched) if touched else "",
        "bugs": [
            {
                "link": bug_link(bug.name),
                "sentence": bug.sentence,
                "found": _links(bug.killers, brief=True),
            }
            for bug in facts.bugs_of(each)
        ],
    }


def _meanings(each: Transition) -> Iterator[tuple[str, str]]:
    """What a parameter says, and what the event's own name does where it says something."""
    means = each.means
    names = [render.symbol(var.name) for var in each.params]
    for name in names:
        told = cell(render.block(means[name], CELL)) if name in means else "what the guard says"
        yield f"`{name}`", told
    for name in (label for label in means if label not in names):
        yield "the name of the event", cell(render.block(means[name], CELL))


def _profile_choice(each: Transition) -> str:
    """The choice that decides whether the transition exists at all."""
    for name, value in each.choices.items():
        choice = name.removeprefix("config.")
        if choice in CHOICES:
            return f"`{'' if value else '¬'}{choice}`"
    return ""


def _preserved(each: Transition, invariant: Invariant) -> dict[str, str]:
    need = facts.proofs().needs[each.id][invariant.id]
    return {
        "invariant": _links([invariant.id]),
        "invariants": _links(need.invariants, brief=True),
        "guard": ", ".join(need.guard),
    }


def of_invariant(each: Invariant) -> dict[str, Any]:
    """Its formulas, whether they are proved, the bugs it finds.

    >>> of_invariant(INVARIANTS["INV-ORDER"])["conjuncts"][0]["formula"]
    '0 ≤ slot.Q ≤ slot.C ≤ slot.A ≤ width'
    """
    return {
        "id": each.id,
        "sentence": each.sentence,
        "status": _status(each),
        "conjuncts": [
            {"name": name, "formula": "\n".join(render.block(expr))}
            for name, expr in each.conjuncts.items()
        ],
        "observed": list(each.observed.items()),
        "used": [
            {
                "invariant": facts.listed([other], ""),
                "transitions": facts.listed(transitions, "../transitions"),
            }
            for other, transitions in facts.used_for(each).items()
        ],
        "bugs": [
            {"link": bug_link(bug.name), "sentence": bug.sentence, "how": _how(bug, each)}
            for bug in facts.bugs_found_by(each)
        ],
    }


def _status(each: Invariant) -> str:
    if not each.conjuncts:
        return "Not modelled by the spec: checked on engines only."
    failed = facts.unproved(each)
    if failed:
        return "**Not proved**: " + ", ".join(f"`{name}`" for name in failed) + "."
    kind = "of every state" if each.kind is Kind.STATE else "of every step"
    return (
        f"Proved {kind}, preserved by all {len(TRANSITIONS)} transitions, at page sizes "
        f"{sizes()}, for any number of sessions ([how](../../../proof.md))."
    )


def _how(bug: facts.Bug, invariant: Invariant) -> str:
    ways = ["by proof"] * (invariant.id in bug.refuted)
    ways += ["on the engine"] * (invariant.id in bug.clauses)
    return ", ".join(ways)
