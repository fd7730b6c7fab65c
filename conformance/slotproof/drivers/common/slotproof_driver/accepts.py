"""Numbers of tokens that the speculative rounds of a driver accept."""

from __future__ import annotations

from zlib import crc32


class Accepts:
    """Number of tokens that the next round of each request accepts, from 1 to ``width``."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.wanted: dict[str, int] = {}
        #: Number of tokens that every round accepts. 0: each round accepts the requested number.
        self.always = 0

    def request(self, rid: str, tokens: int) -> None:
        """Record how many tokens the next round accepts. A later command replaces the number."""
        self.wanted[rid] = tokens

    def of(self, rid: str, computed: int) -> int:
        """Return the requested number, or a number derived from the request alone, so that replays
        agree."""
        asked = self.always or self.wanted.pop(rid, 0)
        if not asked:
            asked = 1 + crc32(f"{rid}:{computed}".encode()) % self.width
        return min(asked, self.width)
