"""From a configuration as `reset` sends it to the arguments of an engine."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from .usage import UsageError

#: Of the fields that every engine takes; an engine may have other defaults.
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
    """The configuration with defaults filled in; `UsageError` for what can't be had.

    ``limits`` has the values that a field can take; one that is not there takes any number.
    """
    unknown = sorted(set(config) - set(defaults))
    if unknown:
        raise UsageError(f"config.{unknown[0]}: no such field")
    full = {**defaults, **{k: v for k, v in config.items() if v is not None}}
    if full["rows"] is None:
        full["rows"] = full["max_running"]
    for name, value in full.items():
        if name in limits and value not in limits[name]:
            allowed = ", ".join(map(str, limits[name]))
            raise UsageError(f"config.{name}: {value!r} is not possible here, only {allowed}")
        if name not in limits and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UsageError(f"config.{name}: {value!r} is no number")
    page, total = full["page_size"], full["total_tokens"]
    if total <= 0 or total % page:
        raise UsageError(f"config.total_tokens: {total} is no positive multiple of {page}")
    if full["max_running"] < 1 or full["rows"] < 1:
        raise UsageError("config.max_running and config.rows must be at least 1")
    if not 0 <= full["reserve"] <= 100:
        raise UsageError(f"config.reserve: {full['reserve']} is no share of 0 to 100")
    full["max_running"] = min(full["max_running"], full["rows"])  # each request needs a row
    return full


def by_signature(function: Any, offered: dict[str, Any]) -> dict[str, Any]:
    """Of what is on offer, the arguments that ``function`` takes."""
    return {k: v for k, v in offered.items() if k in inspect.signature(function).parameters}
