"""Conversion of a configuration, as sent by `reset`, to the arguments of an engine."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from .usage import UsageError

#: Default of each field. A driver may override the defaults for its engine.
DEFAULTS: dict[str, Any] = {
    "page_size": 1,
    "total_tokens": 64,
    "swa_tokens": 0,
    "window": 0,
    "max_running": 4,
    "rows": None,
    "context_len": 48,
    "chunk": 0,
    "draft": 0,
    "topk": 1,
    "reserve": 0,
    "retract": "keep",
    "timeout": 0,
    "aligned_reuse": False,
    "overlap": False,
}


def filled(
    config: Mapping[str, Any], defaults: Mapping[str, Any], limits: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """Return the configuration with defaults filled in. Raise `UsageError` for an impossible value.

    ``limits``: allowed values by field. A field without limits takes any number.
    """
    unknown = sorted(set(config) - set(defaults))
    if unknown:
        raise UsageError(f"config.{unknown[0]}: unknown field")
    full = {**defaults, **{k: v for k, v in config.items() if v is not None}}
    if full["rows"] is None:
        full["rows"] = full["max_running"]
    for name, value in full.items():
        if name in limits and value not in limits[name]:
            allowed = ", ".join(map(str, limits[name]))
            raise UsageError(f"config.{name}: {value!r} is not supported, only {allowed}")
        if name not in limits and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UsageError(f"config.{name}: {value!r} is not a number")
    page, total = full["page_size"], full["total_tokens"]
    if total <= 0 or total % page:
        raise UsageError(f"config.total_tokens: {total} is not a positive multiple of {page}")
    if full["max_running"] < 1 or full["rows"] < 1:
        raise UsageError("config.max_running and config.rows must be at least 1")
    if not 0 <= full["reserve"] <= 100:
        raise UsageError(f"config.reserve: {full['reserve']} is not a percentage from 0 to 100")
    full["max_running"] = min(full["max_running"], full["rows"])  # Each request needs a row.
    return full


def by_signature(function: Any, offered: dict[str, Any]) -> dict[str, Any]:
    """Return the offered arguments that ``function`` accepts."""
    return {k: v for k, v in offered.items() if k in inspect.signature(function).parameters}
