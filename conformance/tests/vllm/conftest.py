"""Builds of vLLM for tests. `SLOTPROOF_VLLM_RELEASES` names the releases to test, separated by
spaces. Default: all releases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slotproof.engines.releases import of_release
from tests.selecting import only_releases


@pytest.fixture(scope="session")
def python_of() -> Callable[[str], Path]:
    """The interpreter of a release's environment, which is created if missing."""
    return lambda release: of_release(f"vllm=={release}").python


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    only_releases("SLOTPROOF_VLLM_RELEASES", config, items, _release)


def _release(item: pytest.Item) -> str | None:
    if Path(__file__).parent not in item.path.parents or not hasattr(item, "callspec"):
        return None
    release: str | None = item.callspec.params.get("build")
    return release
