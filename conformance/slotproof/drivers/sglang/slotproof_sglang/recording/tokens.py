"""Sequences of tokens in a log, as hashes under a key that the log does not contain.

A plain hash of a few tokens would reveal them, because a reader could try all likely tokens. A hash
under a key (BLAKE2b, 256 bits, known only to the recording process) shows only whether two
sequences are equal. The validation of a log compares a prompt with the history plus the new tokens,
but hashes can't be joined. Each hash therefore covers all tokens of the session so far. The prompt
of a plain request is compared with nothing, so only its length is recorded.
"""

from __future__ import annotations

import hashlib
import secrets
from array import array
from collections.abc import Sequence
from typing import Any, Protocol
from zlib import crc32


class Running(Protocol):
    """Sequence of tokens of which only the length and the hash are stored."""

    count: int

    def more(self, tokens: Sequence[int]) -> Running:
        """Return the sequence extended by ``tokens``. This sequence stays unchanged."""

    @property
    def hash(self) -> int:
        """Hash of the sequence, with 32 bits."""


class Keyed:
    """Hash under a key: BLAKE2b of the tokens, with eight bytes per token."""

    def __init__(self, state: Any, count: int = 0) -> None:
        self.state, self.count = state, count

    @classmethod
    def under(cls, secret: str) -> Keyed:
        """Return the empty sequence under the key made from ``secret``. An empty ``secret`` gives a
        fresh key."""
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
    """Hash of the protocol, for logs with tokens: CRC-32 of decimal IDs joined by commas."""

    def __init__(self, value: int = 0, count: int = 0) -> None:
        self.hash, self.count = value, count

    def more(self, tokens: Sequence[int]) -> Open:
        text = ",".join(map(str, tokens))
        joint = "," if self.count and tokens else ""
        return Open(crc32((joint + text).encode(), self.hash), self.count + len(tokens))
