"""Whether two findings come of one bug.

One bug is seen as many findings: which clause breaks first, and at which transition, depends on
what else happened in that iteration, and so on the seed. What stays the same is told by traces that
are 1-minimal, where all that happened had to happen:

- *telling*: the transitions of the whole trace that not every request, or every later turn, goes
  through;
- *guards* that are broken at the end, for a trace in which nothing else is telling;
- *departs*: the variables in which the engine's state is not the spec's, at the end, and on which
  side they are larger;
- *clauses* that are broken there (what is only in the reporting is a finding of its own);
- *changes*: the single changes of the spec that explain it
  (:mod:`slotproof.lockstep.explanations`);
- *words*: of a crash its message, of a stall what is waited for.

A finding has a known cause if it stops with the same words; or if all that had to happen for a
known trace had to happen for it as well, nothing else is lost, shared or wrong on pages, rows,
tokens or answers, and either the same change of the spec explains both, or the engine departs from
the spec in no other variable. Which other clauses of states and steps break then, and which guards,
depends on what the other events of that iteration were: they start where the engine is, not where
the spec is. What this hides: another bug that needs the same transitions and departs in nothing
that the known one leaves right.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from slotproof.reports.trace import Trace
from slotproof.search.findings import LATER, Mark
from slotproof_model.spec.invariants import INVARIANTS

ACTOR = "an actor"
"""Departs so: a session or a request is there for one of the two only."""


@dataclass(frozen=True)
class Symptoms:
    """What a trace says of the bug behind it."""

    mark: Mark
    telling: frozenset[str]
    guards: frozenset[str]
    departs: frozenset[str]
    clauses: frozenset[str]
    changes: frozenset[str]
    minimal: bool

    @property
    def seen(self) -> frozenset[str]:
        """Of the clauses, those that the state does not show: pages, rows, tokens, answers."""
        return frozenset(each for each in self.clauses if not _stated(each))

    @property
    def needs(self) -> frozenset[str]:
        """What had to happen for it."""
        return self.telling or self.guards

    @property
    def has(self) -> frozenset[str]:
        return self.telling | self.guards


def _stated(clause: str) -> bool:
    """Whether it is a formula of the state."""
    invariant, _, conjunct = clause.partition(".")
    return invariant == "INV-STEP" or conjunct in INVARIANTS[invariant].conjuncts


def symptoms(trace: Trace, mark: Mark) -> Symptoms:
    """What a trace with its states says. Its own finding is marked so."""
    differs = [
        each for row in trace.rows[-1:] for frame in row.frames[-1:] for each in frame.differs
    ]
    happened = {name for row in trace.rows for name in row.transitions}
    told = [each for each in trace.violations if mark.reporting or not each.reporting]
    return Symptoms(
        mark,
        frozenset(happened - LATER),
        frozenset(f"{each.transition} against “{each.guard}”" for each in told if each.guard),
        frozenset(map(_departs, differs)),
        frozenset(each.clause for each in told),
        trace.changes,
        trace.minimal,
    )


def _departs(differs: dict[str, Any]) -> str:
    """A variable, and on which side it is larger; one that is missing is no number."""
    spec, engine = differs.get("spec"), differs.get("engine")
    if spec is None or engine is None:
        return str(differs.get("variable", ACTOR))
    return f"{differs['variable']} {'>' if engine > spec else '<'}"


@dataclass(frozen=True)
class Bug:
    """What is known of one bug."""

    ids: frozenset[str]
    """Identities that it was seen under."""
    causes: tuple[Symptoms, ...]
    """What its traces show."""

    def shown(self, found: Symptoms) -> bool:
        """Whether an example, as it was drawn, shows it, among whatever else happened: all that one
        of its traces needs has happened, and nothing is wrong that the bug does not do."""
        return (
            any(each.needs <= found.has for each in self.causes)
            and found.seen <= frozenset().union(*(each.seen for each in self.causes))
            and found.departs <= frozenset().union(*(each.departs for each in self.causes))
            and (
                found.mark.id in self.ids
                or any(each.mark.explains(found.mark) for each in self.causes)
            )
        )


@dataclass(frozen=True)
class AcceptedFindings:
    """Findings that a search passes over, since the baseline has them."""

    ids: frozenset[str] = frozenset()
    """Identities without a trace that says more."""
    bugs: tuple[Bug, ...] = ()

    def recognises(self, found: Symptoms) -> bool:
        """Whether an example, as it was drawn, shows one of them."""
        return found.mark.id in self.ids or any(each.shown(found) for each in self.bugs)


def same(found: Symptoms, known: Collection[Symptoms]) -> str | None:
    """Why a finding has the cause of these traces, which are of one bug; ``None`` if it has not."""
    clauses = frozenset().union(*(each.clauses for each in known))
    seen = frozenset().union(*(each.seen for each in known))
    departs = frozenset().union(*(each.departs for each in known))
    for each in known:
        if found.mark.what or each.mark.what:
            if each.mark.stop == found.mark.stop:
                return f"it stops with the same words: {found.mark.what}"
            continue
        if not (found.minimal and each.needs <= found.has and found.seen <= seen):
            continue
        if shared := sorted(each.changes & found.changes):
            return f"the same explains it: {shared[0]}"
        in_nothing_else = found.departs <= departs and found.departs & each.departs
        in_nothing = not found.departs | each.departs and found.clauses <= clauses
        if in_nothing_else or (in_nothing and each.mark.clause == found.mark.clause):
            return f"it needs {_all(each.needs)} and departs in {_all(found.departs)}, as that does"
    return None


def _all(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"
