"""Checks of the configurations taken by default and with ``--strength 3``."""

from __future__ import annotations

from slotproof.engines.base import Capabilities
from slotproof.search.array import array


def covers_its_tuples(offered: Capabilities) -> None:
    """Check that configurations cover every pair and triple, and that the engine takes them."""
    for strength in (2, 3):
        made = array([offered], strength)
        covered, possible = made.share(strength, made.rows)
        assert 0 < covered == possible, strength
        assert all(offered.refuses(config) is None for config in made.configs.values())
