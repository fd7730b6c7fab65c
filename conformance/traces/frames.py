"""One iteration as a reader wants to see it: events, answers, figures, and whose each page is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from slotproof.conformance.lockstep.abstraction import abstract
from slotproof.conformance.lockstep.coverage import Coverage
from slotproof.conformance.lockstep.observation import owners_of
from slotproof.conformance.lockstep.oracles.owners import own_pages, row_indices
from slotproof.conformance.lockstep.oracles.steps import compared, follow
from slotproof.conformance.lockstep.referee import Iteration, empty_snapshot, with_totals
from slotproof.conformance.protocol.snapshot import Snapshot
from slotproof.conformance.traces.runs import spans
from slotproof.model.world import Constants

Table = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Frame:
    """What one iteration showed. Lengths and figures are tokens."""

    events: list[dict[str, Any]] = field(default_factory=list)
    """``transition``, ``session``, ``request`` and ``params``, in order."""
    told: list[dict[str, Any]] = field(default_factory=list)
    """What clients were told; ``tokens`` is how many."""
    pools: Table = field(default_factory=dict)
    """Figures; ``held`` and ``uncached`` are those of the engine's own check."""
    shares: Table = field(default_factory=dict)
    """By pool, ``held`` and ``uncached`` as ownership gives them."""
    sessions: Table = field(default_factory=dict)
    slots: Table = field(default_factory=dict)
    requests: Table = field(default_factory=dict)
    pages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By pool, who has which pages: ``kind`` (free, tree, slot, request), ``name``, ``locks``
    (of tree pages), ``pages`` and ``reads`` (pages of the tree that its row points to)."""
    check: dict[str, Any] = field(default_factory=dict)
    """The engine's own check: whether it ``ran``, its ``verdict`` and ``message``."""
    differs: list[dict[str, Any]] = field(default_factory=list)
    """``what``, ``spec`` and ``engine`` of each field in which they differ, and ``at``, the
    last transition of its actor. A missing value: there is none on that side."""


_POOL = ("total", "available", "evictable", "protected")
_SLOT = ("row", "C", "A", "Q", "E", "lent")
_REQUEST = ("kind", "phase", "row", "C", "A", "Q", "E", "prompt", "output")
_SESSION = ("open", "closing", "inflight", "history")


def figures(snapshot: Snapshot) -> dict[str, Table]:
    """What a reader wants to see of a snapshot: pools, sessions, slots, requests."""
    pools: Table = {}
    for name, pool in snapshot["pools"].items():
        pools[name] = {key: pool[key] for key in _POOL}  # type: ignore[literal-required]
        reported = snapshot["checker"]["pools"].get(name)
        if reported is not None:
            pools[name] |= {"held": reported["held"], "uncached": reported["uncached"]}
    return {
        "pools": pools,
        "sessions": {sid: _pick(view, _SESSION) for sid, view in snapshot["sessions"].items()},
        "slots": {sid: _pick(view, _SLOT) for sid, view in snapshot["slots"].items()},
        "requests": {rid: _pick(view, _REQUEST) for rid, view in snapshot["requests"].items()},
    }


def _pick(view: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: view[name] for name in names if view[name] is not None}


def frames_of(log: Iterable[Iteration]) -> Iterator[list[Frame]]:
    """For each command that a referee logged, what it showed: one frame per iteration judged."""
    previous = empty_snapshot()
    for entry in log:
        frames = []
        for snapshot in entry.snapshots[: entry.judged]:
            if not previous["pools"]:
                previous = with_totals(previous, snapshot)
            frames.append(_frame(snapshot, previous, entry.constants))
            previous = snapshot
        yield frames


def _frame(snapshot: Snapshot, previous: Snapshot, constants: Constants | None) -> Frame:
    checker = snapshot["checker"]
    said = {"message": str(checker["message"])} if checker["message"] else {}
    known: dict[str, Any] = dict(figures(snapshot))
    if constants is not None:
        world = abstract(snapshot, constants)
        totals = [sum(column) for column in zip(*world.shares.values(), strict=True)] or [0] * 4
        shares = {"full": totals[:2], "swa": totals[2:4]}
        known |= {
            "shares": {
                pool: {"held": shares[pool][0], "uncached": shares[pool][1]}
                for pool in snapshot["pools"]
            },
            "pages": {
                pool: list(_holdings(snapshot, pool, constants)) for pool in snapshot["pools"]
            },
            "differs": _differs(snapshot, previous, constants),
        }
    return Frame(
        events=[
            {"transition": name, **_present(session=sid, request=rid), "params": dict(params)}
            for name, sid, rid, params in snapshot.get("events", [])
        ],
        told=[_told(message) for message in snapshot["messages"]],
        check={"ran": bool(checker["ran"]), "verdict": checker["verdict"], **said},
        **known,
    )


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _told(message: Any) -> dict[str, Any]:
    known = {key: message.get(key) for key in ("type", "session", "rid", "reason")}
    said = message.get("message") or None
    tokens = len(message["tokens"]) if "tokens" in message else None
    return _present(**known, tokens=tokens, message=said)


def _differs(snapshot: Snapshot, previous: Snapshot, constants: Constants) -> list[dict[str, Any]]:
    events = snapshot.get("events")
    if events is None:
        return []
    spec = abstract(previous, constants)
    for _ in follow(spec, events, Coverage()):
        pass  # what is not allowed is told by the oracle; here it is about where it leads
    return [
        _present(what=each.what, spec=each.spec, engine=each.engine, at=each.writer)
        for each in compared(spec, abstract(snapshot, constants))
    ]


def _holdings(snapshot: Snapshot, pool: str, constants: Constants) -> Iterator[dict[str, Any]]:
    """Who has which pages, as the page oracle sees it."""
    size = constants.page_size
    yield {"kind": "free", "pages": spans(sorted(snapshot["pools"][pool]["free"]))}
    by_locks: dict[int, list[int]] = {}
    for page, locks in snapshot["tree"].get(pool, ()):
        by_locks.setdefault(locks, []).append(page)
    for locks, pages in sorted(by_locks.items()):
        yield {"kind": "tree", "locks": locks, "pages": spans(sorted(pages))}
    for owner in owners_of(snapshot):
        # What lies before the window is read by no later token: the tree may give it back.
        unread = max(0, owner.C - constants.window) // size * size if pool == "swa" else 0
        indices = row_indices(snapshot, owner, pool)[unread : owner.Q : size]
        reads = [index // size for index in indices if index >= 0]
        of_slot = owner.session is not None
        yield {
            "kind": "slot" if of_slot else "request",
            "name": owner.session if of_slot else owner.name,
            "pages": spans(own_pages(snapshot, owner, pool, size)),
            **({"reads": spans(reads)} if reads else {}),
        }
