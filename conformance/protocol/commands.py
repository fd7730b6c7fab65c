"""Client commands: one line of a trace each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args, get_type_hints

from pydantic import FailFast, Field
from typing_extensions import TypedDict

from slotproof.conformance import bounds
from slotproof.conformance.protocol.shapes import Name, Shape, shape

Command: TypeAlias = dict[str, Any]
"""A command as it is handled: a dictionary of one of the types below."""

Tokens = Annotated[int, Field(ge=0, le=bounds.TOKENS)]
Token = Annotated[int, Field(ge=0, le=bounds.TOKENS)]
"""A token id. The suite never uses 0; what a live server was sent may hold it."""
TokenIds = Annotated[list[Token], FailFast()]


@shape
class Open(TypedDict):
    do: Literal["open"]
    session: Name


@shape
class Submit(TypedDict):
    do: Literal["submit"]
    session: Name | None
    rid: Name
    tokens: TokenIds
    max_new: Tokens
    stop: TokenIds


@shape
class Abort(TypedDict):
    do: Literal["abort"]
    rid: Name


@shape
class Close(TypedDict):
    do: Literal["close"]
    session: Name


@shape
class Step(TypedDict):
    do: Literal["step"]
    n: Annotated[int, Field(ge=0, le=bounds.STEPS)]


@shape
class Tick(TypedDict):
    do: Literal["tick"]
    seconds: Annotated[int, Field(ge=0, le=bounds.SECONDS)]


@shape
class Evict(TypedDict):
    do: Literal["evict"]
    tokens: Tokens


@shape
class Retract(TypedDict):
    do: Literal["retract"]


@shape
class Draft(TypedDict):
    do: Literal["draft"]
    rid: Name
    allocate: Tokens
    commit: Tokens


@shape
class Flush(TypedDict):
    do: Literal["flush"]


@shape
class Pause(TypedDict):
    do: Literal["pause"]


@shape
class Continue(TypedDict):
    do: Literal["continue"]


@shape
class AbortAll(TypedDict):
    do: Literal["abort_all"]


AnyCommand = Annotated[
    Open
    | Submit
    | Abort
    | Close
    | Step
    | Tick
    | Evict
    | Retract
    | Draft
    | Flush
    | Pause
    | Continue
    | AbortAll,
    Field(discriminator="do"),
]
COMMAND = Shape("command", AnyCommand)

FIELDS: dict[str, tuple[str, ...]] = {
    get_args(get_type_hints(each)["do"])[0]: tuple(each.__annotations__)[1:]
    for each in get_args(get_args(AnyCommand)[0])
}
"""Every command and the fields it has."""


ALWAYS = frozenset(["open", "submit", "abort", "close", "step", "tick"])
"""Those that every engine takes."""


def check(command: object, least_token: int = 1) -> Command:
    """The command itself if it is one; ``ValueError`` with one line if not.

    >>> check({"do": "step", "n": 1})
    {'do': 'step', 'n': 1}
    >>> check({"do": "stpe", "n": 1})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: unknown command 'stpe'; there are: open, submit, ...
    """
    wrong = COMMAND.misfit(command)
    if wrong is not None:
        name = command.get("do") if isinstance(command, Mapping) else None
        if not (isinstance(name, str) and name in FIELDS):
            raise ValueError(f"unknown command {name!r:.60}; there are: {', '.join(FIELDS)}")
        raise ValueError(wrong.at("command"))
    assert isinstance(command, dict)
    for field in ("tokens", "stop"):
        if isinstance(command.get(field), list) and min(command[field], default=1) < least_token:
            raise ValueError(f"{command['do']}/{field}: token ids start at {least_token}")
    return dict(command)


def describe(command: Mapping[str, Any]) -> str:
    """The command as a person would say it.

    >>> describe({"do": "submit", "session": "s1", "rid": "r1", "tokens": [1, 2, 3],
    ...           "max_new": 4, "stop": []})
    'submit r1 to s1: 3 tokens, at most 4 new'
    """
    name = command["do"]
    if name == "submit":
        where = f"to {command['session']}" if command["session"] else "without a session"
        stop = f", stop at {command['stop']}" if command["stop"] else ""
        return (
            f"submit {command['rid']} {where}: {len(command['tokens'])} tokens, "
            f"at most {command['max_new']} new{stop}"
        )
    if name == "draft":
        return (
            f"draft for {command['rid']}: allocate {command['allocate']}, "
            f"commit {command['commit']} (injected)"
        )
    rest = " ".join(str(command[field]) for field in FIELDS[name])
    return f"{name} {rest}".strip()
