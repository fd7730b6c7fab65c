"""Messages to a driver, and its answers. A message or an answer is one line of JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from slotproof.protocol.commands import COMMAND, TokenIds
from slotproof.protocol.config import CONFIG
from slotproof.protocol.shapes import Count, Int, Name, Shape, Text, open_shape, shape, tagged
from slotproof.protocol.snapshot import PoolName
from slotproof.support import bounds

PROTOCOL = 2


_REQUESTS: dict[str, dict[str, Any]] = {
    "hello": {"protocol": Int},
    "reset": {"config": CONFIG.form, "seed": Count},
    "do": {"command": COMMAND.form},
    "recompute": {"tokens": TokenIds, "count": Annotated[int, Field(ge=1, le=bounds.TOKENS)]},
    "bye": {},
}
_NUMBERED = {op: {**fields, "id": Count} for op, fields in _REQUESTS.items()}
REQUEST = Shape("request", tagged("op", "{}Request", _NUMBERED))


@shape
class Result(TypedDict):
    """Answer with a result. The caller checks the shape of ``result``, which depends on the op."""

    id: Count
    ok: Literal[True]
    result: dict[str, Any]


@shape
class Refusal(TypedDict):
    """Answer with an error. ``usage``: the message is invalid. ``crash``: the engine failed."""

    id: Count
    ok: Literal[False]
    kind: Literal["usage", "crash"]
    error: Text
    trace: NotRequired[Text]


RESULT, REFUSAL = Shape("answer", Result), Shape("answer", Refusal)
ANSWER = Shape("answer", Annotated[Result | Refusal, Field(discriminator="ok")])


@open_shape
class EngineName(TypedDict):
    name: Name
    version: Name


PatchName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,59}$")]


@open_shape
class Offered(TypedDict):
    """Capabilities that a driver reports in its hello."""

    commands: list[Name]
    pools: Annotated[list[PoolName], Field(min_length=1)]
    page_sizes: Annotated[
        list[Annotated[int, Field(ge=1, le=bounds.PAGE_TOKENS)]], Field(min_length=1)
    ]
    events: NotRequired[bool]
    config: NotRequired[dict[Name, list[Any]]]
    transitions: NotRequired[list[Name]]
    profile: NotRequired[Name]
    recompute: NotRequired[bool]
    not_observed: NotRequired[dict[Name, Text]]
    whole_chunks: NotRequired[bool]
    rounds_in_chunks: NotRequired[bool]
    shallow_rounds: NotRequired[bool]
    double_reserve: NotRequired[bool]
    margin: NotRequired[Count]
    answers: NotRequired[dict[Name, Text]]
    patches: NotRequired[list[PatchName]]


@shape
class Hello(TypedDict):
    protocol: Literal[PROTOCOL]  # type: ignore[valid-type]
    engine: EngineName
    capabilities: Offered


@shape
class Recomputed(TypedDict):
    """Result of ``recompute``. ``null``: the engine can't compute tokens without its cache."""

    tokens: list[Int] | None


HELLO = Shape("hello", Hello)
RECOMPUTED = Shape("recomputed", Recomputed)
