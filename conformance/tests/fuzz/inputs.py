"""One input of each kind from one source of chance: a file, and the command line that reads it.

Half of the changes know what they change (a command, an event, a figure), the others know that
it is JSON, or nothing at all.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from slotproof.conformance.tests.fuzz import conversations, corpus, figures
from slotproof.conformance.tests.fuzz.mutations import broken, changed, doubled
from slotproof.conformance.tests.fuzz.odd import BAIT, LIGHT, NUMBERS, dumps, raw

FILE, OUT, SCRIPT = "{file}", "{out}", "{script}"
"""Stand in an argument for the input's path, one that may be written, and the life's commands."""


@dataclass(frozen=True)
class Input:
    """What is given to the command line."""

    kind: str
    data: bytes
    argv: tuple[str, ...]
    life: str = ""
    """Whose commands are said to the driver."""
    wrong: str = ""
    """The figure that was changed: no verdict may be that this conforms."""
    right: bool = False
    """Nothing was changed: it conforms."""


def make(kind: str, rng: Random) -> Input:
    """An input of the kind; the same source of chance makes the same one."""
    return KINDS[kind](rng)


# Traces -----------------------------------------------------------------------------------------

READ_TRACE: tuple[tuple[str, ...], ...] = (
    ("replay", FILE, "--engine", "reference"),
    ("replay", FILE, "--engine", "reference"),
    ("replay", FILE),
    ("replay", FILE, "--engine", "reference:22213-double-count", "--json"),
    ("replay", FILE, "--engine", "reference", "--out", OUT, "--log", OUT + ".jsonl"),
    ("show", FILE),
    ("show", FILE),
    ("show", FILE, "--json"),
    ("show", FILE, "--format", "html"),
    ("show", FILE, "--format", "html", "--out", OUT),
    ("show", FILE, "--format", "markdown"),
    ("show", FILE, "--format", "mermaid"),
    ("show", FILE, "--format", "pytest"),
    ("show", FILE, FILE, "--all", "--out", OUT),
    ("diff", FILE, "reference"),
    ("diff", "reference", "reference:leak-full", "--trace", FILE, "--json"),
    ("diff", FILE, FILE),
)


def trace(rng: Random) -> Input:
    """A file for `replay`, `show` and `diff`."""
    data = rng.choice(list(corpus.files("traces").values()))
    argv = rng.choice(READ_TRACE)
    if argv[0] in ("show", "diff") and rng.randrange(2):
        document = json.loads(data)
        frames = [each for state in document["states"] for each in state.get("iterations", [])]
        part = rng.choice(frames) if frames else document
        changed(rng, part)
        return Input("traces", dumps(document).encode("utf-8", "surrogatepass"), argv)
    return Input("traces", _changed(rng, data, _trace_sense), argv)


def _trace_sense(rng: Random, document: Any) -> Any:
    meta = document["#meta"].get("slotproof")
    states = document["states"]
    state, other = rng.choice(states), rng.choice(states)
    where = states.index(state)
    picks = state.get("mbt::nondetPicks", {})
    number = {"#bigint": rng.choice(_COUNTS)}
    way = rng.randrange(10)
    if way == 0 and meta is not None:
        config = meta["config"]
        for _ in range(rng.choice((1, 1, 2, 8))):
            config[rng.choice(list(config))] = rng.choice((*_SIZES, number, _any(rng)))
    elif way == 1 and meta is not None:
        meta["spec"] = rng.choice(_ENGINES)
        if rng.randrange(2):
            meta["engine"] = rng.choice(("sglang 9.9.9", "sglang \u0663", "reference 1", "\x1b[1m"))
    elif way == 2 and picks:
        picks[rng.choice(list(picks))] = rng.choice((number, _any(rng)))
    elif way == 3:
        state["mbt::nondetPicks"] = other.get("mbt::nondetPicks", {})
    elif way == 4:
        state["mbt::actionTaken"] = rng.choice(_COMMANDS)
        state["mbt::nondetPicks"] = {"n": number} if rng.randrange(2) else {}
    elif way == 5:
        states[where:where] = [other] * rng.choice((1, 2, 5, 300))
    elif way == 6:
        del states[where]
    elif way == 7:
        states.sort(key=lambda each: len(each.get("transitions", ())))
    elif way == 8 and rng.randrange(5) == 0:  # as many iterations as can be asked for
        most = {"#bigint": rng.choice(("10000", "1000000"))}
        many = {"mbt::actionTaken": "step", "mbt::nondetPicks": {"n": most}, "transitions": []}
        states[where:where] = [many] * rng.choice((1, 10, 100, 9_000))
    elif meta is not None:
        meta[rng.choice(list(meta))] = _any(rng)
    return document


_COUNTS = ("0", "1", "2", "50", "10000", "10001", "1000000", "100000000", "-1", "\u0663")
_SIZES = (1, 2, 3, 4, 8, 16, 64, 4096, 10_000, 10_000_000, 10_000_001, 10**9)
_COMMANDS = ("step", "tick", "evict", "retract", "draft", "flush", "pause", "abort_all", "__init__")
_ENGINES = (
    "reference", "reference:leak-full", "reference-transformer", "cmd:touch owned", "sglang:bait",
    "sglang==9.9.9", "sglang==0.5.1\u0663", BAIT, f"sglang:{BAIT}", "\x1b]0;owned\x07",
)  # fmt: skip


def _any(rng: Random) -> str:
    return raw(rng.choice(LIGHT))


# Logs -------------------------------------------------------------------------------------------


def log(rng: Random) -> Input:
    """A file for `validate`."""
    lines = rng.choice(list(corpus.files("logs").values())).splitlines()
    argv = ("validate", FILE, "--json") if rng.randrange(4) == 0 else ("validate", FILE)
    if rng.randrange(3) == 0:
        config = json.loads(lines[0])["config"]
        shown = [index for index, line in enumerate(lines) if line.startswith(b'{"snapshot"')]
        index = rng.choice(shown)
        line = json.loads(lines[index])
        change = rng.choice(list(figures.changes(line["snapshot"], config)))
        change.make(line["snapshot"])
        lines[index] = dumps(line).encode()
        return Input("logs", _joined(lines), argv, wrong=f"line {index + 1}: {change}")
    way = rng.randrange(10)
    if way == 0:
        _reordered(rng, lines)
        return Input("logs", _joined(lines), argv)
    if way == 1:
        return Input("logs", broken(rng, _joined(lines)), argv)
    index = rng.randrange(len(lines))
    lines[index] = _changed(rng, lines[index], _line_sense)
    return Input("logs", _joined(lines), argv)


def _joined(lines: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _reordered(rng: Random, lines: list[bytes]) -> None:
    a, b = rng.randrange(len(lines)), rng.randrange(len(lines))
    way = rng.randrange(4)
    if way == 0:
        del lines[a]
    elif way == 1:
        lines[a], lines[b] = lines[b], lines[a]
    elif way == 2:
        lines.insert(a, lines[b])
    else:
        del lines[min(a, b) : max(a, b)]


def _line_sense(rng: Random, line: Any) -> Any:
    snapshot = line.get("snapshot")
    if snapshot is None:
        part = line.get("config") or line.get("command") or line
        part[rng.choice(list(part))] = rng.choice((_any(rng), rng.choice(_SIZES)))
        return line
    events = snapshot.get("events", [])
    way = rng.randrange(6)
    if way < 3 and events:
        _events(rng, events)
    elif way == 3:
        snapshot.pop(rng.choice(list(snapshot)))
    elif way == 4:
        return json.loads(json.dumps(line).replace('"s1"', '"s2"').replace('"r1"', '"r2"'))
    elif snapshot:
        change = rng.choice(list(figures.changes(snapshot, {"window": 1})) or [None])
        if change is not None:
            change._replace(value=rng.choice(_SIZES)).make(snapshot)
    return line


def _events(rng: Random, events: list[Any]) -> None:
    a, b = rng.randrange(len(events)), rng.randrange(len(events))
    way = rng.randrange(5)
    if way == 0:
        del events[a]
    elif way == 1:
        events[a], events[b] = events[b], events[a]
    elif way == 2:
        events.insert(a, events[b])
    elif way == 3:
        events[a][rng.randrange(4)] = rng.choice((_any(rng), "T-SAVE", "T-EVICT", "s2", None))
    elif events[a][3]:
        events[a][3][rng.choice(list(events[a][3]))] = raw(rng.choice(NUMBERS))


# Baselines --------------------------------------------------------------------------------------

READ_BASELINE = ("run", "--config", "p1-one", "--examples", "1", "--steps", "1", "--out", OUT)
NO_ENGINE = ("--engine", "reference:no-such")
"""Ends the run where the baseline has been read: an example takes longer than all before."""


def baseline(rng: Random) -> Input:
    """A file for `run --baseline`."""
    data = rng.choice(list(corpus.files("baselines").values()))
    argv: tuple[str, ...] = (*READ_BASELINE, "--baseline", FILE)
    if rng.randrange(4):
        argv = (*argv, *NO_ENGINE)
    elif rng.randrange(2):
        argv = (*argv, rng.choice(("--json", "--update-baseline")))
    return Input("baselines", _changed(rng, data, _baseline_sense), argv)


def _baseline_sense(rng: Random, document: Any) -> Any:
    entries = document["findings"]
    if not entries:
        entries.append({"id": "INV-OWNER.lost@step", "reason": "x"})
    entry = rng.choice(entries)
    way = rng.randrange(5)
    if way == 0:
        entry["engine"] = rng.choice(("*" * 30 + "b", "[", "[!a-", "reference 1", _any(rng)))
    elif way == 1:
        entry["id"] += rng.choice(("", "\n", "\x1b", "x" * 1000, ":", "@"))
    elif way == 2:
        entries += [dict(entry) for _ in range(rng.choice((1, 2, 300)))]
    elif way == 3:
        entry[rng.choice(("trace", "reason", "engine", "id"))] = _any(rng)
    elif rng.randrange(10) == 0:
        entries += [{**entry, "engine": f"e{number}"} for number in range(3000)]
    return document


# Driver messages --------------------------------------------------------------------------------

HEAR: tuple[tuple[str, ...], ...] = (
    ("replay", SCRIPT, "--engine", "cmd:driver"),
    ("replay", SCRIPT, "--engine", "cmd:driver"),
    ("replay", SCRIPT, "--engine", "cmd:driver", "--out", OUT, "--log", OUT + ".jsonl"),
    ("replay", SCRIPT, "--engine", "cmd:driver", "--json"),
    ("diff", "reference", "cmd:driver", "--trace", SCRIPT),
)
CHECK = ("check-driver", "cmd:driver")


def message(rng: Random) -> Input:
    """What a driver answers, for `replay`, `diff` and `check-driver`."""
    life = rng.choice(list(corpus.LIVES))
    lines = list(conversations.answers(life))
    argv = rng.choice(HEAR)
    if argv[0] == "replay" and rng.randrange(3) == 0:
        config = corpus.LIVES[life][0].to_json()
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
    line = _changed(rng, lines[index].rstrip(b"\n"), _answer_sense)
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
            "id": answer["id"], "ok": False, "kind": rng.choice(("crash", "usage", "x")),
            "error": _any(rng), "trace": _any(rng),
        }  # fmt: skip
    if way == 1:
        answer["id"] = _any(rng)
    elif way == 2 and snapshots:
        snapshots[:] = snapshots * rng.choice((0, 2, 50))
    elif snapshots:
        _line_sense(rng, {"snapshot": rng.choice(snapshots)})
    else:
        answer["result"] = changed(rng, answer["result"])
    return answer


# Drivers in processes of their own ----------------------------------------------------------------


def driver(rng: Random) -> Input:
    """A driver that turns on us, for `run` and `check-driver`; its seed is the input."""
    seed = str(rng.randrange(10**9))
    command = f"{shlex.quote(sys.executable)} -m {__package__}.hostile {seed}"
    times = ("--step-timeout", "0.5", "--start-timeout", "2")
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


# What they have in common -----------------------------------------------------------------------


def _changed(rng: Random, data: bytes, sense: Callable[[Random, Any], Any]) -> bytes:
    """A JSON text with some changes."""
    way = rng.randrange(20)
    if way == 0:
        return broken(rng, data)
    value = json.loads(data)
    if way < 9:
        value = sense(rng, value)
    else:
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            value = changed(rng, value)
    text = dumps(value)
    if way == 19:
        text = doubled(rng, text)
    return text.encode("utf-8", "surrogatepass")


KINDS: Mapping[str, Callable[[Random], Input]] = {
    "traces": trace, "logs": log, "baselines": baseline, "messages": message, "drivers": driver,
}  # fmt: skip


def untouched() -> list[Input]:
    """The whole corpus as it is, each with what reads it."""
    found = [
        Input("traces", data, argv, right="reference" in argv and argv[0] == "replay")
        for name, data in corpus.files("traces").items()
        for argv in READ_TRACE
        if not name.startswith("spec-") or argv == ("show", FILE)
    ]
    found += [
        Input("logs", data, ("validate", FILE), right=True)
        for data in corpus.files("logs").values()
    ]
    found += [
        Input("baselines", data, (*READ_BASELINE, "--baseline", FILE))
        for data in corpus.files("baselines").values()
    ]
    found += [
        Input("messages", b"".join(conversations.answers(life)), argv, life, right=True)
        for life in corpus.LIVES
        for argv in HEAR
        if argv[0] == "replay"
    ]
    return found
