"""What an oracle looks at, one iteration of the engine; and what it yields, violations."""

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
"""The five figures of a pool whose sum is its total."""


class Holder(NamedTuple):
    """Who has a page or a row."""

    kind: str
    """``slot``, ``request``, or a key of :data:`_NOBODYS`."""
    name: str = ""
    """The session of a slot, the request."""

    def __str__(self) -> str:
        named = f"slot of {self.name}" if self.kind == "slot" else self.name
        return _NOBODYS.get(self.kind, named)


_NOBODYS = {
    "free": "the free list",
    "tree": "the tree",
    "free_rows": "the free rows",
    "indices": "a list of indices",
}
"""Holders that are neither a session nor a request."""


def all_of(holders: Iterable[object]) -> str:
    """Some holders in a sentence.

    >>> all_of([Holder("slot", "s1"), Holder("tree")]), all_of(["a", "b", "c", "d", "e"])
    ('slot of s1 and the tree', 'a and b and c and 2 more')
    """
    names = list(map(str, holders))
    shown = names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"]
    return " and ".join(shown)


CONTRACT = frozenset(
    f"{name}.{conjunct}"
    for name in ("INV-ANSWER", "INV-SESSION", "INV-LIMIT")
    for conjunct in INVARIANTS[name].observed
) - {"INV-ANSWER.once", "INV-ANSWER.never_silent"}
"""Clauses of what a client gets: memory may be in order."""


@dataclass(frozen=True)
class Violation:
    """A clause that was broken, and what shows it; :func:`violated` makes its sentence of that."""

    invariant: str
    conjunct: str
    detail: str = ""
    transition: str | None = None
    oracle: str = field(default="", compare=False)
    """Who says so; not kept in traces."""
    said: str = field(default="", compare=False)
    """The end of what the driver wrote on standard error, or of the engine's traceback."""
    variable: str | None = None
    """The variable of the spec, or the figure, that differs."""
    spec: int | None = None
    engine: int | None = None
    """What each says it is; ``None``: no number, or there is none on that side."""
    guard: str | None = None
    """The conjunct of the transition's guard that does not hold."""
    pool: str | None = None
    page: int | None = None
    owners: tuple[Holder, ...] = ()
    """Whose the page or the row is, or who reads it."""
    session: str | None = None
    rid: str | None = None
    """Whom it is about, where it is about one."""
    pins: str | None = None
    """Of a request that waits, a word for what it lacks and who holds that: see
    :data:`~slotproof.lockstep.waits.CAUSES`. Else the phase in which a request stands still."""
    iteration: int | None = None
    """Which of the iterations of its command, where that has more than one; from 1."""
    fault: str | None = None
    """How the driver itself failed, which says nothing of the engine: garbage, nonsense, death,
    hang; ``None`` where it told of a failure."""

    @property
    def clause(self) -> str:
        return f"{self.invariant}.{self.conjunct}"

    @property
    def reporting(self) -> bool:
        """Whether it is about what the engine says, of its memory or to its clients, and not about
        the memory: who knows of it can go on."""
        said = self.conjunct == "reported" or self.invariant == "INV-CHECKER"
        return said or self.clause in CONTRACT

    @property
    def shown(self) -> dict[str, Any]:
        """The fields that it has, as JSON."""
        holders = [{"kind": kind, **({"name": name} if name else {})} for kind, name in self.owners]
        fields = {**vars(self), "owners": holders or None}
        return {name: fields[name] for name in SHOWN if fields[name] is not None}

    def to_json(self) -> dict[str, Any]:
        """What a summary has of it."""
        said = {"clause": self.clause, "transition": self.transition, "detail": self.detail}
        return {**said, **self.shown}

    def __str__(self) -> str:
        where = f" at {self.transition}" if self.transition else ""
        where += f", iteration {self.iteration}" if self.iteration else ""
        return f"{self.clause}{where}: {self.detail}"


_NAMES_THE_CAUSE = frozenset(["INV-OWNER", "INV-LOCK", "INV-REUSE", "INV-LOOKUP"])


def causes_first(violations: Sequence[Violation]) -> list[Violation]:
    """Return the violations as reports list them: a sum comes after the clause that says why.

    >>> lost, total = Violation("INV-OWNER", "lost"), Violation("INV-SUM-FULL", "equation")
    >>> causes_first([total, lost]) == [lost, total]
    True
    """
    real = [each for each in violations if not each.reporting]
    total = next((each for each in real if each.invariant.startswith("INV-SUM-")), None)
    at = violations.index(total) if total else 0
    causes = [
        each for each in violations[at:] if each in real and each.invariant in _NAMES_THE_CAUSE
    ]
    return [*violations[:at], *causes, *(each for each in violations[at:] if each not in causes)]


_WHOM = ("pool", "page", "owners", "session", "rid", "iteration", "pins", "fault")
SHOWN = ("variable", "spec", "engine", "guard", *_WHOM)
"""The fields of a violation that show it."""


def violated(clause: str, words: str, **shown: Any) -> Violation:
    """A violation, and its sentence: words in which stands in braces what shows it.

    What is no field of a violation is in the sentence only.

    >>> lost = violated("INV-OWNER.lost", "{pool}: {n} pages less", n=2, pool="full", engine=62)
    >>> str(lost), lost.shown
    ('INV-OWNER.lost: full: 2 pages less', {'engine': 62, 'pool': 'full'})
    """
    invariant, _, conjunct = clause.partition(".")
    sentence = words.format_map({**shown, "owners": all_of(shown.get("owners", ()))})
    fields = {name: value for name, value in shown.items() if name in (*SHOWN, "transition")}
    return Violation(invariant, conjunct, sentence, **fields)


def actor_of(key: str | None) -> tuple[str | None, str | None]:
    """Session and request of an actor of the spec, one of them or none.

    >>> actor_of("s1"), actor_of("/r1"), actor_of(None)
    (('s1', None), (None, 'r1'), (None, None))
    """
    if key is None:
        return None, None
    return (None, key[1:]) if key.startswith("/") else (key, None)


@dataclass(frozen=True)
class Owner:
    """Whoever describes the KV of a row: a slot, or a request (on loan: the request)."""

    holder: Holder
    row: int
    C: int
    A: int
    Q: int
    E: int


STATE = ("pools", "tree", "rows", "sessions", "slots", "requests")
"""Parts of a snapshot from which its World, and what :class:`Observation` derives, follow."""
_DERIVED = ("shares", "owners", "broken", "lent_slots")


def same_state(before: Snapshot, now: Snapshot) -> bool:
    """Return whether two snapshots show the same state.

    Values are compared: an engine may change anything, and does not have to say so.
    """
    shown: tuple[Any, Any] = before, now
    return all(shown[0][part] == shown[1][part] for part in STATE)


class ObservationRecord(NamedTuple):
    """An observation without its Worlds, for reports. The next iteration moves the Worlds, and a
    run has thousands of iterations."""

    config: EngineConfig
    snapshot: Snapshot
    owners: list[Owner]
    shares: dict[str, tuple[int, int]]
    differences: list[Violation]


def running(snapshot: Snapshot) -> set[str]:
    """The requests that run."""
    requests = snapshot["requests"].items()
    return {rid for rid, request in requests if request["phase"] == "running"}


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
    published: Published
    differences: list[Violation] = field(default_factory=list)
    """Where the events lead the spec to another state than the snapshot's: the lockstep oracle
    notes them."""
    given_up: list[tuple[str, str]] = field(default_factory=list)
    """Sessions whose slots could have been restored, and by what they were given up; it notes
    these, too."""
    quiet: frozenset[Callable[..., object]] = frozenset()
    """Oracles that judged the same state in the iteration before and found nothing. An oracle of
    nothing but :data:`STATE` and the configuration would find nothing now."""

    def carry(self, last: Observation) -> None:
        """Take over what was derived from the snapshot before, whose state is the same."""
        derived = vars(last)
        vars(self).update({name: derived[name] for name in _DERIVED if name in derived})

    @cached_property
    def shares(self) -> dict[str, tuple[int, int]]:
        """By pool, held and uncached tokens as ownership gives them."""
        held, uncached, swa_held, swa_uncached, *_ = self.world.total
        return {"full": (held, uncached), "swa": (swa_held, swa_uncached)}

    @cached_property
    def owners(self) -> list[Owner]:
        """Everyone who describes a row; a slot on loan is described by its turn."""
        requests, slots = self.snapshot["requests"].items(), self.snapshot["slots"].items()
        rows: list[tuple[Holder, RequestView | SlotView]] = [
            (Holder("request", rid), request) for rid, request in requests if request["row"] >= 0
        ]
        rows += [(Holder("slot", sid), slot) for sid, slot in slots if sid not in self.lent_slots]
        return [
            Owner(holder, view["row"], view["C"], view["A"], view["Q"], view["E"])
            for holder, view in rows
        ]

    @cached_property
    def broken(self) -> list[tuple[str | None, str, str]]:
        """State invariants that the snapshot violates: (actor, invariant, conjunct)."""
        return self.world.violations()

    @cached_property
    def lent_slots(self) -> set[str]:
        """Slots whose KV a request holds, told from ownership."""
        requests = self.snapshot["requests"].values()
        return {request["loan"] for request in requests if request["loan"] is not None}

    def figures(self, pool: str) -> dict[str, int]:
        """The terms of a pool as ownership gives them, and its total."""
        view: Mapping[str, Any] = self.snapshot["pools"].get(pool, {})
        held, uncached = self.shares[pool]
        known = {name: view.get(name, 0) for name in ("available", "evictable", "protected")}
        return {**known, "held": held, "uncached": uncached, "total": view.get("total", 0)}

    def record(self) -> ObservationRecord:
        """To be asked for once the oracles have looked."""
        return ObservationRecord(
            self.config, self.snapshot, self.owners, self.shares, self.differences
        )
