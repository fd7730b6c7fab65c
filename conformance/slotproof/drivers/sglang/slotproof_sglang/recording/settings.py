"""Settings of the recorder, read from environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

SMALL = 4096
"""Number of pages of the largest pool whose pages are recorded by default."""
KEY = 16
"""Smallest number of characters in a key."""


@dataclass(frozen=True)
class Settings:
    """Destination of a recording, and the amount of data recorded."""

    path: str
    every: int = 1
    """Number of lines from one recorded state to the next. Every line has its events."""
    pages: bool | None = None
    """True to record free list, tree and rows with each state. None: only for a small pool."""
    tokens: bool = False
    """True to record the tokens of clients. False: only their number and keyed hashes."""
    key: str = field(default="", repr=False)
    """Key of the hashes. Empty: a fresh key."""
    most: int = 1024
    """Largest size of all files together, in megabytes."""
    files: int = 16
    """Largest number of files."""

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Return the environment's settings. Raise `ValueError`, in one line, for a wrong value."""

        def number(name: str, default: int, least: int) -> int:
            text = environment.get(name) or str(default)
            if not text.isdecimal() or int(text) < least:
                raise ValueError(f"{name}={text} is not a whole number of at least {least}")
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
