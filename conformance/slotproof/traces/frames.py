"""Data of one iteration, as stored and rendered: events, messages, counts, page owners."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from slotproof.lockstep.observation import ObservationRecord, Violation
from slotproof.lockstep.oracles.owners import own_pages, row_indices
from slotproof.traces.document import PoolFigures, RequestFigures, SessionFigures, SlotFigures
from slotproof.traces.runs import spans

Table = dict[str, dict[str, Any]]

ACTORS = {"sessions": "session ", "slots": "slot of ", "requests": ""}
"""Text before an actor's name in a title, by the name of the actors' table."""


@dataclass(frozen=True)
class Frame:
    """Data of one iteration. Lengths and counts are in tokens."""

    events: list[dict[str, Any]] = field(default_factory=list)
    """Events in order, each with ``transition``, ``session``, ``request`` and ``params``."""
    told: list[dict[str, Any]] = field(default_factory=list)
    """Messages to clients. ``tokens`` is the number of a message's tokens."""
    pools: Table = field(default_factory=dict)
    """Counts by pool. ``held`` and ``uncached`` come from the engine's own check."""
    shares: Table = field(default_factory=dict)
    """``held`` and ``uncached`` by page ownership, for each pool."""
    sessions: Table = field(default_factory=dict)
    slots: Table = field(default_factory=dict)
    requests: Table = field(default_factory=dict)
    pages: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Page owners by pool. ``kind`` is free, tree, slot or request. ``locks`` is only for tree
    pages. ``reads`` are the tree pages in the owner's row."""
    check: dict[str, Any] = field(default_factory=dict)
    """Result of the engine's own check: ``ran``, ``verdict`` and ``message``."""
    differs: list[dict[str, Any]] = field(default_factory=list)
    """Variables that differ from the spec. ``what`` names the variable and its actor. ``spec`` and
    ``engine`` are the two values, left out if missing. ``at`` is the actor's last transition.
    ``variable``, ``session`` and ``rid`` are the parts of ``what``."""
    carried: bool = False
    """True if the log has no state for this iteration, so the counts are from the last state."""


_SHOWN = {"sessions": SessionFigures, "slots": SlotFigures, "requests": RequestFigures}


def frame_of(seen: ObservationRecord) -> Frame:
    """Return the data of an iteration that the oracles have judged."""
    snapshot: Mapping[str, Any] = seen.snapshot
    checker = snapshot["checker"]
    said = {"message": str(checker["message"])} if checker["message"] else {}
    pools: Table = {}
    for name, pool in snapshot["pools"].items():
        reported = checker["pools"].get(name, {})
        figures = {key: reported[key] for key in ("held", "uncached") if reported}
        pools[name] = _pick(pool, PoolFigures) | figures
    actors: dict[str, Any] = {
        kind: {name: _pick(view, shape) for name, view in snapshot[kind].items()}
        for kind, shape in _SHOWN.items()
    }
    return Frame(
        check={"ran": bool(checker["ran"]), "verdict": checker["verdict"], **said},
        pools=pools,
        shares={of: dict(zip(("held", "uncached"), seen.shares[of], strict=True)) for of in pools},
        pages={pool: list(_holdings(seen, pool)) for pool in pools},
        differs=list(map(_differs, seen.differences)),
        **actors,
        **said_in(snapshot),
    )


def _pick(view: Mapping[str, Any], shape: Any) -> dict[str, Any]:
    return _present(**{name: view.get(name) for name in shape.__annotations__})


def said_in(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """Return a snapshot's events and messages to clients."""
    return {
        "events": [
            {"transition": name, **_present(session=sid, request=rid), "params": dict(params)}
            for name, sid, rid, params in snapshot.get("events", [])
        ],
        "told": [_told(message) for message in snapshot.get("messages", [])],
    }


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _told(message: Any) -> dict[str, Any]:
    known = {key: message.get(key) for key in ("type", "session", "rid", "reason")}
    said = message.get("message") or None
    tokens = len(message["tokens"]) if "tokens" in message else None
    return _present(**known, tokens=tokens, message=said)


def _differs(violation: Violation) -> dict[str, Any]:
    who = {"session": violation.session, "rid": violation.rid}
    key = violation.session if violation.rid is None else f"/{violation.rid}"
    return {
        "what": " ".join(filter(None, (key, violation.variable))),
        **_present(spec=violation.spec, engine=violation.engine, at=violation.transition),
        **_present(variable=violation.variable, **who),
    }


def _holdings(seen: ObservationRecord, pool: str) -> Iterator[dict[str, Any]]:
    """Yield the page owners of a pool, derived as in the page oracle."""
    size, snapshot = seen.config.page_size, seen.snapshot
    yield {"kind": "free", "pages": spans(sorted(snapshot["pools"][pool]["free"]))}
    by_locks: dict[int, list[int]] = {}
    for page, locks in snapshot["tree"].get(pool, ()):
        by_locks.setdefault(locks, []).append(page)
    for locks, pages in sorted(by_locks.items()):
        yield {"kind": "tree", "locks": locks, "pages": spans(sorted(pages))}
    for owner in seen.owners:
        # The tree may free pages before the window, because no later token reads them.
        unread = max(0, owner.C - seen.config.window) // size * size if pool == "swa" else 0
        indices = row_indices(snapshot, owner, pool)[unread : owner.Q : size]
        reads = [index // size for index in indices if index >= 0]
        yield {
            **owner.holder._asdict(),
            "pages": spans(own_pages(snapshot, owner, pool, size)),
            **({"reads": spans(reads)} if reads else {}),
        }
