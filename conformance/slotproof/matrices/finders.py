"""Groups of oracles, each to be run without the others: what would it find alone?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slotproof.lockstep.observation import Observation, Violation
from slotproof.lockstep.oracles import ORACLES, Oracle, counts

EQUATION = frozenset(["INV-SUM-FULL", "INV-SUM-SWA"])


def equation(seen: Observation) -> Iterator[Violation]:
    """The five figures and the total, as owned and as reported; nothing else."""
    return (each for each in counts.judge(seen) if each.invariant in EQUATION)


def own_check(seen: Observation) -> Iterator[Violation]:
    """What the engine notices by itself: its own check says leak, or raises."""
    check = seen.snapshot["checker"]
    if check["verdict"] in ("leak", "crash"):
        yield Violation("INV-CHECKER", "verdict", check["message"])


def _of(*names: str) -> dict[str, Oracle]:
    return {name: ORACLES[name] for name in names}


FINDERS: Mapping[str, Mapping[str, Oracle]] = {
    "own check": {"checker": own_check},
    "equation": {"counts": equation},
    "counts": _of("counts"),
    "pages": _of("pages", "rows", "locks", "reuse", "tables"),
    "content": _of("content", "lookup"),
    "clients": _of("history", "answers", "progress", "contract", "sessions", "limits", "operators"),
    "lockstep": _of("lockstep"),
}
"""The engine's own check first, then what looks closer and closer."""
