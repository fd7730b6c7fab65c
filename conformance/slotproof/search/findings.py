"""What makes two findings the same: the clause, and the transition that broke it.

A seed, a configuration or a longer way to it makes no other finding. The clause is
that of the :func:`lead`. The transition is

- the violation's own, where lockstep names it;
- else the first of the iteration that the spec does not allow (a guard that fails, a
  step invariant that breaks);
- else the last one of the breaking iteration that is not of the ordinary course of
  every request (:data:`ORDINARY`), or the last one if all are: submit, restore, extend
  is ``T-RESTORE``; submit, match, extend is ``T-EXTEND``. A turn that comes back from a
  retraction restores as well: retract, restore, extend is ``T-RETRACT``, unless only the
  reporting is wrong. Where the violation is about one session, only its transitions count;
- the command, where the iteration had no transition, or the engine tells of none;
- ``event``, where an event names no transition there is: its own words are a stranger's, and an
  identity is part of file names and of baselines;
- ``driver``, where the driver itself fails: garbage on the wire, a snapshot that makes no sense,
  its death, no answer in time. That is one finding for each kind, whatever was asked of it.

It is taken from the *shortest* trace: there the breaking iteration has only those
transitions that the violation needs. While it shrinks, a trace must not become one that
a known finding explains (:meth:`Mark.explains`); when it is short, it is a finding of
its own unless dropping more would make it a known one after all. A longer example, whose
breaking iteration has more transitions, is recognised by those of the short one being
among them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from slotproof.lockstep.observation import CONTRACT, Violation
from slotproof.lockstep.referee import Iteration
from slotproof.protocol.commands import Command
from slotproof.reports.trace import Trace
from slotproof.support.files import slug
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.state import RUNNING, TURN, WAITING, req, session
from slotproof_model.spec.transitions import TRANSITIONS

_ALL = TRANSITIONS.values()
_RUNNING = {req.kind.name: TURN, req.phase.name: RUNNING, session.inflight.name: True}

INTAKE = frozenset(each.id for each in _ALL if each.starts)
"""May as well have happened some iterations before."""
ORDINARY = frozenset(each.id for each in _ALL if each.course == "every request")
"""What every request goes through: as names of a finding they say least."""
LATER = frozenset(each.id for each in _ALL if each.course != "some")
"""What every later turn of a session goes through."""
RETRACTED = frozenset(
    each.id for each in _ALL if each.possible(_RUNNING) and each.becomes(req.phase) == WAITING
)
"""What takes a turn out of the batch."""

VICTIMS = frozenset(["INV-ANSWER", "INV-CONTENT", "INV-PROGRESS"])
"""Their violations name whom it was seen on: the transition may be another's."""
_STEPS = frozenset(each.id for each in INVARIANTS.values() if each.kind is Kind.STEP)
LONGEST = 60
"""Characters of a crash's message in an identity."""


def lead(violations: Iterable[Violation]) -> Violation:
    """The violation that a finding is named by: the first that is not only in the reporting."""
    return min(violations, key=lambda each: each.reporting)


@dataclass(frozen=True)
class Mark:
    """By what a violation is recognised in an example."""

    clause: str
    transitions: tuple[str, ...]
    """Of the breaking iteration, in order; only the culprit if lockstep knows it."""
    command: str
    what: str = ""
    """Of a crash: its message without numbers and names; of a stall: what the request waits for.
    Traces until November 2026 do not say that of a stall: they speak of any."""
    certain: bool = False
    """Lockstep knows the transition: there is only one."""

    @property
    def stop(self) -> tuple[str, str]:
        """The clause, and the words of a crash or a stall."""
        return self.clause, self.what

    @property
    def reporting(self) -> bool:
        """Whether the clause is about what the engine says, and not about its memory."""
        invariant, _, conjunct = self.clause.partition(".")
        return Violation(invariant, conjunct).reporting

    @property
    def came_back(self) -> bool:
        """A retracted turn, and more than the reporting is wrong: a story of its own."""
        return not (self.reporting or RETRACTED.isdisjoint(self.transitions))

    @property
    def at(self) -> str:
        """The transition, or the command, that the finding is named by.

        >>> Mark("INV-OWNER.lost", ("T-SUBMIT", "T-RESTORE", "T-EXTEND"), "step").at
        'T-RESTORE'
        >>> Mark("INV-OWNER.lost", ("T-RETRACT", "T-RESTORE", "T-EXTEND"), "step").at
        'T-RETRACT'
        >>> Mark("INV-ONCE.reported", ("T-RETRACT", "T-RESTORE", "T-EXTEND"), "step").at
        'T-RESTORE'
        """
        course = LATER if self.came_back else ORDINARY
        telling = [each for each in self.transitions if each not in course]
        return (telling or self.transitions or (self.command,))[-1]

    @property
    def id(self) -> str:
        """The finding's identity, readable.

        >>> Mark("INV-OWNER.lost", ("T-EXTEND",), "step").id
        'INV-OWNER.lost@T-EXTEND'
        """
        return f"{self.clause}@{self.at}" + (f":{self.what}" if self.what else "")

    @property
    def slug(self) -> str:
        """The identity as part of a file's name."""
        return slug(self.id, also="@_")

    def explains(self, other: Mark) -> bool:
        """Whether the other one may be the same finding seen among more transitions.

        One that happens in the ordinary course explains nothing that has a telling one; one
        of a later turn explains nothing of a turn that came back.
        """
        needed, there = set(self.transitions), set(other.transitions)
        return (
            self.clause == other.clause
            and self.what in ("", other.what)
            and (bool(needed) or self.command == other.command)
            and (needed - INTAKE or needed) <= there
            and not (needed and needed <= ORDINARY and there - ORDINARY)
            and not (needed and needed <= LATER and other.came_back)
        )


def explained(found: Mark, known: Iterable[Mark]) -> bool:
    """Whether it is one of those that are known."""
    return any(each.id == found.id or each.explains(found) for each in known)


@dataclass(frozen=True)
class Finding:
    """A violation and the example that showed it: as it was seen, or shrunk."""

    mark: Mark
    trace: Trace
    first: int
    """Which example of its trace's configuration showed it: the same for any number of jobs."""
    before: tuple[Command, ...] = field(default=(), compare=False, repr=False)
    """Commands of the example that ran in the same process before that one."""

    @property
    def id(self) -> str:
        return self.mark.id

    @property
    def plainness(self) -> tuple[int, int]:
        """Clauses about memory before clauses about steps, then short before long."""
        order = list(INVARIANTS)
        invariant = self.trace.violations[0].invariant
        place = order.index(invariant) if invariant in order else len(order)
        return place, len(self.trace.rows)


def mark(entry: Iteration, violation: Violation) -> Mark:
    """The mark of a violation at the end of a log."""
    if violation.fault:
        what = "" if violation.fault == "hang" else violation.fault
        return Mark(violation.clause, (), "driver", what)
    culprits = (
        each.transition
        for each in entry.violations
        if each.transition and (each.conjunct == "guard" or each.invariant in _STEPS)
    )
    exact = violation.transition or next(culprits, None)
    if exact:
        transitions: tuple[str, ...] = (exact if exact in TRANSITIONS else "event",)
    else:
        events = [each for each in entry.events if each[0] in TRANSITIONS]
        every = [each[0] for each in events]
        who = None if violation.invariant in VICTIMS else violation.session or violation.rid
        mine = [each[0] for each in events if who and who in each[1:3]]
        if violation.clause in CONTRACT and violation.rid:  # that with which the request ended
            mine = [each[0] for each in events if each[2] == violation.rid][-1:]
        transitions = tuple(dict.fromkeys(mine or every))
    crashed = violation.clause == "INV-ALIVE.crash"
    what = _words(violation.detail) if crashed else violation.pins or ""
    command = str(entry.command["do"])
    return Mark(violation.clause, transitions, command, what, certain=bool(exact))


def _words(message: str) -> str:
    """A message without what differs from one example to the next.

    >>> _words("AssertionError: session_id='s1' already has a slot (3 tokens)")
    'AssertionError-session_id-already-has-a-slot-tokens'
    >>> _words("AttributeError: 'NoneType' object has no attribute 'pool' at 0x7f02")
    'AttributeError-NoneType-object-has-no-attribute-pool-at'
    """
    plain = re.sub(r"'[^']*\d[^']*'|\b0x[0-9a-f]+\b|\b[a-z]?\d+\b", " ", message)
    return slug(plain.replace(".", " "), LONGEST, also="_").strip("-")
