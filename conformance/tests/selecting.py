"""A pytest plugin, enabled in ``pyproject.toml``: order of the tests, and groups for one worker.

Long tests come first, so that no worker waits for another at the end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest

SHARING = ("test_site.py", "test_explore.py")
"""Files with a shared fixture that takes seconds to build."""
LONG = ("sglang", "vllm", "browser", "quality", "exhaustive", "slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_urgency)


def _urgency(item: pytest.Item) -> int:
    """Return the index of the test's first marker in ``LONG``, or the length of ``LONG``."""
    marks = (index for index, name in enumerate(LONG) if item.get_closest_marker(name))
    return next(marks, len(LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute tests singly, except tests with a common build or fixture: they share a worker."""
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = together
    return scheduler


def together(nodeid: str) -> str:
    """Return a name shared by the tests of one worker.

    pytest 9 ignores pytest-xdist's marker for this.
    """
    path, _, test = nodeid.partition("::")
    release = re.search(r"\[.*?(\d+\.\d+\.\d+(\.post\d+)?)", test)
    if "/sglang/" in path and release:
        return f"sglang {release[1]}"
    if "/vllm/" in path:
        return "vllm"
    file = path.rpartition("/")[2]
    return file if file in SHARING else nodeid


def only_releases(
    variable: str,
    config: pytest.Config,
    items: list[pytest.Item],
    release: Callable[[pytest.Item], str | None],
) -> None:
    """Deselect the tests of releases missing from the environment variable. Without a value,
    deselect none. Deselected tests are counted."""
    wanted = os.environ.get(variable, "").split()
    if not wanted:
        return
    left_out = [item for item in items if release(item) not in (None, *wanted)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
