"""A plugin for pytest, on in ``pyproject.toml``: which tests run, which first, which together.

Tests marked ``exhaustive`` run where the inputs of the part ``spec`` changed since it passed, and
where ``-m`` names them. Long ones come first, so that no worker waits for another at the end.
"""

from __future__ import annotations

import pytest

from slotproof.conformance.tests.parts import changed

LONG = ("sglang", "browser", "quality", "exhaustive", "slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselected tests are counted; a site is built once, by the worker that needs it."""
    if "exhaustive" not in config.option.markexpr:
        left_out = [item for item in items if item.get_closest_marker("exhaustive")]
        if left_out and not changed(["spec"]):
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item not in left_out]
    for item in items:
        if "site" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("site"))
    items.sort(key=_urgency)


def _urgency(item: pytest.Item) -> int:
    """The place of its first mark among those that take long."""
    marks = (index for index, name in enumerate(LONG) if item.get_closest_marker(name))
    return next(marks, len(LONG))
