"""An impossible configuration is refused with a single clear line."""

from __future__ import annotations

from typing import Any

import pytest

from slotproof_engine import EngineConfig


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"page_size": 0}, "page_size: 0 is less than 1"),
        ({"page_size": 4, "total_tokens": 2}, "total_tokens: 2 is not a multiple of page_size 4"),
        ({"total_tokens": 0}, "total_tokens: 0 is less than 1"),
        ({"window": 2}, "window: set both window and swa_tokens (its pool), or neither"),
        ({"swa_tokens": 8}, "window: set both window and swa_tokens (its pool), or neither"),
        ({"window": 2, "swa_tokens": 8, "num_layers": 1}, "num_layers: a model with a sliding"),
        ({"reserve": 101}, "reserve: 101 is more than 100"),
        ({"checker_level": 3}, "checker_level: 3 is more than 2"),
        ({"retract": "maybe"}, "retract: 'maybe' is neither 'keep' nor 'wipe'"),
        ({"rows": 1.5}, "rows: 1.5 is not an integer"),
        ({"rows": True}, "rows: True is not an integer"),
        ({"chunk": -1}, "chunk: -1 is less than 0"),
        ({"pages": 3}, "pages: no such configuration field"),
    ],
)
def test_refused(values: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match="^" + line.replace("(", r"\(").replace(")", r"\)")):
        EngineConfig.of(values)


def test_rows_are_whole_pages() -> None:
    config = EngineConfig(page_size=4, context_len=10, window=3, swa_tokens=8)
    assert config.row_width == 12
    assert config.pools == ("full", "swa")
