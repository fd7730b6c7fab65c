"""Identity of a finding: the violated clause, and the transition that broke it.

The same violation with another seed, in another configuration or in a longer trace is the same
finding. The clause comes from the :func:`lead` violation. The transition is the first that exists:

- the violation's own transition, if lockstep names it
- the first transition of the iteration that the spec does not allow: a guard fails, or a step
  invariant breaks
- the last transition of the breaking iteration that is not part of every request
  (:data:`ORDINARY`), or else its last. The sequence submit, restore, extend gives ``T-RESTORE``.
  The sequence submit, match, extend gives ``T-EXTEND``. A turn also restores after a retraction, so
  the sequence retract, restore, extend gives ``T-RETRACT``, unless only the reporting is wrong. For
  a violation about one session, only transitions of that session count
- the command, if the iteration had no transition, or the engine reports none
- ``event``, if an event names no existing transition: an engine's own event name must not enter
  an identity, because identities are part of file names and of baselines
- ``driver``, if the driver itself fails: garbage on the wire, a senseless snapshot, its death, a
  timeout. Each kind of failure is one finding, whatever the command

The *shortest* trace gives the identity, because each transition in its breaking iteration is
necessary. While a trace shrinks, no earlier finding may explain it (:meth:`Mark.explains`). The
shrunk trace is a separate finding, unless dropping more commands gives the trace of an earlier
finding. A longer example has more transitions in its breaking iteration. The example counts as the
same finding if these transitions include those of the short trace.
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

INTAKE = frozenset(transition.id for transition in _ALL if transition.starts)
"""Transitions that start a request, possibly some iterations before the violation."""
ORDINARY = frozenset(transition.id for transition in _ALL if transition.course == "every request")
"""Transitions that every request takes. Such transitions are the weakest evidence of a bug."""
LATER = frozenset(transition.id for transition in _ALL if transition.course != "some")
"""Transitions that every request takes, or every later turn of a session."""
RETRACTED = frozenset(
    transition.id
    for transition in _ALL
    if transition.possible(_RUNNING) and transition.becomes(req.phase) == WAITING
)
"""Transitions that move a running turn back to waiting."""

VICTIMS = frozenset(["INV-ANSWER", "INV-CONTENT", "INV-PROGRESS"])
"""Invariants whose violations name the affected request. The cause may be a different request."""
_STEPS = frozenset(invariant.id for invariant in INVARIANTS.values() if invariant.kind is Kind.STEP)
LONGEST = 60
"""Largest number of characters of a crash's message in an identity."""


def lead(violations: Iterable[Violation]) -> Violation:
    """Return the first violation that is not about reporting. If all are, return the first."""
    return min(violations, key=lambda violation: violation.reporting)


@dataclass(frozen=True)
class Mark:
    """Identity of a violation."""

    clause: str
    transitions: tuple[str, ...]
    """Transitions of the breaking iteration in order, or only the transition named by lockstep."""
    command: str
    what: str = ""
    """Message of a crash without numbers and names, or the resource that a stall waits for. Traces
    until November 2026 lack the resource and match any stall."""
    certain: bool = False
    """True if lockstep names the transition."""

    @property
    def stop(self) -> tuple[str, str]:
        """Clause, and the message of a crash or a stall."""
        return self.clause, self.what

    @property
    def reporting(self) -> bool:
        """True if the clause is about the engine's reports, not about its memory."""
        invariant, _, conjunct = self.clause.partition(".")
        return Violation(invariant, conjunct).reporting

    @property
    def came_back(self) -> bool:
        """True if a turn was retracted and the clause is not about reporting."""
        return not (self.reporting or RETRACTED.isdisjoint(self.transitions))

    @property
    def at(self) -> str:
        """Transition, or command, in the finding's name.

        >>> Mark("INV-OWNER.lost", ("T-SUBMIT", "T-RESTORE", "T-EXTEND"), "step").at
        'T-RESTORE'
        >>> Mark("INV-OWNER.lost", ("T-RETRACT", "T-RESTORE", "T-EXTEND"), "step").at
        'T-RETRACT'
        >>> Mark("INV-ONCE.reported", ("T-RETRACT", "T-RESTORE", "T-EXTEND"), "step").at
        'T-RESTORE'
        """
        course = LATER if self.came_back else ORDINARY
        telling = [transition for transition in self.transitions if transition not in course]
        return (telling or self.transitions or (self.command,))[-1]

    @property
    def id(self) -> str:
        """Readable form of the identity.

        >>> Mark("INV-OWNER.lost", ("T-EXTEND",), "step").id
        'INV-OWNER.lost@T-EXTEND'
        """
        return f"{self.clause}@{self.at}" + (f":{self.what}" if self.what else "")

    @property
    def slug(self) -> str:
        """Identity as part of a file name."""
        return slug(self.id, also="@_")

    def explains(self, other: Mark) -> bool:
        """Return True if ``other`` may be the same finding, seen with more transitions.

        If this identity has only ordinary transitions, ``other`` must have only ordinary ones. If
        all its transitions are in :data:`LATER`, ``other`` must not be about a retracted turn.
        """
        needed, present = set(self.transitions), set(other.transitions)
        return (
            self.clause == other.clause
            and self.what in ("", other.what)
            and (bool(needed) or self.command == other.command)
            and (needed - INTAKE or needed) <= present
            and not (needed and needed <= ORDINARY and present - ORDINARY)
            and not (needed and needed <= LATER and other.came_back)
        )


def explained(identity: Mark, known: Iterable[Mark]) -> bool:
    """Return True if an earlier identity equals or explains this one."""
    return any(earlier.id == identity.id or earlier.explains(identity) for earlier in known)


@dataclass(frozen=True)
class Finding:
    """A violation and its trace, as first seen or after shrinking."""

    mark: Mark
    trace: Trace
    first: int
    """Number of the example in its configuration, the same for any number of jobs."""
    before: tuple[Command, ...] = field(default=(), compare=False, repr=False)
    """Commands of the preceding example, run in the same process."""

    @property
    def id(self) -> str:
        return self.mark.id

    @property
    def plainness(self) -> tuple[int, int]:
        """Sort key: memory clauses before step clauses, then short traces before long traces."""
        order = list(INVARIANTS)
        invariant = self.trace.violations[0].invariant
        return order.index(invariant) if invariant in order else len(order), len(self.trace.rows)


def mark(entry: Iteration, violation: Violation) -> Mark:
    """Return the identity of a violation at the end of a log."""
    if violation.fault:
        what = "" if violation.fault == "hang" else violation.fault
        return Mark(violation.clause, (), "driver", what)
    culprits = (
        broken.transition
        for broken in entry.violations
        if broken.transition and (broken.conjunct == "guard" or broken.invariant in _STEPS)
    )
    if exact := violation.transition or next(culprits, None):
        transitions: tuple[str, ...] = (exact if exact in TRANSITIONS else "event",)
    else:
        events = [event for event in entry.events if event[0] in TRANSITIONS]
        every = [event[0] for event in events]
        who = None if violation.invariant in VICTIMS else violation.session or violation.rid
        own = [event[0] for event in events if who and who in event[1:3]]
        if violation.clause in CONTRACT and violation.rid:  # The transition that ended the request.
            own = [event[0] for event in events if event[2] == violation.rid][-1:]
        transitions = tuple(dict.fromkeys(own or every))
    crashed = violation.clause == "INV-ALIVE.crash"
    what = _words(violation.detail) if crashed else violation.pins or ""
    return Mark(violation.clause, transitions, str(entry.command["do"]), what, certain=bool(exact))


def _words(message: str) -> str:
    """Return a message without parts that differ between examples.

    >>> _words("AssertionError: session_id='s1' already has a slot (3 tokens)")
    'AssertionError-session_id-already-has-a-slot-tokens'
    >>> _words("AttributeError: 'NoneType' object has no attribute 'pool' at 0x7f02")
    'AttributeError-NoneType-object-has-no-attribute-pool-at'
    """
    plain = re.sub(r"'[^']*\d[^']*'|\b0x[0-9a-f]+\b|\b[a-z]?\d+\b", " ", message)
    return slug(plain.replace(".", " "), LONGEST, also="_").strip("-")
