"""Speculative rounds: the build's settings, and the number of tokens that a round accepts.

The scheduler is the build's own. Its speculative configuration names no model.

| `topk` | the build's method | positions allocated past the known tokens |
|---|---|---|
| 1 | `ngram`: nothing runs, drafts have no separate KV | the drafts |
| more | `draft_model`: separate KV, also past the drafts | drafts, and as many lookahead slots |

The runner proposes the drafts of a perfect drafter. It accepts as many tokens as the `accept`
command requests. The drafter's own KV is ignored, because no sampled token depends on it.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

METHODS = ("use_eagle", "uses_draft_model")


def config_class() -> Any:
    """Return the build's class for the configuration of speculative decoding."""
    return importlib.import_module("vllm.config").SpeculativeConfig


def offered() -> bool:
    """Return True if the scheduler of this build takes drafts in the driver's format."""
    scheduler = importlib.import_module("vllm.v1.core.sched.scheduler").Scheduler
    outputs = importlib.import_module("vllm.v1.outputs")
    return (
        hasattr(scheduler, "update_draft_token_ids")
        and hasattr(outputs, "DraftTokenIds")
        and all(hasattr(config_class(), name) for name in METHODS)
    )


def method(config: dict[str, Any]) -> str:
    """Return the build's name for the proposer of drafts."""
    return "ngram" if config["topk"] == 1 else "draft_model"


def speculative_config(config: dict[str, Any]) -> Any:
    """Return a speculative configuration. It names no model, although a real start needs one."""
    made = object.__new__(config_class())
    for field in dataclasses.fields(config_class()):
        if field.default_factory is not dataclasses.MISSING:
            value: Any = field.default_factory()
        else:
            value = getattr(field.default, "default", field.default)
        object.__setattr__(made, field.name, None if value is dataclasses.MISSING else value)
    object.__setattr__(made, "method", method(config))
    object.__setattr__(made, "num_speculative_tokens", config["draft"])
    return made


def proposals() -> Callable[[dict[str, list[int]]], Any]:
    """Return a function that turns each request's proposed tokens into a worker's message."""
    made = importlib.import_module("vllm.v1.outputs").DraftTokenIds
    return lambda drafts: made(list(drafts), list(drafts.values()))
