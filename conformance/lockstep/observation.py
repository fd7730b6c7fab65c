"""What an oracle looks at: one iteration of the engine, before and after."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from slotproof.conformance.engines.base import Capabilities
from slotproof.conformance.lockstep.client import Client
from slotproof.conformance.lockstep.coverage import Coverage
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.protocol.snapshot import Snapshot
from slotproof.model.layout import Vector
from slotproof.model.world import World

ON_RESET = "on reset: "
"""How the detail begins of an engine that can't be made fresh."""


@dataclass(frozen=True)
class Violation:
    """A clause that was broken, by what, and the figures that show it."""

    invariant: str
    conjunct: str
    detail: str
    transition: str | None = None
    oracle: str = field(default="", compare=False)
    """Who says so; not kept in traces."""
    actor: str | None = field(default=None, compare=False)
    """The session (or ``/`` and the request) that it is about, where it is about one; not kept."""
    said: str = field(default="", compare=False)
    """The end of what the driver wrote on standard error, or of the engine's traceback."""

    @property
    def clause(self) -> str:
        return f"{self.invariant}.{self.conjunct}"

    def __str__(self) -> str:
        where = f" at {self.transition}" if self.transition else ""
        return f"{self.clause}{where}: {self.detail}"


_FAULTS = (
    ("garbage", r"garbage on the wire|the driver answered message"),
    ("nonsense", r"the snapshot makes no sense|what it shows is no snapshot"),
    ("death", r"the driver (exited|was ended|closed its output|is not running)"),
)


def driver_fault(violation: Violation) -> str:
    """How the driver itself failed, one word for each kind; empty where it told of a failure.

    The details differ each time (a line, a number, a status), and say nothing of the engine.

    >>> driver_fault(Violation("INV-ALIVE", "crash", "garbage on the wire: b'x'"))
    'garbage'
    >>> driver_fault(Violation("INV-ALIVE", "crash", "RuntimeError: out of memory"))
    ''
    """
    if violation.clause == "INV-ALIVE.hang":
        return "hang"
    if violation.clause != "INV-ALIVE.crash":
        return ""
    text = violation.detail.removeprefix(ON_RESET)
    return next((fault for fault, words in _FAULTS if re.match(words, text)), "")


@dataclass(frozen=True)
class Owner:
    """Whoever describes the KV of a row: a slot, or a request (on loan: the request)."""

    name: str
    row: int
    C: int
    A: int
    Q: int
    E: int
    session: str | None = None
    """That of a slot."""


def owners_of(snapshot: Snapshot) -> list[Owner]:
    """Everyone who describes a row, as the snapshot shows them."""
    result = []
    for rid, view in snapshot["requests"].items():
        if view["row"] >= 0:
            lengths = view["row"], view["C"], view["A"], view["Q"], view["E"]
            result.append(Owner(rid, *lengths))
    lent = _lent(snapshot)
    for sid, slot in snapshot["slots"].items():
        if sid not in lent:
            lengths = slot["row"], slot["C"], slot["A"], slot["Q"], slot["E"]
            result.append(Owner(f"slot of {sid}", *lengths, sid))
    return result


def _lent(snapshot: Snapshot) -> set[str]:
    requests = snapshot["requests"].values()
    return {request["loan"] for request in requests if request["loan"] is not None}


@dataclass
class Observation:
    """One iteration: the snapshots around it, their spec states, what clients know."""

    config: EngineConfig
    capabilities: Capabilities
    client: Client
    coverage: Coverage
    snapshot: Snapshot
    world: World
    """The spec state that the snapshot shows."""
    previous: Snapshot
    before: World
    """The spec state of the previous snapshot; the lockstep oracle moves it."""
    recompute: Mapping[str, list[int]]
    """For turns that ended now: the tokens of a run without any cache."""

    @cached_property
    def owners(self) -> list[Owner]:
        """Everyone who describes a row; a slot on loan is described by its turn."""
        return owners_of(self.snapshot)

    @cached_property
    def broken(self) -> list[tuple[str | None, str, str]]:
        """State invariants that the snapshot violates: (actor, invariant, conjunct)."""
        return list(self.world.violations())

    @cached_property
    def lent_slots(self) -> set[str]:
        """Slots whose KV a request holds, told from ownership."""
        return _lent(self.snapshot)

    def share(self, pool: str) -> tuple[int, int]:
        """held and uncached tokens of the pool that ownership gives."""
        held, uncached = (0, 1) if pool == "full" else (2, 3)
        shares = self.world.shares.values()
        return sum(share[held] for share in shares), sum(share[uncached] for share in shares)

    @property
    def figures(self) -> Vector:
        return self.world.pools
