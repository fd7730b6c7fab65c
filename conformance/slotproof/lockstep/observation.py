"""Observations of an engine, one per iteration, and violations, which oracles report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from slotproof.engines.base import Capabilities
from slotproof.lockstep.client import Client
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.published import Published
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import RequestView, SlotView, Snapshot
from slotproof_model.evaluation.world import World
from slotproof_model.spec.invariants import INVARIANTS

TERMS = ("available", "evictable", "protected", "held", "uncached")
"""Names of the five terms whose sum is a pool's total."""


class Holder(NamedTuple):
    """Holder of a page or a row."""

    kind: str
    """Kind of the holder: ``slot``, ``request``, or a key of :data:`_NOBODYS`."""
    name: str = ""
    """Session of a slot, or ID of a request."""

    def __str__(self) -> str:
        return _NOBODYS.get(self.kind, f"slot of {self.name}" if self.kind == "slot" else self.name)


_NOBODYS = {
    "free": "the free list",
    "tree": "the tree",
    "free_rows": "the free rows",
    "indices": "a list of indices",
}
"""Phrases for holders other than slots and requests."""


def all_of(holders: Iterable[object]) -> str:
    """Join the names of holders for a sentence.

    >>> all_of([Holder("slot", "s1"), Holder("tree")]), all_of(["a", "b", "c", "d", "e"])
    ('slot of s1 and the tree', 'a and b and c and 2 more')
    """
    names = list(map(str, holders))
    return " and ".join(names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"])


CONTRACT = frozenset(
    f"{name}.{conjunct}"
    for name in ("INV-ANSWER", "INV-SESSION", "INV-LIMIT")
    for conjunct in INVARIANTS[name].observed
) - {"INV-ANSWER.once", "INV-ANSWER.never_silent"}
"""Clauses about answers to clients. If only such clauses are broken, the memory may be right."""


@dataclass(frozen=True)
class Violation:
    """A broken clause and its evidence. :func:`violated` writes the sentence."""

    invariant: str
    conjunct: str
    detail: str = ""
    transition: str | None = None
    oracle: str = field(default="", compare=False)
    """Name of the oracle that reported the violation. Not stored in traces."""
    said: str = field(default="", compare=False)
    """End of the driver's standard error, or of the engine's traceback."""
    variable: str | None = None
    """Name of the spec variable, or of the pool's term, whose values differ."""
    spec: int | None = None
    engine: int | None = None
    """Values of the variable in the spec and in the engine. None if a side has no number."""
    guard: str | None = None
    """Conjunct of the transition's guard that failed."""
    pool: str | None = None
    page: int | None = None
    owners: tuple[Holder, ...] = ()
    """Owners or readers of the page or the row."""
    session: str | None = None
    rid: str | None = None
    """Session and request that the violation is about, if a single actor is affected."""
    pins: str | None = None
    """Cause of a wait, as a word for the missing resource and its holder: see
    :data:`~slotproof.lockstep.waits.CAUSES`. For other stalls, the request's phase."""
    iteration: int | None = None
    """Number of the iteration within its command, from 1. None if the command has one iteration."""
    fault: str | None = None
    """Failure of the driver itself, not of the engine: garbage, nonsense, death or hang. None if
    the driver reported a failure of its engine."""

    @property
    def clause(self) -> str:
        return f"{self.invariant}.{self.conjunct}"

    @property
    def reporting(self) -> bool:
        """True if the clause is about what the engine reports or answers, not about its memory.
        Judging can continue after such a violation."""
        said = self.conjunct == "reported" or self.invariant == "INV-CHECKER"
        return said or self.clause in CONTRACT

    @property
    def shown(self) -> dict[str, Any]:
        """Evidence fields that have a value, as JSON."""
        holders = [{"kind": kind, **({"name": name} if name else {})} for kind, name in self.owners]
        fields = {**vars(self), "owners": holders or None}
        return {name: fields[name] for name in SHOWN if fields[name] is not None}

    def to_json(self) -> dict[str, Any]:
        """Return the violation as an entry of a JSON summary."""
        said = {"clause": self.clause, "transition": self.transition, "detail": self.detail}
        return {**said, **self.shown}

    def __str__(self) -> str:
        where = f" at {self.transition}" if self.transition else ""
        where += f", iteration {self.iteration}" if self.iteration else ""
        return f"{self.clause}{where}: {self.detail}"


_NAMES_THE_CAUSE = frozenset(["INV-OWNER", "INV-LOCK", "INV-REUSE", "INV-LOOKUP"])


def causes_first(violations: Sequence[Violation]) -> list[Violation]:
    """Return the violations in the order of a report: a wrong total comes after its cause.

    >>> lost, total = Violation("INV-OWNER", "lost"), Violation("INV-SUM-FULL", "equation")
    >>> causes_first([total, lost]) == [lost, total]
    True
    """
    real = [violation for violation in violations if not violation.reporting]
    total = next((broken for broken in real if broken.invariant.startswith("INV-SUM-")), None)
    at = violations.index(total) if total else 0
    rest = violations[at:]
    causes = [broken for broken in rest if broken in real and broken.invariant in _NAMES_THE_CAUSE]
    return [*violations[:at], *causes, *(broken for broken in rest if broken not in causes)]


_WHOM = ("pool", "page", "owners", "session", "rid", "iteration", "pins", "fault")
SHOWN = ("variable", "spec", "engine", "guard", *_WHOM)
"""Names of a violation's fields that hold evidence."""


def violated(clause: str, words: str, **shown: Any) -> Violation:
    """Return a violation. ``words`` is the violation's sentence, in which braces name the evidence.

    Evidence that is no field of a violation appears in the sentence only.

    >>> lost = violated("INV-OWNER.lost", "{pool}: {n} pages less", n=2, pool="full", engine=62)
    >>> str(lost), lost.shown
    ('INV-OWNER.lost: full: 2 pages less', {'engine': 62, 'pool': 'full'})
    """
    invariant, _, conjunct = clause.partition(".")
    sentence = words.format_map({**shown, "owners": all_of(shown.get("owners", ()))})
    fields = {name: value for name, value in shown.items() if name in (*SHOWN, "transition")}
    return Violation(invariant, conjunct, sentence, **fields)


def actor_of(key: str | None) -> tuple[str | None, str | None]:
    """Return (session, request) of a spec actor. At most one of the two is set.

    >>> actor_of("s1"), actor_of("/r1"), actor_of(None)
    (('s1', None), (None, 'r1'), (None, None))
    """
    if key is None:
        return None, None
    return (None, key[1:]) if key.startswith("/") else (key, None)


@dataclass(frozen=True)
class Owner:
    """Slot or request that describes the KV of a row. For a slot on loan, the request does."""

    holder: Holder
    row: int
    C: int
    A: int
    Q: int
    E: int


STATE = ("pools", "tree", "rows", "sessions", "slots", "requests")
"""Parts of a snapshot that determine its World and the derived values of an Observation."""
_DERIVED = ("shares", "owners", "broken", "lent_slots")


class ObservationRecord(NamedTuple):
    """An observation without its Worlds, for reports. The Worlds change in the next iteration, and
    a run has thousands of iterations."""

    config: EngineConfig
    snapshot: Snapshot
    owners: list[Owner]
    shares: dict[str, tuple[int, int]]
    differences: list[Violation]


def running(snapshot: Snapshot) -> set[str]:
    """Return the running requests."""
    return {rid for rid, request in snapshot["requests"].items() if request["phase"] == "running"}


@dataclass
class Observation:
    """One iteration: the snapshots before and after it, their spec states, and the clients."""

    config: EngineConfig
    capabilities: Capabilities
    client: Client
    coverage: Coverage
    snapshot: Snapshot
    world: World
    """Spec state of the snapshot."""
    previous: Snapshot
    before: World
    """Spec state of the previous snapshot. The lockstep oracle applies the events to this state."""
    recompute: Mapping[str, list[int]]
    """Tokens recomputed without a cache, by request that finished in this iteration."""
    published: Published
    differences: list[Violation] = field(default_factory=list)
    """Differences between the snapshot and the spec after the events. Set by the lockstep oracle.
    """
    given_up: list[tuple[str, str]] = field(default_factory=list)
    """Sessions that lost a slot although part of it could be restored, each with the transition
    that discarded the slot. Added by the lockstep oracle."""
    quiet: frozenset[Callable[..., object]] = frozenset()
    """Oracles that reported no violation for the same state in the previous iteration. Such an
    oracle can skip this iteration if it reads only :data:`STATE` and the configuration."""

    def carry(self, last: Observation) -> None:
        """Reuse the derived values of the previous observation, whose state is equal."""
        derived = vars(last)
        vars(self).update({name: derived[name] for name in _DERIVED if name in derived})

    @cached_property
    def shares(self) -> dict[str, tuple[int, int]]:
        """Numbers of held and uncached tokens, by pool, computed from ownership."""
        held, uncached, swa_held, swa_uncached, *_ = self.world.total
        return {"full": (held, uncached), "swa": (swa_held, swa_uncached)}

    @cached_property
    def owners(self) -> list[Owner]:
        """Owners of rows. The turn is the owner of a slot's row while the slot is on loan."""
        requests, slots = self.snapshot["requests"].items(), self.snapshot["slots"].items()
        rows: list[tuple[Holder, RequestView | SlotView]] = [
            (Holder("request", rid), request) for rid, request in requests if request["row"] >= 0
        ]
        rows += [(Holder("slot", sid), slot) for sid, slot in slots if sid not in self.lent_slots]
        return [Owner(holder, at["row"], at["C"], at["A"], at["Q"], at["E"]) for holder, at in rows]

    @cached_property
    def broken(self) -> list[tuple[str | None, str, str]]:
        """State invariants that the snapshot violates: (actor, invariant, conjunct)."""
        return self.world.violations()

    @cached_property
    def lent_slots(self) -> set[str]:
        """Sessions whose slot is on loan: a request holds the slot's KV."""
        requests = self.snapshot["requests"].values()
        return {request["loan"] for request in requests if request["loan"] is not None}

    def figures(self, pool: str) -> dict[str, int]:
        """Return the pool's terms and total. The terms held and uncached come from ownership."""
        view: Mapping[str, Any] = self.snapshot["pools"].get(pool, {})
        held, uncached = self.shares[pool]
        known = {name: view.get(name, 0) for name in ("available", "evictable", "protected")}
        return {**known, "held": held, "uncached": uncached, "total": view.get("total", 0)}

    def record(self) -> ObservationRecord:
        """Return the record for reports. Call after the oracles have run."""
        return ObservationRecord(
            self.config, self.snapshot, self.owners, self.shares, self.differences
        )
