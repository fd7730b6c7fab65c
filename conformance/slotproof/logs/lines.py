"""Lines of an event log, as types. See docs/reference/log.md.

An iteration's line is a driver's snapshot with optional parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_type_hints

from pydantic import FailFast, Field
from typing_extensions import TypedDict

from slotproof.protocol import snapshot as views
from slotproof.protocol.commands import Hidden, Tokens
from slotproof.protocol.config import SOME
from slotproof.protocol.messages import EngineName
from slotproof.protocol.shapes import Count, Int, Ints, Name, Shape, Text, open_shape, shape
from slotproof.support import bounds

VERSION = 3


@shape
class Asked(TypedDict):
    """Request that has no answer yet."""

    session: Name | None
    tokens: Hidden
    max_new: Tokens


@shape
class ClientCheckpoint(TypedDict):
    """Clients at the beginning of a file: their open sessions and unanswered requests."""

    sessions: Annotated[dict[Name, Hidden], Field(max_length=bounds.ACTORS)]
    requests: Annotated[dict[Name, Asked], Field(max_length=bounds.ACTORS)]
    paused: bool


@shape
class Continues(TypedDict):
    """Place of a file in a recording: its number from 1, and the state before the file."""

    file: Count
    lines: Count
    iter: Count
    clients: ClientCheckpoint


Header = TypedDict(
    "Header",
    {
        "slotproof-log": Literal[VERSION],  # type: ignore[valid-type]
        "engine": EngineName,
        "config": SOME.form,  # type: ignore[name-defined]
        "profile": Name | None,
        "seed": NotRequired[Count],
        "records": NotRequired[list[Literal["commands", "messages", "events"]]],
        "transitions": NotRequired[Annotated[list[Name], Field(max_length=1000)]],
        "not_observed": NotRequired[dict[Name, Text]],
        "recorder": NotRequired[dict[str, Any]],
        "continues": NotRequired[Continues],
    },
)
HEADER = Shape("header", shape(Header))


@shape
class Failed(TypedDict):
    how: Literal["crash", "hang"]
    error: Text


_State = ("rows", "sessions", "slots", "requests")
"""Parts that form a state. A line has all of these parts and the pools, or none of them."""
_WITH_STATE = (*_State, "tree", "checker", "content")


class PoolLine(views.PoolFigures):
    free: NotRequired[Ints]


class RowsLine(views.RowCounts):
    used: NotRequired[views.Used]


_finish = get_type_hints(views.Finish, include_extras=True) | {"tokens": list[Int] | Hidden}
_Finish: Any = open_shape(TypedDict("Finish", _finish))  # type: ignore[operator]
_kind = Field(discriminator="type")
_Message: Any = Annotated[Union[views.Answered, _Finish], _kind]  # noqa: UP007
_fields = get_type_hints(views.Snapshot, include_extras=True) | {
    "iter": Required[Count],
    "messages": Annotated[list[_Message], FailFast(), Field(max_length=bounds.EVENTS)],
    "pools": views.pools_of(shape(PoolLine)),
    "rows": shape(RowsLine),
}
SNAPSHOT = Shape("snapshot", shape(TypedDict("SnapshotLine", _fields, total=False)))  # type: ignore[operator]
FAILED = Shape("failed", Failed)
END = Shape("end", Text)


def apart(snapshot: Mapping[str, Any]) -> str | None:
    """Return which parts of the state are missing from an iteration's line, or None.

    >>> apart({"iter": 1, "pools": {}})
    'pools comes with rows, sessions, slots, requests'
    """
    if "pools" in snapshot:
        if all(name in snapshot for name in _State):
            return None
        return f"pools comes with {', '.join(_State)}"
    alone = next((name for name in _WITH_STATE if name in snapshot), None)
    return alone and f"{alone} comes with pools"
