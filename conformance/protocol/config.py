"""The configuration of an engine under test, and the ones the suite runs by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal


class BadConfig(ValueError):
    """A configuration that no engine can have; the message says why, in one line."""


LARGEST = 10_000_000
"""Tokens of a pool at most: a configuration may come from a trace, which is untrusted."""


@dataclass(frozen=True)
class EngineConfig:
    """What the protocol's ``reset`` takes. Lengths in tokens, time in seconds."""

    page_size: int = 1
    total_tokens: int = 64
    swa_tokens: int = 0
    window: int = 0
    max_running: int = 4
    rows: int = 4
    context_len: int = 48
    chunk: int = 0
    draft: int = 0
    topk: int = 1
    reserve: int = 0
    retract: Literal["keep", "wipe"] = "keep"
    timeout: int = 300
    aligned_reuse: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (not isinstance(value, int) or value < 0):
                raise BadConfig(f"{field.name} must be a non-negative integer, not {value!r}")
        for name, most in (
            ("total_tokens", LARGEST),
            ("swa_tokens", LARGEST),
            ("rows", 10_000),
            ("context_len", 1_000_000),
            ("page_size", 4096),
        ):
            if getattr(self, name) > most:
                raise BadConfig(f"{name}={getattr(self, name)} is more than {most}")
        if self.page_size < 1:
            raise BadConfig("page_size must be at least 1")
        for name in ("total_tokens", "swa_tokens"):
            tokens = getattr(self, name)
            if tokens % self.page_size:
                raise BadConfig(f"{name}={tokens} is no multiple of page_size={self.page_size}")
        if self.total_tokens < self.page_size:
            raise BadConfig(
                f"total_tokens={self.total_tokens} is smaller than one page of {self.page_size}"
            )
        if bool(self.window) != bool(self.swa_tokens):
            raise BadConfig("window and swa_tokens come together: both 0, or both not")
        if self.rows < 1 or self.max_running < 1 or self.context_len < 1:
            raise BadConfig("rows, max_running and context_len must be at least 1")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EngineConfig:
        """The configuration of a trace; :class:`BadConfig` for unknown fields.

        >>> EngineConfig.from_json({"page_size": 4}) == CONFIGS["p4"]
        False
        """
        known = {field.name for field in fields(cls)}
        unknown = data.keys() - known
        if unknown:
            raise BadConfig(f"unknown configuration field {min(unknown)!r}")
        return cls(**data)


_base = EngineConfig()

CONFIGS: dict[str, EngineConfig] = {
    "p1": _base,
    "p1-tight": replace(_base, total_tokens=20, rows=3, max_running=3, context_len=32),
    "p1-one": replace(_base, max_running=1, rows=3),
    "p1-chunk": replace(_base, chunk=4, reserve=50),
    "p1-draft": replace(_base, draft=3, topk=2),
    "p4": replace(_base, page_size=4, max_running=2),
    "p4-tight": replace(_base, page_size=4, total_tokens=32, rows=3, context_len=32, chunk=8),
    "p4-draft": replace(_base, page_size=4, draft=4, topk=2, total_tokens=80, timeout=30),
    "p4-wipe": replace(_base, page_size=4, total_tokens=32, retract="wipe", draft=2),
    "p16": replace(_base, page_size=16, total_tokens=128, chunk=16),
    "p1-swa": replace(_base, window=2, swa_tokens=40, draft=5),
    "p4-swa": replace(_base, page_size=4, window=6, swa_tokens=48, chunk=8),
    "p16-swa": replace(
        _base, page_size=16, window=8, total_tokens=128, swa_tokens=96, draft=2, topk=3
    ),
    "p4-aligned": replace(_base, page_size=4, aligned_reuse=True, chunk=6),
}
"""By name: page sizes 1, 4, 16; with and without the SWA pool, chunks and drafts; tight pools."""
