"""Configuration of an engine: pools, limits, and choices in which real engines differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from slotproof_engine.kernels import AUTO, TORCH, TRITON

CHECKER_OFF, CHECKER_QUIET, CHECKER_VERBOSE = 0, 1, 2


@dataclass(frozen=True)
class EngineConfig:
    """Engine configuration. Sizes are in tokens unless noted. Invalid values raise ``ValueError``.

    >>> EngineConfig(page_size=4, total_tokens=66)
    Traceback (most recent call last):
        ...
    ValueError: total_tokens: 66 is not a multiple of page_size 4
    """

    page_size: int = 1
    total_tokens: int = 64
    """Size of the full-attention pool."""
    swa_tokens: int = 0
    """Size of the sliding-window pool. 0: the model has no sliding window."""
    window: int = 0
    """Number of most recent positions that a sliding-window layer attends to."""
    max_running: int = 4
    """Maximum number of requests in a batch."""
    rows: int = 8
    """Number of rows of ``req_to_token``."""
    context_len: int = 64
    """Maximum number of tokens of prompt plus output. Rounded up to pages, it is a row's width."""
    chunk: int = 0
    """Maximum tokens in a prefill batch. Longer prompts are prefilled in chunks. 0: off."""
    draft: int = 0
    """Draft tokens per round. A round commits up to ``draft + 1`` tokens. 0: plain decoding."""
    topk: int = 1
    """Number of draft branches. A round allocates ``draft * topk`` tokens ahead."""
    reserve: int = 0
    """Percentage of the tokens still to be generated for which admission reserves memory."""
    retract: str = "keep"
    """KV of a retracted turn: ``keep`` (held by the slot) or ``wipe`` (freed)."""
    timeout: int = 0
    """Seconds until an idle session is reaped. 0: never."""
    aligned_reuse: bool = False
    """A restore reuses whole pages only, as required by some hardware (#32163)."""
    overlap: bool = False
    """Overlap scheduling: a batch is launched before the previous result is processed."""
    batches: int = 2
    """Number of batches under way with overlap scheduling: 2 or more."""
    loan_publishes: bool = False
    """A turn publishes its prefilled KV also while its slot is on loan, as in vLLM."""
    drops_last: bool = False
    """A session's history leaves out the last token of each answer, as in vLLM."""
    queues_turns: bool = False
    """A turn submitted during another turn waits instead of being rejected, as in vLLM."""
    keeps_slack: bool = False
    """Memory allocated past the end of a turn stays with the session's slot, as in vLLM."""
    checker_level: int = CHECKER_VERBOSE
    """Memory check. 0: off, 1: log only when a check fails, 2: log every line."""
    num_layers: int = 2
    """Number of layers. Layer 0 has full attention. All others use the sliding window, if any."""
    vocab: int = 250
    """Sampled tokens lie in ``1 .. vocab - 1``."""
    seed: int = 0
    """Seed for the number of draft tokens accepted. The sampled tokens do not depend on the seed.
    """
    device: str = "cpu"
    model: str = "stamps"
    """``stamps`` (sums of KV stamps, computable by hand) or ``transformer`` (real attention)."""
    audit: bool = False
    """The memory check also audits every page (``slotproof_engine.kv.audit``)."""
    kernels: str = "auto"
    """Kernels: ``torch``, ``triton``, or ``auto`` (Triton on a GPU if Triton is installed)."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> EngineConfig:
        """Build the configuration from a protocol message. Unknown fields raise ``ValueError``.

        >>> EngineConfig.of({"page_size": 4, "total_tokens": 64}).page_size
        4
        """
        known = {field.name for field in fields(cls)}
        for name in values:
            if name not in known:
                raise ValueError(f"{name}: no such configuration field")
        return cls(**values)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and (isinstance(value, bool) or not isinstance(value, int)):
                raise ValueError(f"{field.name}: {value!r} is not an integer")
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}: {getattr(self, name)} is less than {least}")
        for name, most in (("reserve", 100), ("checker_level", CHECKER_VERBOSE)):
            if getattr(self, name) > most:
                raise ValueError(f"{name}: {getattr(self, name)} is more than {most}")
        for name in ("total_tokens", "swa_tokens"):
            tokens, page = getattr(self, name), self.page_size
            if tokens % page:
                raise ValueError(f"{name}: {tokens} is not a multiple of page_size {page}")
        if self.total_tokens < self.page_size:
            raise ValueError(f"total_tokens: {self.total_tokens} is smaller than one page")
        if (self.swa_tokens > 0) != (self.window > 0):
            raise ValueError("window: set both window and swa_tokens (its pool), or neither")
        if self.window and self.num_layers < 2:
            raise ValueError("num_layers: a model with a sliding window has at least 2 layers")
        if self.retract not in ("keep", "wipe"):
            raise ValueError(f"retract: {self.retract!r} is neither 'keep' nor 'wipe'")
        if self.model not in ("stamps", "transformer"):
            raise ValueError(f"model: {self.model!r} is neither 'stamps' nor 'transformer'")
        if self.kernels not in (AUTO, TORCH, TRITON):
            raise ValueError(f"kernels: {self.kernels!r} is none of 'auto', 'torch', 'triton'")

    @property
    def row_width(self) -> int:
        """Positions in a row: the context length, rounded up to whole pages."""
        return -(-self.context_len // self.page_size) * self.page_size

    @property
    def behind(self) -> int:
        """Largest number of launched batches whose results are not processed yet."""
        return self.batches - 1 if self.overlap else 0

    @property
    def pools(self) -> tuple[str, ...]:
        return ("full", "swa") if self.window else ("full",)


_LEAST = {
    "page_size": 1,
    "total_tokens": 1,
    "swa_tokens": 0,
    "window": 0,
    "max_running": 1,
    "rows": 1,
    "context_len": 1,
    "chunk": 0,
    "draft": 0,
    "topk": 1,
    "reserve": 0,
    "timeout": 0,
    "batches": 2,
    "checker_level": 0,
    "num_layers": 1,
    "vocab": 3,
}
