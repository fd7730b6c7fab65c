"""Turns and plain requests, as the engine's own `Request` objects.

A session is one resumable request until it is closed. Each turn is sent under the session's ID
(`EngineCore.add_request`). A last request that is not resumable ends the session, as `AsyncLLM`
sends it at the end of a client's input stream.
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
    """Builder of requests for one scheduler."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.request: Any = importlib.import_module("vllm.v1.request").Request
        self.sampling: Any = importlib.import_module("vllm.sampling_params").SamplingParams
        utils: Any = importlib.import_module("vllm.v1.core.kv_cache_utils")
        self.hasher = (
            utils.get_request_block_hasher(config["page_size"], boot.hasher())
            if not config["no_tree"]
            else None
        )
        self.priority = config["priority"]
        self.sent = 0

    def make(
        self, key: str, tokens: list[int], max_new: int, stop: list[int], resumable: bool
    ) -> Any:
        """Return a greedy request without an end token. Its arrival time is a running number."""
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
        """Return the request that ends a session. As in `AsyncLLM`, its token has no meaning."""
        return self.make(key, [0], 1, [], resumable=False)


def importance(key: str) -> int:
    """Return a priority from 0 (lowest) to 2. It depends only on the ID, so a replay repeats it."""
    return crc32(key.partition("#")[0].encode()) % 3


def check_tokens(command: dict[str, Any]) -> None:
    """Raise `UsageError` for a token outside the vocabulary."""
    for token in (*command["tokens"], *command["stop"]):
        if not isinstance(token, int) or not 0 < token < VOCAB:
            raise UsageError(f"submit: token {token} is outside 1 … {VOCAB - 1}")
