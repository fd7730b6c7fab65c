"""State of an engine after an iteration, as types: see docs/reference/protocol.md.

Snapshots are plain dictionaries with fixed keys. An engine in this process and an engine behind a
pipe give the same snapshots. All lengths and pool terms are numbers of tokens.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, Literal, NotRequired

from pydantic import FailFast, Field, GetPydanticSchema, Strict
from typing_extensions import TypedDict

from slotproof.protocol.config import EngineConfig
from slotproof.protocol.shapes import Count, Hash, Int, Ints, Name, Shape, Text, open_shape, shape
from slotproof.support import bounds

Sequence = Strict(False)
"""Option of a tuple type. A list of the right length is accepted, because JSON has no tuples."""
Event = Annotated[tuple[Name, Name | None, Name | None, dict[str, Int]], Sequence]
"""Event: transition, session, request, parameters. In JSON, an event is a list of four items."""
Pair = Annotated[tuple[Int, Int], Sequence]
Names = Annotated[list[Name], FailFast(), Field(max_length=bounds.ACTORS)]

PoolName = Literal["full", "swa"]
PoolKey = Annotated[str, Field(pattern="^(full|swa)$")]
POOL_NAMES: tuple[PoolName, PoolName] = ("full", "swa")


class PoolFigures(TypedDict):
    """Numbers of tokens in a pool. ``evicted``: tokens evicted from the tree since the reset."""

    total: Count
    available: Int
    evictable: Int
    protected: Int
    evicted: NotRequired[Count]


@shape
class PoolView(PoolFigures):
    """State of a pool. ``free`` lists page numbers. A number outside the pool is a violation."""

    free: Ints


def pools_of(view: Any) -> Any:
    """Return the type for a dictionary of pools. Only the pool ``full`` is required."""
    fields = {"full": view, "swa": NotRequired[view]}
    return shape(TypedDict("Pools", fields))  # type: ignore[operator]


@shape
class RowPages(TypedDict):
    """KV index of each position from 0 to A-1. In ``swa``, a freed position has index -1."""

    full: Ints
    swa: NotRequired[Ints]


RowNumber = Annotated[str, Field(pattern="^-?[0-9]{1,16}$")]
Used = Annotated[dict[RowNumber, RowPages], Field(max_length=bounds.ACTORS)]


class RowCounts(TypedDict):
    """Rows of req_to_token. ``width``: number of positions in a row, if not ``context_len``."""

    total: Count
    free: Ints
    width: NotRequired[Annotated[int, Field(ge=0, le=bounds.POSITIONS)]]


@shape
class RowsView(RowCounts):
    used: Used


@shape
class SessionView(TypedDict):
    open: bool
    closing: bool
    inflight: Name | None
    history: Count
    hash: Hash | None


class KVView(TypedDict):
    row: Int
    C: Int
    A: Int
    Q: Int
    E: Int
    locks: Int


@shape
class SlotView(KVView):
    lent: bool | None


@shape
class RequestView(KVView):
    session: Name | None
    kind: Literal["turn", "stub", "doomed", "plain"]
    phase: Literal["waiting", "matched", "parked", "running"]
    in_last: bool
    in_running: bool
    loan: Name | None
    prompt: Count
    hash: Hash | None
    output: Count


@shape
class Figures(TypedDict):
    """Numbers of tokens in a pool, as the engine's own check last computed them."""

    available: Int
    evictable: Int
    protected: Int
    held: Int
    uncached: Int
    total: Int


@shape
class CheckerView(TypedDict):
    """Result of the engine's check. ``held_rows``: rows of slots not on loan. ``counted``: requests
    with KV added by the check. ``logged``: lines logged now. ``kept``: lines stored for later."""

    ran: bool
    level: Int
    pools: dict[PoolKey, Figures]
    verdict: Literal["ok", "leak", "crash", "off"]
    message: Text
    held_rows: NotRequired[Int]
    counted: NotRequired[Names]
    logged: NotRequired[Count]
    kept: NotRequired[Count]


@open_shape
class Answered(TypedDict):
    """Message that a session was opened or closed, or that an open or a close was refused."""

    type: Literal["opened", "refused", "closed"]
    session: Name | None
    rid: NotRequired[Name]
    message: NotRequired[Text | None]


@open_shape
class Finish(TypedDict):
    """Final answer to a request."""

    type: Literal["finish"]
    session: NotRequired[Name | None]
    rid: Name
    reason: Name
    tokens: Ints
    message: NotRequired[Text | None]


Message = Annotated[Answered | Finish, Field(discriminator="type")]
"""Message to a client."""
Pairs = Annotated[list[Pair], FailFast()]


@shape
class Lookup(TypedDict):
    """Pairs of key and page. ``finds``: the engine's hash map. ``holds``: keys hashed from KV."""

    finds: Pairs
    holds: Pairs


@shape
class Ended(TypedDict):
    """Request that ended in this iteration."""

    rid: Name


@shape
class Snapshot(TypedDict):
    iter: Count
    consumed: Count
    messages: Annotated[list[Message], FailFast(), Field(max_length=bounds.EVENTS)]
    pools: Annotated[dict[str, PoolView], GetPydanticSchema(lambda _, of: of(pools_of(PoolView)))]
    tree: dict[PoolKey, Pairs]
    rows: RowsView
    sessions: Annotated[dict[Name, SessionView], Field(max_length=bounds.ACTORS)]
    slots: Annotated[dict[Name, SlotView], Field(max_length=bounds.ACTORS)]
    requests: Annotated[dict[Name, RequestView], Field(max_length=bounds.ACTORS)]
    ended: NotRequired[Annotated[list[Ended], FailFast(), Field(max_length=bounds.EVENTS)]]
    checker: CheckerView
    events: NotRequired[Annotated[list[Event], FailFast(), Field(max_length=bounds.EVENTS)]]
    content: NotRequired[dict[str, Pairs]]
    reusable: NotRequired[dict[PoolKey, Ints]]
    lookup: NotRequired[dict[PoolKey, Lookup]]
    queues: NotRequired[dict[Name, Names]]
    tables: NotRequired[dict[Name, Names]]
    injected: NotRequired[bool]
    options: NotRequired[Annotated[list[Name], FailFast(), Field(max_length=bounds.EVENTS)]]


@shape
class Snapshots(TypedDict):
    """Result of ``do``, with a snapshot per iteration."""

    snapshots: Annotated[list[Snapshot], FailFast()]


SNAPSHOTS = Shape("snapshots", Snapshots)


def nonsense(snapshot: Snapshot, config: EngineConfig) -> str | None:
    """Return one line about a contradiction between parts of the snapshot, or None.

    A valid snapshot without a contradiction can be judged. An exception while judging such a
    snapshot is a bug of slotproof.

    >>> from slotproof.lockstep.referee import empty_snapshot
    >>> shown = {**empty_snapshot(), "rows": {"total": 4_000_000_000, "free": [], "used": {}}}
    >>> nonsense(shown, EngineConfig())
    'rows/total is 4000000000, more than 1000000'
    """
    if snapshot["pools"] and config.window and "swa" not in snapshot["pools"]:
        return "the configuration has a sliding window, but the pool “swa” is missing"
    if (rows := snapshot["rows"]["total"]) > bounds.ROWS_SHOWN:
        return f"rows/total is {rows}, more than {bounds.ROWS_SHOWN}"
    used = snapshot["rows"]["used"]
    views: list[Any] = [*snapshot["slots"].values(), *snapshot["requests"].values()]
    described = 0
    for view in views:
        row: Any = used.get(str(view["row"]), {})
        described += sum(min(max(view["A"], 0), len(indices)) for indices in row.values())
    if described > bounds.POSITIONS:
        return f"slots and requests describe {described} positions, more than {bounds.POSITIONS}"
    return None


@dataclass(frozen=True)
class Hashed:
    """Number and hash of tokens that a log hides. For tokens of a session, the hash covers the
    history, too. ``hash`` is None if no hash is needed."""

    count: int
    hash: int | None

    def __len__(self) -> int:
        return self.count


Tokens = list[int] | Hashed


def joined(before: Tokens, after: Tokens) -> Tokens:
    """Return two sequences of tokens as one.

    >>> joined(Hashed(3, 7), Hashed(2, 8)), joined([5], [6])
    (Hashed(count=5, hash=8), [5, 6])
    >>> joined(Hashed(2, token_hash([5, 6])), [7]) == Hashed(3, token_hash([5, 6, 7]))
    True
    """
    count = len(before) + len(after)
    if isinstance(after, Hashed):
        return Hashed(count, after.hash)
    if isinstance(before, Hashed):
        return Hashed(count, token_hash(after, before))
    return before + after


def token_hash(tokens: Tokens, before: Hashed | None = None) -> int | None:
    """Return the CRC-32 of decimal token IDs joined by commas. Hidden tokens have a hash already.

    >>> token_hash([5, 6, 7])
    3832383470
    """
    if isinstance(tokens, Hashed):
        return tokens.hash
    if before is None or not before.count:
        return (_crc_of_short if len(tokens) <= _SHORT else _crc)(tuple(tokens))
    text = ",".join(map(str, tokens))
    if before.hash is None or not tokens:
        return before.hash
    return zlib.crc32(f",{text}".encode(), before.hash)


def _crc(tokens: tuple[int, ...]) -> int:
    return zlib.crc32(",".join(map(str, tokens)).encode())


_SHORT = 256
_crc_of_short = lru_cache(1 << 12)(_crc)
"""Cache of hashes. Each iteration hashes the same prompts and histories again."""


def differ(shown: int | None, tokens: Tokens) -> bool:
    """Return True if ``shown`` is certainly not the hash of these tokens."""
    known = token_hash(tokens)
    return None not in (shown, known) and shown != known
