"""Manners of what is shown: complete, in itself consistent, and fresh after a reset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from slotproof.conformance.driver_checks.guest import Guest, NotAsked
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.snapshot import SNAPSHOTS, Snapshot
from slotproof.model.transitions import TRANSITIONS

OPEN: Command = {"do": "open", "session": "s1"}
TURN: Command = {
    "do": "submit",
    "session": "s1",
    "rid": "r1",
    "tokens": [1, 2, 3],
    "max_new": 2,
    "stop": [],
}


def valid(guest: Guest) -> Iterator[str]:
    """Every snapshot of the script follows the schema, and shows the pools that are offered."""
    guest.fresh()
    offered = set(guest.capabilities.pools) if guest.capabilities else {"full"}
    wanted = offered if guest.config.window else offered - {"swa"}
    for command in guest.script():
        answer = guest.do(command)
        if not answer["ok"]:
            yield f"{_name(command)} is answered with: {answer.get('error')}"
            return
        wrong = SNAPSHOTS.line(answer.get("result"))
        if wrong is not None:
            yield f"after {_name(command)}: {wrong}"
            return
        for snapshot in answer["result"]["snapshots"]:
            missing = wanted - snapshot["pools"].keys()
            if missing:
                yield f"after {_name(command)}: there is no pool {min(missing)!r}"
                return


def reset(guest: Guest) -> Iterator[str]:
    """Nothing of an earlier life is left: not in the pools, not in the inbox."""
    guest.fresh()
    guest.live()
    guest.do(OPEN)
    guest.do(TURN)  # unread when the reset comes
    guest.fresh()
    guest.fresh()
    found = guest.one()
    for name, pool in found["pools"].items():
        pages = pool["total"] // guest.config.page_size
        if len(pool["free"]) != pages:
            yield f"{len(pool['free'])} of {pages} pages of pool {name} are free after a reset"
    if len(found["rows"]["free"]) != found["rows"]["total"]:
        yield f"{len(found['rows']['free'])} of {found['rows']['total']} rows are free"
    for name in ("sessions", "slots", "requests", "messages"):
        if found[name]:  # type: ignore[literal-required]
            yield f"{name} after a reset: {json.dumps(found[name])[:80]}"  # type: ignore[literal-required]
    if found["iter"] != 1:
        yield f"iter is {found['iter']} after a reset and one step"


def empty_step(guest: Guest) -> Iterator[str]:
    """A step with nothing to do is an iteration like any other."""
    guest.fresh()
    answer = guest.do({"do": "step", "n": 3})
    if not answer["ok"]:
        yield f"step 3 is answered with: {answer.get('error')}"
        return
    result: Any = answer.get("result")
    if SNAPSHOTS.misfit(result) is not None:
        raise NotAsked("snapshots do not follow the schema")
    found = result["snapshots"]
    if len(found) != 3:
        yield f"step 3 shows {len(found)} snapshots"
    if [each.get("iter") for each in found] != list(range(1, len(found) + 1)):
        yield f"iter goes {[each.get('iter') for each in found]}"
    ticked = guest.shown({"do": "tick", "seconds": 1})
    if len(ticked) != 1:
        yield f"tick shows {len(ticked)} snapshots, not one"


def inbox(guest: Guest) -> Iterator[str]:
    """Commands wait for the next step, which says how many it read."""
    guest.fresh()
    for command in (OPEN, TURN):
        found = guest.shown(command)
        if found:
            yield f"{command['do']} shows {len(found)} snapshots; it goes to the inbox"
    read = guest.one()
    if read["consumed"] != 2:
        yield f"a step after open and submit says that it consumed {read['consumed']} commands"
    told = [message["type"] for message in read["messages"]]
    if told[:1] != ["opened"]:
        yield f"the client of the first open is told {told}"


def counts(guest: Guest) -> Iterator[str]:
    """Figures are those of the lists beside them."""
    guest.fresh()
    for snapshot in guest.live():
        wrong = _miscounted(snapshot, guest.config.page_size)
        if wrong is not None:
            yield f"at iteration {snapshot['iter']}: {wrong}"
            return


def _miscounted(snapshot: Snapshot, size: int) -> str | None:
    for name, pool in snapshot["pools"].items():
        if pool["available"] != len(pool["free"]) * size:
            return f"{name}: available is {pool['available']}, {len(pool['free'])} pages are free"
        pages = snapshot["tree"].get(name, [])
        cached = pool["evictable"] + pool["protected"]
        if cached != len(pages) * size:
            return f"{name}: evictable and protected are {cached}, the tree has {len(pages)} pages"
    rows = snapshot["rows"]
    if len(rows["free"]) + len(rows["used"]) != rows["total"]:
        return f"{len(rows['free'])} rows free, {len(rows['used'])} used, {rows['total']} in all"
    for kind in ("slots", "requests"):
        for key, view in snapshot[kind].items():
            shown = rows["used"].get(str(view["row"]), {"full": []})["full"]
            if view["row"] >= 0 and not view.get("lent") and len(shown) < view["A"]:
                return f"row {view['row']} of {key} shows {len(shown)} of {view['A']} positions"
    for sid, session in snapshot["sessions"].items():
        if session["inflight"] and session["inflight"] not in snapshot["requests"]:
            return f"{sid} is in flight with {session['inflight']}, which is no request"
    return None


def events(guest: Guest) -> Iterator[str]:
    """Known transitions, all their parameters, only where events are offered."""
    guest.fresh()
    offered = guest.capabilities
    if offered is None:
        raise NotAsked("the capabilities are not known")
    seen: list[str] = []
    for snapshot in guest.live():
        if ("events" in snapshot) != offered.events:
            yield f"events are {'shown' if 'events' in snapshot else 'missing'} in a snapshot"
            return
        for transition, sid, rid, parameters in snapshot.get("events", []):
            name = str(transition)
            if name not in TRANSITIONS:
                seen.append(f"there is no transition {name!r}")
                continue
            wanted = {var.name.removeprefix("param.") for var in TRANSITIONS[name].params}
            if wanted - parameters.keys():
                seen.append(f"{name} without {', '.join(sorted(wanted - parameters.keys()))}")
            if sid is None and rid is None and name != "T-EVICT":
                seen.append(f"{name} of nobody")
            if offered.transitions and name not in offered.transitions:
                seen.append(f"{name} is not among the transitions offered")
    yield from dict.fromkeys(seen)


def determinism(guest: Guest) -> Iterator[str]:
    """The same seed and commands show the same, in another process too."""
    lives = []
    for _ in range(2):
        guest.again()
        guest.fresh()
        lives.append(guest.live())
    for first, second in zip(*lives, strict=False):
        if first != second:
            fields = [key for key in first if first[key] != second.get(key)]
            yield f"iteration {first['iter']} differs in {', '.join(fields)}"
            return
    if len(lives[0]) != len(lives[1]):
        yield f"{len(lives[0])} snapshots, then {len(lives[1])}"


def _name(command: Command) -> str:
    return " ".join(str(command[key]) for key in ("do", "rid", "n") if key in command)
