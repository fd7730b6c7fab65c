"""Speculative rounds: what a build is told of them, and how many tokens one accepts.

The scheduler is the build's own, with a configuration of its own kind that names no model. Who
proposes follows from `topk`:

| `topk` | the build's method | a round has allocated past what is known |
|---|---|---|
| 1 | `ngram`: nothing runs, drafts have no KV of their own | the drafts |
| more | `draft_model`: has KV of its own, past the drafts too | them, and as many lookahead slots |

The runner proposes what a perfect drafter would, and rejects by the number that `accept` gives.
What a drafter would write is not looked at: nothing that is sampled depends on it.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any
from zlib import crc32

METHODS = ("use_eagle", "uses_draft_model")


def config_class() -> Any:
    """The build's own configuration of speculative decoding."""
    return importlib.import_module("vllm.config").SpeculativeConfig


def offered() -> bool:
    """Whether this build's scheduler takes drafts as they are given here."""
    scheduler = importlib.import_module("vllm.v1.core.sched.scheduler").Scheduler
    outputs = importlib.import_module("vllm.v1.outputs")
    return (
        hasattr(scheduler, "update_draft_token_ids")
        and hasattr(outputs, "DraftTokenIds")
        and all(hasattr(config_class(), each) for each in METHODS)
    )


def method(config: dict[str, Any]) -> str:
    """The build's name for who proposes."""
    return "ngram" if config["topk"] == 1 else "draft_model"


def speculative_config(config: dict[str, Any]) -> Any:
    """One without a model to look into, which the build's own start would ask for."""
    made = object.__new__(config_class())
    for each in dataclasses.fields(config_class()):
        if each.default_factory is not dataclasses.MISSING:
            value: Any = each.default_factory()
        else:
            value = getattr(each.default, "default", each.default)
        object.__setattr__(made, each.name, None if value is dataclasses.MISSING else value)
    object.__setattr__(made, "method", method(config))
    object.__setattr__(made, "num_speculative_tokens", config["draft"])
    return made


def proposals() -> Callable[[dict[str, list[int]]], Any]:
    """Makes what a worker tells the scheduler: by request, the tokens that it proposes."""
    made = importlib.import_module("vllm.v1.outputs").DraftTokenIds
    return lambda drafts: made(list(drafts), list(drafts.values()))


class Accepts:
    """How many tokens the rounds of each request accept."""

    def __init__(self, draft: int) -> None:
        self.width = draft + 1
        self.wanted: dict[str, int] = {}

    def request(self, rid: str, tokens: int) -> None:
        """Note what the next round accepts; a later word for the same request replaces it."""
        self.wanted[rid] = tokens

    def of(self, rid: str, computed: int) -> int:
        """What was asked for, or any number, the same one whenever the request is played again."""
        asked = self.wanted.pop(rid, 0)
        if not asked:
            asked = 1 + crc32(f"{rid}:{computed}".encode()) % self.width
        return min(asked, self.width)
