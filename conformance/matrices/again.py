"""A trace on another build."""

from __future__ import annotations

from slotproof.conformance.engines.base import Engine
from slotproof.conformance.lockstep.referee import Iteration
from slotproof.conformance.search.campaign import replay
from slotproof.conformance.traces.trace import Trace


class Refused(Exception):
    """The build offers less than the trace needs."""


def again(engine: Engine, trace: Trace) -> list[Iteration]:
    """What a fresh engine does on the commands of a trace. Raises :class:`Refused`."""
    reason = engine.capabilities.lacks(trace.config, trace.commands)
    if reason is not None:
        raise Refused(reason)
    return replay(
        engine, trace.config, trace.seed, trace.commands, trace.chosen_profile, trace.set_aside
    ).log
