"""What the proofs used, kept in ``cores.json``: the spec documents show it without proving.

``slotproof prove export model/slotproof_model/proofs/cores.json`` writes the file. It carries a
fingerprint of every obligation of the spec, so that it can't outlive a change.
Needs no Z3 to be read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotproof_model.bugs.museum import EXHIBITS
from slotproof_model.proofs.obligations import Result, Status, tasks
from slotproof_model.spec.expr import Expr, show
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.whole import Spec

CORES_AT = 4
"""The page size whose cores are kept: the smallest at which rounding matters."""
FILE = Path(__file__).parent / "cores.json"


@dataclass(frozen=True)
class Need:
    """What the proofs that a transition preserves an invariant used, beside the effect."""

    invariants: tuple[str, ...]
    guard: tuple[str, ...]


@dataclass(frozen=True)
class Cores:
    """The contents of ``cores.json``."""

    spec: str
    """Fingerprint of the spec that was proved."""
    page_sizes: tuple[str, ...]
    obligations: int
    needed: int
    """How many of them :func:`needed_a_proof`."""
    unproved: tuple[str, ...]
    needs: Mapping[str, Mapping[str, Need]]
    """By transition and invariant."""
    museum: Mapping[str, tuple[str, ...]]
    """By known bug: the obligations that fail with it, ``T-REFUSE / INV-LOAN.lent``."""

    @property
    def fresh(self) -> bool:
        """Whether the file speaks of the spec and of the museum as they are now."""
        return self.spec == fingerprint()


def load(path: Path = FILE) -> Cores:
    """The committed cores.

    >>> load().unproved
    ()
    """
    raw = json.loads(path.read_text(encoding="utf-8"))
    return Cores(
        raw["spec"],
        tuple(raw["page_sizes"]),
        raw["obligations"],
        raw["needed"],
        tuple(raw["unproved"]),
        {
            transition: {
                id_: Need(tuple(need["invariants"]), tuple(need["guard"]))
                for id_, need in per.items()
            }
            for transition, per in raw["needs"].items()
        },
        {name: tuple(refuted) for name, refuted in raw["museum"].items()},
    )


def fingerprint() -> str:
    """A hash over every obligation (hypotheses, new values, goals), and every known bug's spec."""
    texts: dict[Expr, str] = {}
    digest = hashlib.sha256()
    for task in tasks(Spec()):
        goals = {goal.clause: goal.expr for goal in task.goals}
        for part in (task.hypotheses, task.after, goals):
            for name, expr in part.items():
                text = texts.get(expr)
                if text is None:
                    text = texts[expr] = show(expr)
                digest.update(f"{task.name}\t{name}\t{text}\n".encode())
    for name, exhibit in EXHIBITS.items():
        for clause, expr in _wrong(exhibit.spec):
            digest.update(f"{name}\t{clause}\t{show(expr)}\n".encode())
    return digest.hexdigest()


def _wrong(spec: Spec) -> Iterator[tuple[str, Expr]]:
    """What a known bug's spec says otherwise."""
    for id_ in spec.rewritten:
        transition = spec.transitions[id_]
        for part in (transition.full_guard, transition.full_effect):
            yield from ((f"{id_} {name}", expr) for name, expr in part.items())
    for id_, invariant in spec.invariants.items():
        if invariant is not INVARIANTS[id_]:
            yield from ((f"{id_}.{name}", expr) for name, expr in invariant.conjuncts.items())


def needed_a_proof(result: Result) -> bool:
    """Neither framing (the transition writes nothing that the goal speaks of) nor true by the
    effect alone, whatever the state was. Proofs about other actors have no cores.

    >>> cores = (("INV-ONCE.never_both",), ("guard.running",))
    >>> both = (Result("T-PARK", "INV-ONCE.never_both", 4, "proved", core) for core in cores)
    >>> [needed_a_proof(each) for each in both]
    [False, True]
    """
    if result.status != "proved":
        return True
    others = "[others" in result.transition
    return result.core != (result.clause,) and (others or bool(result.core))


def document(
    results: Iterable[Result], unproved: Iterable[str], museum: Mapping[str, Iterable[str]]
) -> dict[str, Any]:
    """What ``cores.json`` holds, from the results of all proofs at all page sizes."""
    known = list(results)
    needs: dict[str, dict[str, dict[str, list[str]]]] = {}
    for result in known:
        transition, _, layer = result.transition.partition(" [")
        invariant = result.clause.partition(".")[0]
        counted = result.page_size == CORES_AT and layer in ("", "full]", "swa]", "rows]")
        if not counted or not invariant.startswith("INV-"):
            continue
        need = needs.setdefault(transition, {}).setdefault(
            invariant, {"invariants": [], "guard": []}
        )
        for name in result.core:
            kind, _, rest = name.partition(".")
            where = need["guard"] if kind == "guard" else need["invariants"]
            entry = rest if kind == "guard" else kind
            if (kind == "guard" or kind.startswith("INV-")) and entry not in where:
                where.append(entry)
    for per in needs.values():
        for need in per.values():
            need["invariants"].sort()
            need["guard"].sort()
    sizes = {result.page_size for result in known}
    return {
        "made_by": "slotproof prove export model/slotproof_model/proofs/cores.json",
        "spec": fingerprint(),
        "page_sizes": [str(size) for size in sorted(size for size in sizes if size)]
        + ["any"] * (None in sizes),
        "cores_at": CORES_AT,
        "obligations": len(known),
        "needed": sum(map(needed_a_proof, known)),
        "unproved": sorted(unproved),
        "needs": needs,
        "museum": {name: sorted(refuted) for name, refuted in museum.items()},
    }


def refutations(results: Iterable[Result], status: Status = "refuted") -> list[str]:
    """Obligations with that status, without the page size: ``T-SAVE / INV-CURSOR.slot``."""
    found = (f"{each.transition} / {each.clause}" for each in results if each.status == status)
    return list(dict.fromkeys(found))
