"""The snapshot of an engine, as it travels: see docs/reference/protocol.md.

Plain dictionaries with declared keys, so that an engine in this process and
one behind a pipe give the same thing. All lengths and figures are tokens.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, Literal, NotRequired, TypedDict

Event = tuple[str, str | None, str | None, dict[str, int]]
"""Transition, session, request, parameters. A list of four on the wire."""

PoolName = Literal["full", "swa"]
POOL_NAMES: tuple[PoolName, PoolName] = ("full", "swa")


class PoolView(TypedDict):
    total: int
    available: int
    evictable: int
    protected: int
    free: list[int]
    counters: NotRequired[dict[str, int]]


class RowPages(TypedDict):
    """KV indices of positions 0 … A-1; in ``swa`` -1 where given back."""

    full: list[int]
    swa: NotRequired[list[int]]


class RowsView(TypedDict):
    total: int
    free: list[int]
    used: dict[str, RowPages]


class SessionView(TypedDict):
    generation: int
    open: bool
    closing: bool
    inflight: str | None
    history: int
    hash: int | None


class SlotView(TypedDict):
    row: int
    C: int
    A: int
    Q: int
    E: int
    lent: bool | None
    locks: int


class RequestView(TypedDict):
    session: str | None
    kind: Literal["turn", "stub", "doomed", "plain"]
    phase: Literal["waiting", "matched", "parked", "running"]
    in_last: bool
    in_running: bool
    loan: str | None
    row: int
    C: int
    A: int
    Q: int
    E: int
    locks: int
    prompt: int
    hash: int | None
    output: int
    counts: NotRequired[dict[str, int]]


class Figures(TypedDict):
    """The engine's own numbers of its last check."""

    available: int
    evictable: int
    protected: int
    held: int
    uncached: int
    total: int


class CheckerView(TypedDict):
    ran: bool
    level: int
    pools: dict[str, Figures]
    verdict: Literal["ok", "leak", "crash", "off"]
    message: str


class Message(TypedDict):
    """What a client was told."""

    type: Literal["opened", "refused", "closed", "finish"]
    session: NotRequired[str | None]
    rid: NotRequired[str]
    reason: NotRequired[str]
    tokens: NotRequired[list[int]]
    message: NotRequired[str]


class Snapshot(TypedDict):
    iter: int
    consumed: int
    messages: list[Message]
    pools: dict[str, PoolView]
    tree: dict[str, list[tuple[int, int]]]
    rows: RowsView
    sessions: dict[str, SessionView]
    slots: dict[str, SlotView]
    requests: dict[str, RequestView]
    ended: list[dict[str, Any]]
    checker: CheckerView
    events: NotRequired[list[Event]]
    content: NotRequired[dict[str, list[tuple[int, int]]]]
    injected: NotRequired[bool]


def token_hash(tokens: Iterable[int]) -> int:
    """CRC-32 of the decimal token ids joined by commas.

    >>> token_hash([5, 6, 7])
    3832383470
    """
    return zlib.crc32(",".join(map(str, tokens)).encode())
