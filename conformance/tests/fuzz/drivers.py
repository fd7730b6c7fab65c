"""Answers of drivers, and drivers in processes of their own."""

from __future__ import annotations

import json
import shlex
import sys
from random import Random
from typing import Any

from tests.fuzz import conversations, figures, seeds
from tests.fuzz.files import line_sense
from tests.fuzz.given import OUT, SCRIPT, Input, any_odd, text_changed
from tests.fuzz.mutations import broken, changed
from tests.fuzz.odd import dumps

HEAR: tuple[tuple[str, ...], ...] = (
    ("replay", SCRIPT, "--engine", "cmd:driver"),
    ("replay", SCRIPT, "--engine", "cmd:driver"),
    ("replay", SCRIPT, "--engine", "cmd:driver", "--out", OUT, "--log", OUT + ".jsonl"),
    ("replay", SCRIPT, "--engine", "cmd:driver", "--json"),
    ("replay", SCRIPT, "--engine", "reference", "--against", "cmd:driver"),
)
CHECK = ("check-driver", "cmd:driver")


def message(rng: Random) -> Input:
    """Return changed answers of a driver, for `replay` and `check-driver`."""
    life = rng.choice(list(seeds.LIVES))
    lines = list(conversations.answers(life))
    argv = rng.choice(HEAR)
    if "--against" not in argv and rng.randrange(3) == 0:
        config = seeds.LIVES[life][0].to_json()
        shown = [index for index, line in enumerate(lines) if b'"snapshots":[{' in line]
        index = rng.choice(shown)
        answer = json.loads(lines[index])
        snapshot = rng.choice(answer["result"]["snapshots"])
        change = rng.choice(list(figures.changes(snapshot, config)))
        change.make(snapshot)
        lines[index] = dumps(answer).encode() + b"\n"
        wrong = f"answer {index + 1}, iteration {snapshot['iter']}: {change}"
        return Input("messages", b"".join(lines), argv, life, wrong)
    if rng.randrange(10) == 0:
        argv = CHECK
    index = rng.choice((0, 1, rng.randrange(len(lines)), rng.randrange(len(lines))))
    line = text_changed(rng, lines[index].rstrip(b"\n"), _answer_sense)
    lines[index] = line + b"\n"
    data = b"".join(lines)
    if rng.randrange(20) == 0:
        data = broken(rng, data)
    return Input("messages", data, argv, life)


def _answer_sense(rng: Random, answer: Any) -> Any:
    way = rng.randrange(6)
    snapshots = answer["result"].get("snapshots") if isinstance(answer["result"], dict) else None
    if way == 0:
        return {
            "id": answer["id"],
            "ok": False,
            "kind": rng.choice(("crash", "usage", "x")),
            "error": any_odd(rng),
            "trace": any_odd(rng),
        }
    if way == 1:
        answer["id"] = any_odd(rng)
    elif way == 2 and snapshots:
        snapshots[:] = snapshots * rng.choice((0, 2, 50))
    elif snapshots:
        line_sense(rng, {"snapshot": rng.choice(snapshots)})
    else:
        answer["result"] = changed(rng, answer["result"])
    return answer


def driver(rng: Random) -> Input:
    """Return a hostile driver for `run` and `check-driver`. The input is its seed."""
    seed = str(rng.randrange(10**9))
    command = f"{shlex.quote(sys.executable)} -m {__package__}.hostile {seed}"
    times = ("--step-timeout", "0.5")
    engine = ("--engine", f"cmd:{command}", "--config", "p1-one", "--out", OUT)
    limits = ("--examples", "4", "--steps", "6", "--seconds", "2")
    argv: tuple[str, ...] = ("run", *engine, *times, *limits)
    way = rng.randrange(4)
    if way == 0:
        argv = ("check-driver", f"cmd:{command}", *times)
    elif way == 1:
        argv = (*argv, "--all")
    elif way == 2:
        argv = (*argv, "--json")
    return Input("drivers", seed.encode(), argv)
