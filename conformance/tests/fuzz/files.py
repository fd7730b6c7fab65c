"""Traces, logs and baselines with changes, some of them to a chosen part of the file."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.fuzz import figures, seeds
from tests.fuzz.given import FILE, OUT, Input, any_odd, text_changed
from tests.fuzz.mutations import broken, changed
from tests.fuzz.odd import BAIT, NUMBERS, dumps, raw

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
    ("show", FILE, "--format", "pytest"),
    ("show", FILE, "--format", "issue"),
    ("show", FILE, FILE, "--all", "--out", OUT),
    ("replay", FILE, "--engine", "reference", "--against", FILE),
    ("replay", FILE, "--engine", "reference", "--against", "reference:leak-full", "--json"),
)


def trace(rng: Random) -> Input:
    """A file for `replay` and `show`."""
    data = rng.choice(list(seeds.files("traces").values()))
    argv = rng.choice(READ_TRACE)
    if (argv[0] == "show" or "--against" in argv) and rng.randrange(2):
        document = json.loads(data)
        frames = [frame for state in document["states"] for frame in state.get("iterations", [])]
        part = rng.choice(frames) if frames else document
        changed(rng, part)
        return Input("traces", dumps(document).encode("utf-8", "surrogatepass"), argv)
    return Input("traces", text_changed(rng, data, _trace_sense), argv)


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
            config[rng.choice(list(config))] = rng.choice((*_SIZES, number, any_odd(rng)))
    elif way == 1 and meta is not None:
        meta["spec"] = rng.choice(_ENGINES)
        if rng.randrange(2):
            meta["engine"] = rng.choice(("sglang 9.9.9", "sglang \u0663", "reference 1", "\x1b[1m"))
    elif way == 2 and picks:
        picks[rng.choice(list(picks))] = rng.choice((number, any_odd(rng)))
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
        states.sort(key=lambda item: len(item.get("transitions", ())))
    elif way == 8 and rng.randrange(5) == 0:  # The largest number of iterations allowed.
        most = {"#bigint": rng.choice(("10000", "1000000"))}
        many = {"mbt::actionTaken": "step", "mbt::nondetPicks": {"n": most}, "transitions": []}
        states[where:where] = [many] * rng.choice((1, 10, 100, 9_000))
    elif meta is not None:
        meta[rng.choice(list(meta))] = any_odd(rng)
    return document


_COUNTS = ("0", "1", "2", "50", "10000", "10001", "1000000", "100000000", "-1", "\u0663")
_SIZES = (1, 2, 3, 4, 8, 16, 64, 4096, 10_000, 10_000_000, 10_000_001, 10**9)
_COMMANDS = (
    "step",
    "tick",
    "evict",
    "retract",
    "draft",
    "accept",
    "flush",
    "pause",
    "abort_all",
    "__init__",
)
_ENGINES = (
    "reference",
    "reference:leak-full",
    "reference-transformer",
    "cmd:touch owned",
    "sglang:bait",
    "sglang==9.9.9",
    "sglang==0.5.1\u0663",
    BAIT,
    f"sglang:{BAIT}",
    "\x1b]0;owned\x07",
)


# Logs -------------------------------------------------------------------------------------------

READ_LOG: tuple[tuple[str, ...], ...] = (
    ("validate", FILE),
    ("validate", FILE),
    ("validate", FILE, "--json", "--out", OUT),
    ("show", FILE, "--format", "html"),
)


def log(rng: Random) -> Input:
    """A file for `validate` and `show`."""
    lines = rng.choice(list(seeds.files("logs").values())).splitlines()
    argv = rng.choice(READ_LOG)
    if rng.randrange(3) == 0:
        config = json.loads(lines[0])["config"]
        shown = [index for index, line in enumerate(lines) if line.startswith(b'{"snapshot"')]
        index = rng.choice(shown)
        line = json.loads(lines[index])
        change = rng.choice(list(figures.changes(line["snapshot"], config)))
        change.make(line["snapshot"])
        lines[index] = dumps(line).encode()
        argv = argv if argv[0] == "validate" else READ_LOG[0]  # Only `validate` has a verdict.
        return Input("logs", joined(lines), argv, wrong=f"line {index + 1}: {change}")
    way = rng.randrange(10)
    if way == 0:
        reordered(rng, lines)
        return Input("logs", joined(lines), argv)
    if way == 1:
        return Input("logs", broken(rng, joined(lines)), argv)
    index = rng.randrange(len(lines))
    lines[index] = text_changed(rng, lines[index], line_sense)
    return Input("logs", joined(lines), argv)


def joined(lines: list[bytes]) -> bytes:
    """Return the lines as a file."""
    return b"".join(line + b"\n" for line in lines)


def reordered(rng: Random, lines: list[bytes]) -> None:
    """Remove, swap or duplicate a line, or remove a run of lines."""
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


def line_sense(rng: Random, line: Any) -> Any:
    """Return a line of a log with a change that may have a late effect."""
    snapshot = line.get("snapshot")
    if snapshot is None:
        part = line.get("config") or line.get("command") or line
        part[rng.choice(list(part))] = rng.choice((any_odd(rng), rng.choice(_SIZES)))
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
        events[a][rng.randrange(4)] = rng.choice((any_odd(rng), "T-SAVE", "T-EVICT", "s2", None))
    elif events[a][3]:
        events[a][3][rng.choice(list(events[a][3]))] = raw(rng.choice(NUMBERS))


# Baselines --------------------------------------------------------------------------------------

READ_BASELINE = ("gate", FILE, "--config", "p1-one", "--examples", "1", "--out", OUT)
NO_ENGINE = ("--engine", "reference:no-such")
"""Ends the run after the baseline is read: an example takes longer than everything before it."""


def baseline(rng: Random) -> Input:
    """A file for `gate`."""
    data = rng.choice(list(seeds.files("baselines").values()))
    argv: tuple[str, ...] = READ_BASELINE
    if rng.randrange(4):
        argv = (*argv, *NO_ENGINE)
    elif rng.randrange(2):
        argv = (*argv, rng.choice(("--json", "--update")))
    return Input("baselines", text_changed(rng, data, _baseline_sense), argv)


def _baseline_sense(rng: Random, document: Any) -> Any:
    if "groups" not in document:  # The format until November 2026.
        rng.choice(document["findings"])[rng.choice(("id", "reason", "trace"))] = any_odd(rng)
        return document
    entries = document["groups"]
    if not entries:
        entries.append({"name": "a", "seen_as": ["INV-OWNER.lost@step"], "reason": "x"})
    entry = rng.choice(entries)
    way = rng.randrange(6)
    if way == 0:
        entry["engine"] = rng.choice(("*" * 30 + "b", "[", "[!a-", "reference 1", any_odd(rng)))
    elif way == 1:
        entry["seen_as"][0] += rng.choice(("", "\n", "\x1b", "x" * 1000, ":", "@"))
    elif way == 2:
        entries += [dict(entry) for _ in range(rng.choice((1, 2, 300)))]
    elif way == 3:
        entry[rng.choice(("name", "reason", "engine", "seen_as", "traces"))] = any_odd(rng)
    elif way == 4:
        entry["traces"] = [rng.choice(("/etc/passwd", "../x", ".", "a\x00b", "known.json"))]
    elif rng.randrange(10) == 0:
        entries += [{**entry, "name": f"e{number}"} for number in range(3000)]
    return document
