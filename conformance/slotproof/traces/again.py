"""A trace recorded again: its commands on an engine, judged and explained by the code of today."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from slotproof.engines.base import Engine, built, demand, versioned
from slotproof.lockstep.explanations import explain
from slotproof.lockstep.referee import play
from slotproof.traces.record import Record, rows_of

R = TypeVar("R", bound=Record)


def again(old: R, engine: Engine, spec: str, chosen: str | None) -> R:
    """Return the trace that the commands of ``old`` make on an engine, with its states. ``chosen``
    is the profile to judge by, if it is not the engine's own. Raises ``EngineUnusable`` where the
    engine lacks what the trace needs."""
    demand(engine, old.config, old.commands)
    referee = play(engine, replace(old.setup, profile=chosen), old.commands, old.passes)
    played = referee.log
    first = old.violations[0].clause if old.violations else ""
    violations = sorted(played[-1].violations, key=lambda each: each.clause != first)
    same = {each.clause for each in violations} & {each.clause for each in old.violations}
    new = replace(
        old,
        engine=versioned(engine),
        spec=spec,
        profile=chosen or engine.capabilities.profile,
        rows=rows_of(played),
        states=True,
        violations=violations,
        minimal=old.minimal and bool(same) and len(played) == len(old.rows),
        chosen_profile=chosen,
        set_aside=tuple(sorted(referee.set_aside)),
        mends=engine.capabilities.mends,
        build=built(engine),
    )
    return new.explained_by(explain(referee) if violations else None)
