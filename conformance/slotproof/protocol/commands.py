"""Commands that clients send. A trace stores one command per row. A recorder may hide tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import FailFast, Field
from typing_extensions import TypedDict

from slotproof.protocol.shapes import Hash, Name, Shape, shape, tagged
from slotproof.protocol.snapshot import Hashed
from slotproof.support import bounds

Command: TypeAlias = dict[str, Any]
"""Command as a dictionary, with the fields of a type in ``_TYPES``."""

Tokens = Annotated[int, Field(ge=0, le=bounds.TOKENS)]
TokenIds = Annotated[list[Tokens], FailFast()]
"""Token IDs. slotproof never sends 0, but recorded requests of a live server may contain 0."""

_TYPES: dict[str, dict[str, Any]] = {
    "open": {"session": Name},
    "submit": {
        "session": Name | None,
        "rid": Name,
        "tokens": TokenIds,
        "max_new": Tokens,
        "stop": TokenIds,
    },
    "abort": {"rid": Name},
    "close": {"session": Name},
    "step": {"n": Annotated[int, Field(ge=0, le=bounds.STEPS)]},
    "tick": {"seconds": Annotated[int, Field(ge=0, le=bounds.SECONDS)]},
    "tick_ms": {"ms": Annotated[int, Field(ge=0, le=bounds.SECONDS)]},
    "evict": {"tokens": Tokens},
    "retract": {},
    "accept": {"rid": Name, "tokens": Tokens},
    "draft": {"rid": Name, "allocate": Tokens, "commit": Tokens},
    "flush": {},
    "flush_all": {},
    "pause": {},
    "continue": {},
    "abort_all": {},
}
FIELDS: dict[str, tuple[str, ...]] = {name: tuple(fields) for name, fields in _TYPES.items()}
"""Names of each command's fields, by the command's name."""

COMMAND = Shape("command", tagged("do", "{}", _TYPES))

ALWAYS = frozenset(["open", "submit", "abort", "close", "step", "tick"])
"""Commands that every engine must accept."""
TICKS = frozenset(["tick", "tick_ms"])
"""Commands that let time pass. The engine reads no command and runs no iteration."""
AT_ONCE = TICKS | {"step"}
"""Commands that do not go to the engine's inbox."""


def check(command: object, least_token: int = 1) -> Command:
    """Return a copy of a valid command. Raises ``ValueError`` with one line for an invalid command.

    >>> check({"do": "step", "n": 1})
    {'do': 'step', 'n': 1}
    >>> check({"do": "stpe", "n": 1})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: unknown command 'stpe'; there are: open, submit, ...
    """
    if (wrong := COMMAND.misfit(command)) is not None:
        name = command.get("do") if isinstance(command, Mapping) else None
        if not (isinstance(name, str) and name in FIELDS):
            raise ValueError(f"unknown command {name!r:.60}; there are: {', '.join(FIELDS)}")
        raise ValueError(wrong.at("command"))
    assert isinstance(command, dict)
    for field in ("tokens", "stop"):
        if isinstance(command.get(field), list) and min(command[field], default=1) < least_token:
            raise ValueError(f"{command['do']}/{field}: token ids start at {least_token}")
    return dict(command)


@shape
class Hidden(TypedDict):
    """Number and hash of hidden tokens: see :class:`~slotproof.protocol.snapshot.Hashed`."""

    count: Tokens
    hash: Hash | None


_HIDDEN = Shape("tokens", Hidden)


def hashed(value: Any) -> Any:
    """Return plain tokens unchanged, and hidden tokens as a ``Hashed``.

    >>> hashed([5]), hashed({"count": 2, "hash": 7})
    ([5], Hashed(count=2, hash=7))
    """
    return Hashed(**value) if isinstance(value, dict) else value


def check_recorded(value: Any) -> Command:
    """Return a recorded command, whose tokens may be hidden. Raises ``ValueError`` with one line.

    >>> said = {"do": "submit", "session": "s1", "rid": "r1", "max_new": 1, "stop": []}
    >>> check_recorded({**said, "tokens": {"count": 2, "hash": None}})["tokens"]
    Hashed(count=2, hash=None)
    """
    tokens = value.get("tokens") if isinstance(value, dict) else None
    if not isinstance(tokens, dict):
        return check(value, least_token=0)
    _HIDDEN.demand(tokens, ValueError)
    return {**check({**value, "tokens": []}), "tokens": hashed(tokens)}


def describe(command: Mapping[str, Any]) -> str:
    """Return a command in plain words. Hidden tokens are described like plain tokens.

    >>> describe({"do": "submit", "session": "s1", "rid": "r1", "tokens": [1, 2, 3],
    ...           "max_new": 4, "stop": []})
    'submit r1 to s1: 3 tokens, at most 4 new'
    >>> describe({"do": "step", "n": 1}), describe({"do": "tick", "seconds": 60})
    ('one scheduler iteration', '60 seconds pass')
    """
    match command["do"]:
        case "submit":
            where = f"to {command['session']}" if command["session"] else "without a session"
            stop = f", stop at {command['stop']}" if command["stop"] else ""
            return (
                f"submit {command['rid']} {where}: {_tokens(len(command['tokens']))}, "
                f"at most {command['max_new']} new{stop}"
            )
        case "step":
            n = command["n"]
            return "one scheduler iteration" if n == 1 else f"{n} scheduler iterations"
        case "tick":
            n = command["seconds"]
            return "one second passes" if n == 1 else f"{n} seconds pass"
        case "tick_ms":
            return f"{command['ms'] / 1000:g} seconds pass"
        case "draft":
            return (
                f"draft for {command['rid']}: allocate {command['allocate']}, "
                f"commit {command['commit']} (injected)"
            )
        case "accept":
            return f"accept {_tokens(command['tokens'])} in {command['rid']}'s next round"
        case "evict":
            return f"evict {_tokens(command['tokens'])}"
        case "abort_all":
            return "abort all"
        case "flush_all":
            return "flush, with running requests"
        case name:
            rest = " ".join(str(command[field]) for field in FIELDS[name])
            return f"{name} {rest}".strip()


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"
