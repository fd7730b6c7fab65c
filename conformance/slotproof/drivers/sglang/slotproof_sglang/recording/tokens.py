"""Token sequences in the log: as hashes that grow with them, under a key that is not in it.

A hash of a few tokens that anybody can compute is as good as the tokens: whoever has the log tries
the likely ones. Under a key (BLAKE2b, 256 bits, of the recording's process alone) it says whether
two sequences are the same and nothing else. What a judge wants to know is whether a prompt is the
history with the new tokens at its end; it can't put hashes together, so each hash is of all that
the client has said and heard in its session up to there. Of a plain request nothing is asked, and
only its length is told.
"""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections.abc import Sequence
from typing import Any, Protocol
from zlib import crc32


class Running(Protocol):
    """A sequence of tokens, of which only its length and its hash are kept."""

    count: int

    def more(self, tokens: Sequence[int]) -> Running:
        """The longer sequence; this one stays as it is."""

    @property
    def hash(self) -> int:
        """32 bits."""


class Keyed:
    """A hash under a key: BLAKE2b of the tokens, eight bytes each."""

    def __init__(self, state: Any, count: int = 0) -> None:
        self.state, self.count = state, count

    @classmethod
    def under(cls, secret: str) -> Keyed:
        """The empty sequence, under a key from this text, or a fresh one where it is empty."""
        key = hashlib.sha256(secret.encode()).digest() if secret else secrets.token_bytes(32)
        return cls(hashlib.blake2b(key=key, digest_size=4))

    def more(self, tokens: Sequence[int]) -> Keyed:
        state = self.state.copy()
        whole = tokens if isinstance(tokens, array) and tokens.typecode == "q" else None
        state.update(array("q", tokens) if whole is None else whole)
        return Keyed(state, self.count + len(tokens))

    @property
    def hash(self) -> int:
        return int.from_bytes(self.state.digest(), "big")


class Open:
    """The protocol's hash, for logs with tokens: CRC-32 of the decimal ids joined by commas."""

    def __init__(self, value: int = 0, count: int = 0) -> None:
        self.hash, self.count = value, count

    def more(self, tokens: Sequence[int]) -> Open:
        text = ",".join(map(str, tokens))
        joint = "," if self.count and tokens else ""
        return Open(crc32((joint + text).encode(), self.hash), self.count + len(tokens))
