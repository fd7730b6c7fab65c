"""What the recorder is told, by environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

SMALL = 4096
"""Pages of a pool up to which the pages themselves are recorded unless told otherwise."""
KEY = 16
"""Characters of a key at least."""


@dataclass(frozen=True)
class Settings:
    """Where to, and how much."""

    path: str
    every: int = 1
    """The state in every so-manieth line; events are in all of them."""
    pages: bool | None = None
    """Free list, tree and rows with each state; None: where the pool is small."""
    tokens: bool = False
    """Clients' tokens as they are; else lengths and keyed hashes."""
    key: str = field(default="", repr=False)
    """For the hashes; empty: a fresh one."""
    most: int = 1024
    """Megabytes of all files together."""
    files: int = 16
    """How many files these are."""

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """From the environment; `ValueError`, one line, for what makes no sense."""

        def number(name: str, default: int, least: int) -> int:
            text = environment.get(name) or str(default)
            if not text.isdecimal() or int(text) < least:
                raise ValueError(f"{name}={text} is no whole number from {least} on")
            return int(text)

        def switch(name: str) -> bool | None:
            text = environment.get(name, "")
            if text not in ("", "0", "1"):
                raise ValueError(f"{name}={text} is neither 0 nor 1")
            return text == "1" if text else None

        key = environment.get("SLOTPROOF_RECORD_KEY", "")
        if 0 < len(key) < KEY:
            raise ValueError(f"SLOTPROOF_RECORD_KEY has fewer than {KEY} characters")
        return cls(
            environment["SLOTPROOF_RECORD"],
            number("SLOTPROOF_RECORD_EVERY", cls.every, 1),
            switch("SLOTPROOF_RECORD_PAGES"),
            switch("SLOTPROOF_RECORD_TOKENS") is True,
            key,
            number("SLOTPROOF_RECORD_MEGABYTES", cls.most, 1),
            number("SLOTPROOF_RECORD_FILES", cls.files, 2),
        )
