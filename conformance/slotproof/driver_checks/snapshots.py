"""Checks of snapshots: complete, consistent, and without state from before a reset."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from slotproof.driver_checks.driver import SCRIPT, Driver, NotAsked, checks
from slotproof.driver_checks.meanings import in_units
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import SNAPSHOTS, Snapshot, nonsense
from slotproof_model.spec.transitions import TRANSITIONS

OPEN: Command = SCRIPT[0]
TURN: Command = {**SCRIPT[2], "tokens": [1, 2, 3], "max_new": 2}


@checks(
    "look up the field under “Snapshot” in docs/reference/protocol.md; an exception names its "
    "place in the engine or the driver"
)
def snapshot(driver: Driver) -> Iterator[str]:
    """Every snapshot is complete and follows the schema."""
    for name, config in (driver.configs or {"": driver.config}).items():
        yield from (f"{name}: {wrong}" for wrong in _complete(driver, config))


def _complete(driver: Driver, config: EngineConfig) -> Iterator[str]:
    driver.fresh(config)
    offered = set(driver.capabilities.pools) if driver.capabilities else {"full"}
    wanted = offered if config.window else offered - {"swa"}
    for command in driver.script():
        answer = driver.do(command)
        name = " ".join(str(command[key]) for key in ("do", "rid", "n") if key in command)
        if not answer["ok"]:
            lines = [line.strip() for line in str(answer.get("trace", "")).splitlines()]
            places = [line for line in lines if line.startswith(('File "', "at "))]
            where = f" ({places[-1]})" if places else ""
            yield f"{name} is answered with: {answer.get('error')}{where}"
            return
        wrong = SNAPSHOTS.line(answer.get("result"))
        for snapshot in answer["result"]["snapshots"] if wrong is None else ():
            missing = wanted - snapshot["pools"].keys()
            wrong = f"pool {min(missing)!r} is missing" if missing else nonsense(snapshot, config)
            if wrong is not None:
                break
        if wrong is not None:
            yield f"after {name}: {wrong}"
            return


@checks("build or fork a new engine per reset; empty the driver's own inbox and counters")
def reset(driver: Driver) -> Iterator[str]:
    """Every reset, even after another reset, gives an engine without state of the last run."""
    driver.fresh()
    driver.live()
    driver.do(OPEN)
    driver.do(TURN)  # The commands are still unread when the next reset comes.
    driver.fresh()
    driver.fresh()
    snapshot = driver.one()
    for name, pool in snapshot["pools"].items():
        pages = pool["total"] // driver.config.page_size
        if len(pool["free"]) != pages:
            yield f"{len(pool['free'])} of {pages} pages of pool {name} are free after a reset"
    if len(snapshot["rows"]["free"]) != snapshot["rows"]["total"]:
        yield f"{len(snapshot['rows']['free'])} of {snapshot['rows']['total']} rows are free"
    for name in ("sessions", "slots", "requests", "messages"):
        if snapshot[name]:  # type: ignore[literal-required]
            yield f"{name} after a reset: {json.dumps(snapshot[name])[:80]}"  # type: ignore[literal-required]
    if snapshot["iter"] != 1:
        yield f"iter is {snapshot['iter']} after a reset and one step"


@checks("give a snapshot per iteration, also without a batch; iter starts at 1 and stays in a tick")
def empty_step(driver: Driver) -> Iterator[str]:
    """A step without work shows a snapshot per iteration, and a tick shows one snapshot."""
    driver.fresh()
    answer = driver.do({"do": "step", "n": 3})
    if not answer["ok"]:
        yield f"step 3 is answered with: {answer.get('error')}"
        return
    result: Any = answer.get("result")
    if SNAPSHOTS.misfit(result) is not None:
        raise NotAsked("snapshots do not follow the schema")
    shown = result["snapshots"]
    if len(shown) != 3:
        yield f"step 3 shows {len(shown)} snapshots"
    if [snapshot.get("iter") for snapshot in shown] != list(range(1, len(shown) + 1)):
        yield f"iter goes {[snapshot.get('iter') for snapshot in shown]}"
    ticked = driver.shown({"do": "tick", "seconds": 1})
    if len(ticked) != 1:
        yield f"tick shows {len(ticked)} snapshots instead of one"
    elif ticked[0]["iter"] != shown[-1]["iter"]:
        yield f"iter goes from {shown[-1]['iter']} to {ticked[0]['iter']} in a tick"


@checks('queue commands; answer {"snapshots": []}; set consumed in the step that reads the queue')
def inbox(driver: Driver) -> Iterator[str]:
    """Commands wait for the next step, and the step reports the number of consumed commands."""
    driver.fresh()
    for command in (OPEN, TURN):
        if shown := driver.shown(command):
            yield f"{command['do']} shows {len(shown)} snapshots, but belongs in the inbox"
    read = driver.one()
    if read["consumed"] != 2:
        yield f"a step after `open` and `submit` reports {read['consumed']} consumed commands"
    again = driver.one()
    if again["consumed"]:
        yield f"a step with nothing to read reports {again['consumed']} consumed commands"
    types = [message["type"] for message in read["messages"]]
    if types[:1] != ["opened"]:
        yield f"the client of the first `open` command gets messages {types}"


@checks("take figures (in tokens) and lists (of pages) at the same moment")
def counts(driver: Driver) -> Iterator[str]:
    """Figures agree with the lists in the same snapshot."""
    for run in driver.script_runs():
        evicted = 0
        for _, snapshot, _ in run.moments:
            if in_units(run, snapshot):
                raise NotAsked("figures are in a wrong unit")
            wrong = _miscounted(snapshot, run.config.page_size)
            before, evicted = evicted, snapshot["pools"]["full"].get("evicted", evicted)
            if wrong is None and evicted < before:
                wrong = f"full: evicted was {before} and is {evicted}, but can only grow"
            if wrong is not None:
                yield run.at(snapshot, wrong)
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
    for sid, session in snapshot["sessions"].items():
        if session["inflight"] and session["inflight"] not in snapshot["requests"]:
            return f"{sid} is in flight with {session['inflight']}, but no such request exists"
    for ended in snapshot.get("ended", ()):
        if ended["rid"] in snapshot["requests"]:
            return f"{ended['rid']} is listed as ended, and also among the requests"
    return None


@checks("see “Events” in docs/reference/protocol.md, or offer no events")
def events(driver: Driver) -> Iterator[str]:
    """Events name known transitions with all parameters, and appear only if offered."""
    offered, seen = driver.offered(), list[str]()
    for snapshot in (shown for run in driver.script_runs() for _, shown, _ in run.moments):
        if ("events" in snapshot) != offered.events:
            yield f"events are {'shown' if 'events' in snapshot else 'missing'} in a snapshot"
            return
        for transition, sid, rid, parameters in snapshot.get("events", []):
            name = str(transition)
            if name not in TRANSITIONS:
                seen.append(f"unknown transition {name!r}")
                continue
            if missing := set(TRANSITIONS[name].names) - parameters.keys():
                seen.append(f"{name} without {', '.join(sorted(missing))}")
            if sid is None and rid is None and TRANSITIONS[name].has_actor:
                seen.append(f"{name} without a session or a request")
            if offered.transitions and name not in offered.transitions:
                seen.append(f"{name} is not among the transitions offered")
    yield from dict.fromkeys(seen)


@checks("seed all random choices; show no wall-clock time, and no list in the order of a set")
def determinism(driver: Driver) -> Iterator[str]:
    """The same seed and commands give the same snapshots, in a new process too."""
    lives = []
    for _ in range(2):
        driver.again()
        driver.fresh()
        lives.append(driver.live())
    for first, second in zip(*lives, strict=False):
        if first != second:
            fields = [key for key in first if first[key] != second.get(key)]
            yield f"iteration {first['iter']} differs in {', '.join(fields)}"
            return
    if len(lives[0]) != len(lives[1]):
        yield f"{len(lives[0])} snapshots, then {len(lives[1])}"
