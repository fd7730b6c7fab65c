"""Python's search for cyclic garbage, while examples are judged: seldom.

Nearly all that an example leaves behind is freed as its last reference goes. Looking for cycles
after every 700 new objects, and through all that torch and Hypothesis keep, took an eighth of the
time of a campaign.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_NEW = 20_000
"""Objects, more made than freed, after which one looks."""


@contextmanager
def seldom() -> Iterator[None]:
    """What is there by now is not looked through, and what comes is, but not so often."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_NEW, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
