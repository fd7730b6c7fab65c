"""Turns and plain requests as the engine's own `Request`.

A session is one resumable request that lives until it is closed: each turn is sent under its id
(`EngineCore.add_request`), and a last one that is not resumable ends it, as `AsyncLLM` does where
the client's stream of inputs is over.
"""

from __future__ import annotations

import importlib
from typing import Any
from zlib import crc32

from slotproof_driver.configuration import by_signature
from slotproof_driver.usage import UsageError

from . import boot

VOCAB = 256


class Inputs:
    """Builds requests for one scheduler."""

    def __init__(self, page_size: int, options: boot.Options) -> None:
        self.request: Any = importlib.import_module("vllm.v1.request").Request
        self.sampling: Any = importlib.import_module("vllm.sampling_params").SamplingParams
        utils: Any = importlib.import_module("vllm.v1.core.kv_cache_utils")
        self.hasher = (
            utils.get_request_block_hasher(page_size, boot.hasher())
            if options.prefix_cache
            else None
        )
        self.priority = options.priority
        self.sent = 0

    def make(
        self, key: str, tokens: list[int], max_new: int, stop: list[int], resumable: bool
    ) -> Any:
        """The request, greedy and without an end token; time is the order of sending."""
        self.sent += 1
        sampling = self.sampling(max_tokens=max_new, stop_token_ids=list(stop), ignore_eos=True)
        offered = {
            "request_id": key,
            "prompt_token_ids": list(tokens),
            "sampling_params": sampling,
            "pooling_params": None,
            "eos_token_id": None,
            "arrival_time": float(self.sent),
            "block_hasher": self.hasher,
            "resumable": resumable,
            "priority": importance(key) if self.priority else 0,
        }
        return self.request(**by_signature(self.request.__init__, offered))

    def last(self, key: str) -> Any:
        """What ends a session: `AsyncLLM` sends a token of no meaning."""
        return self.make(key, [0], 1, [], resumable=False)


def importance(key: str) -> int:
    """0 to 2, the least first: of a request or a session, by its name, whenever it is played."""
    return crc32(key.partition("#")[0].encode()) % 3


def check_tokens(command: dict[str, Any]) -> None:
    """`UsageError` for tokens that are outside the vocabulary."""
    for token in (*command["tokens"], *command["stop"]):
        if not isinstance(token, int) or not 0 < token < VOCAB:
            raise UsageError(f"submit: token {token} is outside 1 … {VOCAB - 1}")
