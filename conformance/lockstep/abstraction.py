"""From an engine's snapshot to a state of the spec.

| spec | snapshot |
|---|---|
| pools, rows | ``pools``, ``rows`` (free rows are counted) |
| session, slot | ``sessions[s]``, ``slots[s]``; ``lent`` from ownership where there is no flag |
| turn | the request of kind *turn* that names the session |
| an actor of its own | every other request (plain, stub, doomed), and a second turn |
| E | 0 up to Q: there the cursor stands on the tree's pages and says nothing |
| locked | it has KV of its own and a tree lock; a lock on nothing (Q = 0) always counts as had |
"""

from __future__ import annotations

from slotproof.conformance.protocol.snapshot import RequestView, SlotView, Snapshot
from slotproof.model.evaluate import Vector
from slotproof.model.state import KINDS, NO_ROW, NONE, PHASES, PLAIN
from slotproof.model.world import EMPTY_ACTOR, Constants, World

_NO_SLOT = list(EMPTY_ACTOR[4:12])
_NO_TURN = list(EMPTY_ACTOR[12:])
_HAS_KV = ("matched", "parked", "running")


def abstract(snapshot: Snapshot, constants: Constants) -> World:
    """The state of the spec that the snapshot shows."""
    pools: Vector = []
    for name in ("full", "swa"):
        pool = snapshot["pools"].get(name)
        if pool is None:
            pools += [0, 0, 0, 0]
        else:
            pools += [pool["total"], pool["available"], pool["evictable"], pool["protected"]]
    pools += [snapshot["rows"]["total"], len(snapshot["rows"]["free"])]
    world = World(constants, pools)

    turns: dict[str, RequestView] = {}
    loans = {request["loan"] for request in snapshot["requests"].values()}
    for rid, request in snapshot["requests"].items():
        sid = request["session"]
        if request["kind"] == "turn" and sid in snapshot["sessions"] and sid not in turns:
            assert sid is not None
            turns[sid] = request
        else:
            alone = [0, 0, 0, 0, *_NO_SLOT, *_turn(request, constants, alone=True)]
            world.put("/" + rid, alone)
    for sid in dict.fromkeys([*snapshot["sessions"], *snapshot["slots"]]):
        session = snapshot["sessions"].get(sid)
        slot = snapshot["slots"].get(sid)
        if session is None:
            values = [0, 0, 0, 0]
        else:
            values = [
                int(session["open"]),
                int(session["closing"]),
                int(session["inflight"] is not None),
                session["history"],
            ]
        values += _slot(slot, constants, sid in loans)
        values += _turn(turns[sid], constants) if sid in turns else _NO_TURN
        world.put(sid, values)
    return world


def _slot(slot: SlotView | None, constants: Constants, on_loan: bool) -> list[int]:
    if slot is None:
        return _NO_SLOT
    lent = on_loan if slot["lent"] is None else slot["lent"]
    cursor = _cursor(slot, constants)
    locked = slot["Q"] == 0 or slot["locks"] > 0
    return [1, int(lent), slot["row"], slot["C"], slot["A"], slot["Q"], cursor, int(locked)]


def _turn(request: RequestView, constants: Constants, alone: bool = False) -> list[int]:
    kind = PLAIN if alone else KINDS[request["kind"]]
    values = [kind, PHASES[request["phase"]], request["prompt"], request["output"]]
    cursor = _cursor(request, constants)
    if request["phase"] not in _HAS_KV and request["row"] == NO_ROW:  # no KV, nothing to lock
        return [*values, NO_ROW, request["C"], request["A"], request["Q"], cursor, 0]
    own = request["loan"] is None
    locked = own and (request["Q"] == 0 or request["locks"] > 0)
    return [*values, request["row"], request["C"], request["A"], request["Q"], cursor, int(locked)]


def _cursor(view: SlotView | RequestView, constants: Constants) -> int:
    return view["E"] if constants.window and view["E"] > view["Q"] else 0


assert len(EMPTY_ACTOR) == 22 and EMPTY_ACTOR[12] == NONE, "the layout above follows state.STATE"
