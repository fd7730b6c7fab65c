"""Builds of vLLM for tests: each started once. `SLOTPROOF_VLLM_RELEASES`: only these releases,
separated by spaces; without it, all of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from slotproof.conformance.engines.releases import of_release


@pytest.fixture(scope="session")
def python_of() -> Callable[[str], Path]:
    """The interpreter of a release's environment, made where it is missing."""
    return lambda release: of_release(f"vllm=={release}").python


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect, and so count, tests that are parametrised by another release."""
    wanted = os.environ.get("SLOTPROOF_VLLM_RELEASES", "").split()
    if not wanted:
        return
    left_out = [item for item in items if _release(item) not in (None, *wanted)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _release(item: pytest.Item) -> str | None:
    if Path(__file__).parent not in item.path.parents or not hasattr(item, "callspec"):
        return None
    release: str | None = item.callspec.params.get("build")
    return release
