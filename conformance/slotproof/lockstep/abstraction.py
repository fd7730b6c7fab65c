"""Abstraction of an engine's snapshot to a state of the spec.

| spec | snapshot |
|---|---|
| pools, rows | ``pools``, ``rows``: the free rows are only counted |
| session, slot | ``sessions[s]``, ``slots[s]``: a null ``lent`` is true if a request has the slot |
| turn | the first request of kind *turn* that names the session |
| another actor | each plain, stub or doomed request, and each second turn of a session |
| E | ``E``, or 0 if ``E`` <= ``Q``: a cursor on tree pages has no meaning |
| locked | true if the actor has KV, and if it has a lock in the prefix tree or Q is 0 |
| told, rounds | shown by no engine: :func:`carry` takes them from the spec's state |
"""

from __future__ import annotations

from slotproof.protocol.snapshot import PoolView, RequestView, SessionView, SlotView, Snapshot
from slotproof_model.evaluation.layout import EMPTY_ACTOR, OWN, REQUEST, SESSION, SLOT, Values
from slotproof_model.evaluation.world import Constants, World
from slotproof_model.spec import invariant
from slotproof_model.spec.state import KINDS, NO_ROW, PHASES, Pool, Request, Rows, Session, Slot

_NO_POOL = Pool(total=0, available=0, evictable=0, protected=0)
_NO_SESSION, _NO_SLOT, _NO_REQUEST = (EMPTY_ACTOR[part] for part in (SESSION, SLOT, REQUEST))
_HAS_KV = ("matched", "parked", "running")
_KIND = OWN["req.kind"]
UNSHOWN = frozenset(OWN[name] for name in invariant.UNSHOWN)
"""Indices of the variables that no snapshot shows."""


def abstract(snapshot: Snapshot, constants: Constants) -> World:
    """Return the spec state that a snapshot shows."""
    pools = snapshot["pools"]
    rows = Rows(total=snapshot["rows"]["total"], free=len(snapshot["rows"]["free"]))
    world = World(constants, (*_pool(pools.get("full")), *_pool(pools.get("swa")), *rows))

    turns: dict[str, RequestView] = {}
    loans = {request["loan"] for request in snapshot["requests"].values()}
    for rid, request in snapshot["requests"].items():
        sid = request["session"]
        if request["kind"] == "turn" and sid in snapshot["sessions"] and sid not in turns:
            assert sid is not None
            turns[sid] = request
        else:
            alone = _request(request, constants, alone=True)
            world.put("/" + rid, [*_NO_SESSION, *_NO_SLOT, *alone])
    for sid in dict.fromkeys([*snapshot["sessions"], *snapshot["slots"]]):
        session = snapshot["sessions"].get(sid)
        slot = _slot(snapshot["slots"].get(sid), constants, sid in loans)
        turn = _request(turns[sid], constants) if sid in turns else _NO_REQUEST
        world.put(sid, [*_session(session), *slot, *turn])
    return world


def _pool(pool: PoolView | None) -> Values:
    if pool is None:
        return _NO_POOL
    return Pool(pool["total"], pool["available"], pool["evictable"], pool["protected"])


def _session(session: SessionView | None) -> Values:
    if session is None:
        return _NO_SESSION
    inflight, history = int(session["inflight"] is not None), session["history"]
    return Session(int(session["open"]), int(session["closing"]), inflight, history)


def _slot(slot: SlotView | None, constants: Constants, on_loan: bool) -> Values:
    if slot is None:
        return _NO_SLOT
    lent = on_loan if slot["lent"] is None else slot["lent"]
    return Slot(1, int(lent), *_row_of(slot, constants), int(slot["Q"] == 0 or slot["locks"] > 0))


def _request(request: RequestView, constants: Constants, alone: bool = False) -> Values:
    has_kv = request["phase"] in _HAS_KV or request["row"] != NO_ROW  # without KV: no lock
    locked = has_kv and request["loan"] is None and (request["Q"] == 0 or request["locks"] > 0)
    kind = KINDS["plain" if alone else request["kind"]]
    phase, prompt, output = PHASES[request["phase"]], request["prompt"], request["output"]
    row = _row_of(request, constants)
    runs = constants.overlap and request["phase"] == "running"
    rounds = _rounds(row[1] - prompt - output, constants.batches) if runs else 0
    return Request(kind, phase, prompt, output, output, rounds, *row, int(locked))


def _rounds(ahead: int, most: int) -> int:
    """Return the likely number of rounds without a result, if the KV is ahead of the known tokens
    by ``ahead`` tokens. The request is between two chunks of its prompt if KV is missing."""
    return 0 if ahead < -1 else min(most, max(1, ahead + 1))


def carry(spec: World, engine: World) -> None:
    """Set the variables that no snapshot shows, in the engine's state, to the spec's values."""
    for key, values in engine.actors.items():
        if (ours := spec.actors.get(key)) is not None and ours[_KIND] == values[_KIND]:
            for index in UNSHOWN:
                values[index] = ours[index]


def _row_of(view: SlotView | RequestView, constants: Constants) -> tuple[int, int, int, int, int]:
    """Return the row, C, A, Q and E of a slot or a request."""
    cursor = view["E"] if constants.window and view["E"] > view["Q"] else 0
    return view["row"], view["C"], view["A"], view["Q"], cursor
