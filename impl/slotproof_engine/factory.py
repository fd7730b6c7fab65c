"""Factory of engines: the reference, or one of its mutants."""

from __future__ import annotations

import logging
from collections.abc import Callable

from slotproof_engine.assembly.engine import ReferenceEngine
from slotproof_engine.assembly.parts import Parts
from slotproof_engine.base.config import EngineConfig
from slotproof_engine.mutants import mutant_named

logger = logging.getLogger(__name__)


def build(
    config: EngineConfig, mutant: str | None = None, log: Callable[[str], None] = logger.debug
) -> ReferenceEngine:
    """Build an engine of the configuration, with the bug of the named mutant, if any.

    Raises ``ValueError`` for an unknown mutant. ``log`` receives the lines of the memory check.

    >>> build(EngineConfig(), "22897")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: unknown mutant '22897'; there are: ...
    """
    parts = Parts()
    if mutant is not None:
        parts = mutant_named(mutant).apply(parts)
    return ReferenceEngine(config, parts, log)
