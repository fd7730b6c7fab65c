"""What the pages say of each other: bugs, where they live and what finds them; proofs' needs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from slotproof.impl.mutants import MUTANTS
from slotproof.model import cores
from slotproof.model.expr import variables
from slotproof.model.invariant import Invariant, Kind
from slotproof.model.invariants import INVARIANTS
from slotproof.model.museum import EXHIBITS
from slotproof.model.transition import Transition


@dataclass(frozen=True)
class Bug:
    """A known bug: in the reference engine, in the spec, or in both."""

    name: str
    sentence: str
    source: str
    """Where it was found; empty for one that was never in an engine."""
    clauses: tuple[str, ...]
    """Invariants that a finding on the engine names one of."""
    needs: str
    """Configuration without which it can't be seen."""
    lives: tuple[str, ...]
    """Transitions that are wrong in the spec's version of it."""
    refuted: tuple[str, ...]
    """Invariants of which an obligation fails with it."""
    depth: int | None
    """Transitions of the shortest counterexample, where the spec has the bug."""
    mutant: bool
    """The reference engine has it."""

    @property
    def killers(self) -> tuple[str, ...]:
        """Invariants that find it, in their order."""
        return tuple(id_ for id_ in INVARIANTS if id_ in {*self.clauses, *self.refuted})


@cache
def proofs() -> cores.Cores:
    return cores.load()


@cache
def bugs() -> dict[str, Bug]:
    """Every known bug by name, in the museum's order.

    >>> bugs()["22753-sticky-active"].lives
    ('T-REFUSE',)
    """
    return {name: _bug(name) for name in dict.fromkeys([*MUTANTS, *EXHIBITS])}


def _bug(name: str) -> Bug:
    mutant, exhibit = MUTANTS.get(name), EXHIBITS.get(name)
    lives = exhibit.spec.rewritten if exhibit else []
    failed = {line.partition(" / ")[2].partition(".")[0] for line in proofs().museum.get(name, ())}
    sentence = (mutant or exhibit).sentence if mutant or exhibit else ""  # type: ignore[union-attr]
    return Bug(
        name,
        sentence,
        mutant.pr if mutant else "",
        mutant.breaks if mutant else (),
        ", ".join(
            f"{key} ≥ {value}" if type(value) is int else key for key, value in mutant.needs.items()
        )
        if mutant
        else "",
        tuple(lives),
        tuple(id_ for id_ in INVARIANTS if id_ in failed),
        exhibit.depth if exhibit else None,
        mutant is not None,
    )


def bugs_of(transition: Transition) -> list[Bug]:
    """Known bugs in which this transition is what is wrong."""
    return [bug for bug in bugs().values() if transition.id in bug.lives]


def bugs_found_by(invariant: Invariant) -> list[Bug]:
    """Known bugs that this invariant finds, by proof or on the engine."""
    return [bug for bug in bugs().values() if invariant.id in bug.killers]


def touches(transition: Transition, invariant: Invariant) -> bool:
    """Whether the transition writes a variable that the invariant speaks of.

    >>> from slotproof.model.transitions import TRANSITIONS
    >>> touches(TRANSITIONS["T-PARK"], INVARIANTS["INV-SUM-FULL"])
    True
    """
    names = {
        name.removesuffix("'") for expr in invariant.conjuncts.values() for name in variables(expr)
    }
    about_page = any(name.startswith("page.") for name in names)
    return bool(names & transition.full_effect.keys()) or (about_page and bool(transition.memory))


def proved() -> list[Invariant]:
    """Invariants with formulas: state and step."""
    return [
        each for each in INVARIANTS.values() if each.conjuncts and each.kind is not Kind.HARNESS
    ]


def needed_for(transition: Transition) -> dict[str, tuple[str, ...]]:
    """By guard conjunct: the invariants whose proofs used it.

    >>> from slotproof.model.transitions import TRANSITIONS
    >>> "INV-LOCK" in needed_for(TRANSITIONS["T-REFUSE"])["u_others"]
    True
    """
    needs = proofs().needs[transition.id]
    return {
        name: tuple(id_ for id_ in INVARIANTS if id_ in needs and name in needs[id_].guard)
        for name in transition.full_guard
    }


def used_for(invariant: Invariant) -> dict[str, tuple[str, ...]]:
    """By other invariant whose preservation needs this one: the transitions where it does."""
    found: dict[str, list[str]] = {}
    for transition, per in proofs().needs.items():
        for other, need in per.items():
            if other != invariant.id and invariant.id in need.invariants:
                found.setdefault(other, []).append(transition)
    return {id_: tuple(found[id_]) for id_ in INVARIANTS if id_ in found}


def unproved(invariant: Invariant) -> list[str]:
    """Obligations of the invariant without a proof; empty where all is proved."""
    return [name for name in proofs().unproved if f"/ {invariant.id}." in name]


_REPOSITORIES = {"sgl-project/sglang", "vllm-project/vllm", "ggml-org/llama.cpp", "LMCache/LMCache"}


def linked(source: str) -> str:
    """Pull requests as links; a bare number is one of SGLang.

    >>> linked("#21875")
    '[#21875](https://github.com/sgl-project/sglang/pull/21875)'
    >>> linked("vllm-project/vllm#42571")
    '[vllm-project/vllm#42571](https://github.com/vllm-project/vllm/pull/42571)'
    """
    last = "sgl-project/sglang"

    def link(match: re.Match[str]) -> str:
        nonlocal last
        if match[1] in _REPOSITORIES:
            last = match[1]
        return f"[{match[0]}](https://github.com/{last}/pull/{match[2]})"

    return re.sub(r"([\w.-]+/[\w.-]+)?#(\d+)", link, source)


def listed(names: Iterable[str], folder: str, brief: bool = False) -> str:
    """Names as links to their pages; ``brief`` leaves the ``INV-`` away.

    >>> listed(["T-OPEN"], "../transitions")
    '[T-OPEN](../transitions/T-OPEN.md)'
    """
    path = f"{folder}/" if folder else ""
    shown = ((name, name.removeprefix("INV-") if brief else name) for name in names)
    return ", ".join(f"[{text}]({path}{name}.md)" for name, text in shown)
