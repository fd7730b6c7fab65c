"""A plugin for pytest, on in ``pyproject.toml``: which tests run first, and which together.

Long ones come first, so that no worker waits for another at the end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest

SHARING = ("test_site.py", "test_explore.py")
"""Files whose tests share something that takes seconds to make."""
LONG = ("sglang", "vllm", "browser", "quality", "exhaustive", "slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_urgency)


def _urgency(item: pytest.Item) -> int:
    """The place of its first mark among those that take long."""
    marks = (index for index, name in enumerate(LONG) if item.get_closest_marker(name))
    return next(marks, len(LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One at a time, but what starts the same build or shares a fixture goes to one worker."""
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = together
    return scheduler


def together(nodeid: str) -> str:
    """A name that tests have in common if one worker is to run them.

    The marks of pytest-xdist for this say nothing to pytest 9.
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
    """Deselect, and so count, tests that are parametrised by a release that the environment's
    variable does not have; without one, none."""
    wanted = os.environ.get(variable, "").split()
    if not wanted:
        return
    left_out = [item for item in items if release(item) not in (None, *wanted)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
