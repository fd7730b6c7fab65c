"""The hash that snapshots have in the place of tokens."""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32


def token_hash(tokens: Iterable[int]) -> int:
    """CRC-32 of the decimal token ids joined by commas."""
    return crc32(",".join(map(str, tokens)).encode())
