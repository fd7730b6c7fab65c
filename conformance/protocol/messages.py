"""Messages to a driver, and its answers: one line of JSON each."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from slotproof.conformance import bounds
from slotproof.conformance.protocol.commands import AnyCommand, TokenIds
from slotproof.conformance.protocol.config import CONFIG
from slotproof.conformance.protocol.shapes import Count, Int, Name, Shape, Text, open_shape, shape
from slotproof.conformance.protocol.snapshot import PoolName

PROTOCOL = 1


@shape
class SayHello(TypedDict):
    op: Literal["hello"]
    protocol: Int
    id: Count


@shape
class Reset(TypedDict):
    op: Literal["reset"]
    config: CONFIG.form  # type: ignore[name-defined]
    seed: Count
    id: Count


@shape
class Do(TypedDict):
    op: Literal["do"]
    command: AnyCommand
    id: Count


@shape
class Recompute(TypedDict):
    op: Literal["recompute"]
    tokens: TokenIds
    count: Annotated[int, Field(ge=1, le=bounds.TOKENS)]
    id: Count


@shape
class Bye(TypedDict):
    op: Literal["bye"]
    id: Count


REQUEST = Shape(
    "request", Annotated[SayHello | Reset | Do | Recompute | Bye, Field(discriminator="op")]
)


@shape
class Result(TypedDict):
    """``result`` is of another shape for each op; it is checked by who asked."""

    id: Count
    ok: Literal[True]
    result: dict[str, Any]


@shape
class Refusal(TypedDict):
    """``usage``: the message makes no sense to it; ``crash``: the engine failed."""

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


@open_shape
class Offered(TypedDict):
    """Capabilities."""

    commands: list[Name]
    pools: Annotated[list[PoolName], Field(min_length=1)]
    page_sizes: Annotated[
        list[Annotated[int, Field(ge=1, le=bounds.PAGE_TOKENS)]], Field(min_length=1)
    ]
    events: NotRequired[bool]
    config: NotRequired[dict[Name, list[Any]]]
    transitions: NotRequired[list[Name]]
    profile: NotRequired[Name]
    lent: NotRequired[bool]
    recompute: NotRequired[bool]
    not_observed: NotRequired[dict[Name, Text]]


@shape
class Hello(TypedDict):
    protocol: Literal[1]
    engine: EngineName
    capabilities: Offered


@shape
class Recomputed(TypedDict):
    """``null``: this engine computes no tokens without its cache."""

    tokens: list[Int] | None


HELLO = Shape("hello", Hello)
RECOMPUTED = Shape("recomputed", Recomputed)
