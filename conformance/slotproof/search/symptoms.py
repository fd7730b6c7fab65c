"""Symptoms of findings, to decide if two findings come from one bug.

One bug causes many findings. The clause violated first, and its transition, depend on the other
events of the iteration, and therefore on the seed. Only 1-minimal traces are compared, since each
event is necessary. The symptoms of such traces are stable:

- *telling*: transitions in the trace that are neither in every request nor in every later turn, and
  no retraction if only the reporting of a restored turn is wrong
- *guards* broken at the end, for a trace without telling transitions
- *departs*: variables in which the engine's state differs from the spec's at the end, and which
  side has the larger value
- *clauses* broken at the end (reporting alone is a separate finding)
- *changes*: single changes of the spec that explain the trace
  (:mod:`slotproof.lockstep.explanations`)
- *words*: message of a crash, or the resource that a stall waits for

A finding has the same cause as a listed trace if both stop with the same message. Without a
message, three conditions must hold. The finding has every event that the listed trace needs. The
finding breaks no further clause about pages, rows, tokens or answers. The same change of the spec
explains both, or the engine departs from the spec in no further variable. Other clauses and guards
are not compared: their checks start from the engine's state, not from the spec's, and therefore
depend on the other events of the iteration. The rule hides a second bug that needs the same
transitions and departs only in variables that are already wrong.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from slotproof.reports.trace import Trace
from slotproof.search.findings import LATER, RETRACTED, Mark
from slotproof_model.spec.invariants import INVARIANTS

ACTOR = "an actor"
"""Name of the difference if a session or request exists only in the engine, or only in the spec."""


@dataclass(frozen=True)
class Symptoms:
    """Evidence that a trace gives about its bug."""

    mark: Mark
    telling: frozenset[str]
    guards: frozenset[str]
    departs: frozenset[str]
    clauses: frozenset[str]
    changes: frozenset[str]
    minimal: bool

    @property
    def seen(self) -> frozenset[str]:
        """Broken clauses about pages, rows, tokens or answers: no formulas of the state."""
        return frozenset(clause for clause in self.clauses if not _stated(clause))

    @property
    def needs(self) -> frozenset[str]:
        """Events needed for the violation."""
        return self.telling or self.guards

    @property
    def has(self) -> frozenset[str]:
        return self.telling | self.guards


def _stated(clause: str) -> bool:
    """Return True if the clause is a formula of the state."""
    invariant, _, conjunct = clause.partition(".")
    return invariant == "INV-STEP" or conjunct in INVARIANTS[invariant].conjuncts


def symptoms(trace: Trace, mark: Mark) -> Symptoms:
    """Return the symptoms of a trace with states. ``mark``: the identity of its finding."""
    frames = [frame for row in trace.rows[-1:] for frame in row.frames[-1:]]
    differs = [difference for frame in frames for difference in frame.differs]
    happened = {name for row in trace.rows for name in row.transitions}
    broken = [v for v in trace.violations if mark.reporting or not v.reporting]
    if mark.reporting and mark.at not in RETRACTED:
        happened -= RETRACTED
    return Symptoms(
        mark,
        frozenset(happened - LATER),
        frozenset(f"{v.transition} against “{v.guard}”" for v in broken if v.guard),
        frozenset(map(_departs, differs)),
        frozenset(v.clause for v in broken),
        trace.changes,
        trace.minimal,
    )


def _departs(differs: dict[str, Any]) -> str:
    """Return a variable's name, with ``>`` if the engine has the larger value, otherwise ``<``."""
    spec, engine = differs.get("spec"), differs.get("engine")
    if spec is None or engine is None:
        return str(differs.get("variable", ACTOR))
    return f"{differs['variable']} {'>' if engine > spec else '<'}"


@dataclass(frozen=True)
class Bug:
    """Evidence of one bug."""

    ids: frozenset[str]
    """Identities seen for the bug."""
    causes: tuple[Symptoms, ...]
    """Symptoms of the bug's traces."""

    def shown(self, observed: Symptoms) -> bool:
        """Return True if an example, not yet shrunk, has the bug among unrelated events. The
        example has every event that one trace needs, and nothing beyond the bug is wrong."""
        return (
            any(cause.needs <= observed.has for cause in self.causes)
            and observed.seen <= frozenset().union(*(cause.seen for cause in self.causes))
            and observed.departs <= frozenset().union(*(cause.departs for cause in self.causes))
            and (
                observed.mark.id in self.ids
                or any(cause.mark.explains(observed.mark) for cause in self.causes)
            )
        )


@dataclass(frozen=True)
class AcceptedFindings:
    """Findings of the baseline, ignored by a search."""

    ids: frozenset[str] = frozenset()
    """Identities accepted without evidence from a trace."""
    bugs: tuple[Bug, ...] = ()

    def recognises(self, observed: Symptoms) -> bool:
        """Return True if an example, not yet shrunk, has an accepted finding."""
        return observed.mark.id in self.ids or any(bug.shown(observed) for bug in self.bugs)


def same(observed: Symptoms, causes: Collection[Symptoms]) -> str | None:
    """Return the reason why a finding has the same cause as these traces of a bug, or ``None``."""
    clauses = frozenset().union(*(cause.clauses for cause in causes))
    seen = frozenset().union(*(cause.seen for cause in causes))
    departs = frozenset().union(*(cause.departs for cause in causes))
    for cause in causes:
        if observed.mark.what or cause.mark.what:
            if cause.mark.stop == observed.mark.stop:
                return f"the finding stops with the same message: {observed.mark.what}"
            continue
        if not (observed.minimal and cause.needs <= observed.has and observed.seen <= seen):
            continue
        if shared := sorted(cause.changes & observed.changes):
            return f"the same change of the spec explains both: {shared[0]}"
        in_nothing_else = observed.departs <= departs and observed.departs & cause.departs
        in_nothing = not observed.departs | cause.departs and observed.clauses <= clauses
        if in_nothing_else or (in_nothing and cause.mark.clause == observed.mark.clause):
            needs, where = _all(cause.needs), _all(observed.departs)
            return f"a baseline trace, too, needs {needs} and departs from the spec in {where}"
    return None


def _all(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
