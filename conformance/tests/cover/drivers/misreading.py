"""The reference engine with a driver that misreads one part of the protocol."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any

from slotproof.engines.reference import InProcessEngine
from slotproof.engines.served import Served
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Snapshot

Change = Callable[[Any, int], None]
"""Edit of a snapshot, given the page size."""


def pool_in_pages(s: Any, size: int) -> None:
    for pool in s["pools"].values():
        for name in ("total", "available", "evictable", "protected"):
            pool[name] //= size


def available_in_pages(s: Any, size: int) -> None:
    for pool in s["pools"].values():
        pool["available"] //= size


def tree_in_pages(s: Any, size: int) -> None:
    for pool in s["pools"].values():
        pool["evictable"], pool["protected"] = pool["evictable"] // size, pool["protected"] // size


def free_in_tokens(s: Any, size: int) -> None:
    for pool in s["pools"].values():
        pool["free"] = [page * size for page in pool["free"]]


def nodes_in_tokens(s: Any, size: int) -> None:
    s["tree"]["full"] = [(page * size, locks) for page, locks in s["tree"]["full"]]


def check_in_pages(s: Any, size: int) -> None:
    for figures in s["checker"]["pools"].values():
        figures.update({name: value // size for name, value in figures.items()})


def lengths_in_pages(s: Any, size: int) -> None:
    for view in (*s["slots"].values(), *s["requests"].values()):
        view.update({name: -(-view[name] // size) for name in ("C", "A", "Q")})


def row_of_pages(s: Any, size: int) -> None:
    for row in s["rows"]["used"].values():
        row["full"] = [index // size for index in row["full"][::size]]


def page_of_position(s: Any, size: int) -> None:
    for row in s["rows"]["used"].values():
        row["full"] = [index // size for index in row["full"]]


def short_row(s: Any, _: int) -> None:
    for row in s["rows"]["used"].values():
        row["full"] = row["full"][:-1]


def consumed_in_all() -> Change:
    total = 0

    def change(s: Any, _: int) -> None:
        nonlocal total
        total = s["consumed"] + (total if s["iter"] > 1 else 0)
        s["consumed"] = total

    return change


def prompts_alone(s: Any, _: int) -> None:
    for view in s["requests"].values():
        if view["session"] == "s1" and view["prompt"] > 9:
            view["prompt"], view["hash"] = 1, None


def histories_in_pages(s: Any, size: int) -> None:
    for session in s["sessions"].values():
        session["history"] //= size


def hash_of(number: int) -> Change:
    def change(s: Any, _: int) -> None:
        for view in s["requests"].values():
            view["hash"] = number

    return change


def reversed_events(s: Any, _: int) -> None:
    s["events"] = s["events"][::-1]


def changed(name: str, parameter: str, by: Callable[[Any, Any], int]) -> Change:
    def change(s: Any, _: int) -> None:
        s["events"] = [
            (what, sid, rid, {**said, parameter: by(s, (said, rid))})
            if what == name
            else (what, sid, rid, said)
            for what, sid, rid, said in s["events"]
        ]

    return change


def events_in_pages(s: Any, size: int) -> None:
    s["events"] = [
        (
            what,
            sid,
            rid,
            {k: v // size if k in ("m", "q", "locked") else v for k, v in said.items()},
        )
        for what, sid, rid, said in s["events"]
    ]


CHANGES: dict[str, tuple[Change, str, str]] = {
    "pool": (pool_in_pages, "units", "full: total is 16 for 16 pages: pages where tokens"),
    "available": (available_in_pages, "units", "full: available is 13 for 13 pages: pages"),
    "cached": (tree_in_pages, "units", "evictable and protected is 2 for 2 pages: pages"),
    "free": (free_in_tokens, "units", "full: free has 60, but the pool has 16 pages: KV indices"),
    "tree": (nodes_in_tokens, "units", "full: tree has 4, but the pool has 16 pages: KV indices"),
    "check": (check_in_pages, "units", "full: the check's total is 16 for 64 tokens: pages"),
    "lengths": (lengths_in_pages, "units", "C of r1 is 3 for 9 computed tokens: pages where"),
    "row": (row_of_pages, "positions", "shows 3 of 9 positions: apparently one per page"),
    "place": (page_of_position, "positions", "shows 0 for positions 0 and 1: page numbers, not"),
    "short": (short_row, "positions", "row 0 of r1 shows 8 of 9 positions"),
    "prompt": (
        prompts_alone,
        "prompts",
        "the prompt of r3 has 1 tokens of 13: only the new tokens",
    ),
    "history": (
        histories_in_pages,
        "prompts",
        "history of s2 has 2 tokens of 11: pages where tokens",
    ),
    "spaces": (
        hash_of(zlib.crc32(b"1, 2, 3, 4, 5, 6, 7, 8, 9")),
        "hashes",
        "of r1 is 3778937956, the hash of the ids joined by comma and space, but the ",
    ),
    "other": (
        hash_of(7),
        "hashes",
        "the hash of the prompt of r1 is 7, but the hash of its tokens is ",
    ),
    "backwards": (
        reversed_events,
        "order",
        "reported T-INSERT T-EXTEND T-MATCH T-SUBMIT T-OPEN T-OPEN, but the spec follows T-O",
    ),
    "added": (
        changed("T-EXTEND", "t", lambda s, e: e[0]["t"] - (11 if e[1] == "r3" else 0)),
        "parameters",
        "T-EXTEND: t is the length after the event, not the number of tokens added",
    ),
    "whole": (
        changed("T-SUBMIT", "new", lambda s, e: e[0]["new"] + (12 if e[1] == "r3" else 0)),
        "parameters",
        "T-SUBMIT: new is the number of new tokens, not the length of the whole prompt",
    ),
    "output": (
        changed("T-DECODE", "at", lambda s, e: e[0]["at"] - 9),
        "parameters",
        "T-DECODE: at is a position among prompt and output tokens, not among output tokens",
    ),
    "in all": (
        consumed_in_all(),
        "inbox",
        "a step with nothing to read reports 2 consumed commands",
    ),
    "events": (
        events_in_pages,
        "parameters",
        "T-MATCH, T-INSERT: locked, q are numbers of tokens, not of pages",
    ),
}
"""Edit of the snapshots, check that reports it, and text of the report, by name."""


class Misreading(InProcessEngine):
    """The reference engine, as shown by a driver that misreads the protocol."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change, self.size = change, 1

    def reset(self, config: EngineConfig, seed: int) -> None:
        super().reset(config, seed)
        self.size = config.page_size

    def do(self, command: Command) -> list[Snapshot]:
        shown = super().do(command)
        for snapshot in shown:
            self.change(snapshot, self.size)
        return shown


class Line:
    """A pipe to a driver without a process."""

    def __init__(self, engine: InProcessEngine) -> None:
        self.served, self.answer = Served(engine), ""

    def send(self, line: str, _: float) -> None:
        self.answer = json.dumps(self.served.reply(line))

    def line(self, _: float) -> bytes:
        return self.answer.encode()

    def wait(self, _: float) -> int:
        return 0

    def end_input(self) -> None: ...

    def kill(self) -> None: ...
