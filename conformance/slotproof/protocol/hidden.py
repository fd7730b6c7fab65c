"""Tokens that a recorder keeps to itself: a number and a hash in their place."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from slotproof.protocol.commands import Command, Tokens, check
from slotproof.protocol.shapes import Hash, Shape, shape
from slotproof.protocol.snapshot import Hashed


@shape
class Hidden(TypedDict):
    """In the place of tokens; see :class:`~slotproof.protocol.snapshot.Hashed`."""

    count: Tokens
    hash: Hash | None


_HIDDEN = Shape("tokens", Hidden)


def hashed(value: Any) -> Any:
    """Tokens as they are, or what is in their place.

    >>> hashed([5]), hashed({"count": 2, "hash": 7})
    ([5], Hashed(count=2, hash=7))
    """
    return Hashed(value["count"], value["hash"]) if isinstance(value, dict) else value


def check_recorded(value: Any) -> Command:
    """A command as somebody recorded it, its tokens perhaps hidden; ``ValueError`` with one line.

    >>> said = {"do": "submit", "session": "s1", "rid": "r1", "max_new": 1, "stop": []}
    >>> check_recorded({**said, "tokens": {"count": 2, "hash": None}})["tokens"]
    Hashed(count=2, hash=None)
    """
    tokens = value.get("tokens") if isinstance(value, dict) else None
    if not isinstance(tokens, dict):
        return check(value, least_token=0)
    _HIDDEN.demand(tokens, ValueError)
    return {**check({**value, "tokens": []}), "tokens": hashed(tokens)}
