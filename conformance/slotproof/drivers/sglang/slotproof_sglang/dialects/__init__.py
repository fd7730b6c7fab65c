"""Places at which each layout stores the engine's state.

A dialect describes one layout. The driver chooses it by the build's features, not by its version.
"""

from __future__ import annotations

from typing import Any

from slotproof_driver.usage import UsageError

from .base import Dialect
from .embedded import EmbeddedDialect
from .flat import FlatDialect
from .record import RecordDialect
from .wrapper import WrapperDialect

DIALECTS: tuple[type[Dialect], ...] = (RecordDialect, EmbeddedDialect, WrapperDialect, FlatDialect)


def choose(scheduler: Any) -> Dialect:
    """Return the dialect of this scheduler. If no dialect fits, raise `UsageError` in one line."""
    for dialect in DIALECTS:
        if dialect.fits(scheduler):
            return dialect(scheduler)
    tree = type(scheduler.tree_cache)
    raise UsageError(
        f"unknown layout: the cache is {tree.__module__}.{tree.__name__}; "
        f"known are {', '.join(d.layout for d in DIALECTS)}"
    )
