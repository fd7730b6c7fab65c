"""Hash that snapshots show in place of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32


def token_hash(tokens: Iterable[int]) -> int:
    """Return the CRC-32 of the token IDs in decimal, joined by commas."""
    return crc32(",".join(map(str, tokens)).encode())
