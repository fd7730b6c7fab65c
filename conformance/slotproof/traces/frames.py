"""One iteration as a reader wants to see it: events, answers, figures, and whose each page is."""

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
"""The tables of actors, and what stands before their names in a title."""


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
    last transition of its actor. A missing value: there is none on that side. What it is, apart:
    ``variable``, and ``session`` or ``rid``."""
    carried: bool = False
    """Its state was not recorded: the figures are those of the last that was."""


_SHOWN = {"sessions": SessionFigures, "slots": SlotFigures, "requests": RequestFigures}


def frame_of(seen: ObservationRecord) -> Frame:
    """Return what an iteration showed, as the oracles looked at it."""
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
        shares={
            pool: dict(zip(("held", "uncached"), seen.shares[pool], strict=True)) for pool in pools
        },
        pages={pool: list(_holdings(seen, pool)) for pool in pools},
        differs=list(map(_differs, seen.differences)),
        **actors,
        **said_in(snapshot),
    )


def _pick(view: Mapping[str, Any], shape: Any) -> dict[str, Any]:
    return _present(**{name: view.get(name) for name in shape.__annotations__})


def said_in(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """What happened, and what clients were told."""
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


def _differs(found: Violation) -> dict[str, Any]:
    who = {"session": found.session, "rid": found.rid}
    key = found.session if found.rid is None else f"/{found.rid}"
    return {
        "what": " ".join(filter(None, (key, found.variable))),
        **_present(spec=found.spec, engine=found.engine, at=found.transition),
        **_present(variable=found.variable, **who),
    }


def _holdings(seen: ObservationRecord, pool: str) -> Iterator[dict[str, Any]]:
    """Who has which pages, as the page oracle sees it."""
    size, snapshot = seen.config.page_size, seen.snapshot
    yield {"kind": "free", "pages": spans(sorted(snapshot["pools"][pool]["free"]))}
    by_locks: dict[int, list[int]] = {}
    for page, locks in snapshot["tree"].get(pool, ()):
        by_locks.setdefault(locks, []).append(page)
    for locks, pages in sorted(by_locks.items()):
        yield {"kind": "tree", "locks": locks, "pages": spans(sorted(pages))}
    for owner in seen.owners:
        # What lies before the window is read by no later token: the tree may give it back.
        unread = max(0, owner.C - seen.config.window) // size * size if pool == "swa" else 0
        indices = row_indices(snapshot, owner, pool)[unread : owner.Q : size]
        reads = [index // size for index in indices if index >= 0]
        yield {
            **owner.holder._asdict(),
            "pages": spans(own_pages(snapshot, owner, pool, size)),
            **({"reads": spans(reads)} if reads else {}),
        }
