"""`SLOTPROOF_RELEASES`: only these releases, separated by spaces; without it, all of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, and so count, tests that are parametrised by another release."""
    wanted = os.environ.get("SLOTPROOF_RELEASES", "").split()
    if not wanted:
        return
    left_out = [item for item in items if _release(item) not in (None, *wanted)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _release(item: pytest.Item) -> str | None:
    if Path(__file__).parent not in item.path.parents or not hasattr(item, "callspec"):
        return None
    params = item.callspec.params
    if "path" in params:  # a finding: sglang-RELEASE-WHAT.itf.json
        return str(params["path"].name.split("-")[1])
    named = next((params[name] for name in ("release", "build") if name in params), None)
    return named and str(named).removeprefix("sglang==")
