"""Commands for an engine under test."""

from __future__ import annotations

from slotproof.protocol.commands import Command

STEP: Command = {"do": "step", "n": 1}
OPEN: Command = {"do": "open", "session": "s1"}
CLOSE: Command = {"do": "close", "session": "s1"}


def steps(count: int = 1) -> Command:
    return {"do": "step", "n": count}


def turn(
    rid: str, tokens: int | list[int], max_new: int = 0, session: str | None = "s1", first: int = 1
) -> Command:
    """``tokens``: a prompt, or the length of a prompt that counts from ``first``."""
    prompt = list(range(first, first + tokens)) if isinstance(tokens, int) else tokens
    fields = {"session": session, "rid": rid, "tokens": prompt, "max_new": max_new, "stop": []}
    return {"do": "submit", **fields}
