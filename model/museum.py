"""The bug museum, in the spec: each known bug as a spec with one thing wrong.

Named as the mutants of the reference engine, after the pull request that
mended it. Bugs that lie below the spec's granularity (a check that does not
run, a crash, reuse that a profile forbids) exist in the reference engine only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from slotproof.model import transitions as t
from slotproof.model.expr import App, Expr, ceil_page, ite
from slotproof.model.invariant import Invariant
from slotproof.model.invariants import INVARIANTS
from slotproof.model.memory import EMPTY, Interval, Mem, Move, give_row, unlock
from slotproof.model.obligations import Spec
from slotproof.model.state import (
    MATCHED,
    NO_ROW,
    RUNNING,
    held,
    private,
    session,
    slot,
    slot_kv,
    turn,
    turn_kv,
    uncached,
)
from slotproof.model.transition import Transition, assign
from slotproof.model.transitions import TRANSITIONS


@dataclass(frozen=True)
class Exhibit:
    """One known bug of the spec."""

    name: str
    sentence: str
    make: Callable[[], Spec]

    @property
    def spec(self) -> Spec:
        return replace(self.make(), name=self.name)


def _with(*changed: Transition) -> Spec:
    return Spec(transitions={**TRANSITIONS, **{each.id: each for each in changed}})


def _figure(old: Expr, new: Expr) -> Spec:
    """A figure that the engine computes wrongly, wherever an invariant speaks of it."""
    invariants: Mapping[str, Invariant] = {
        id_: replace(
            each, conjuncts={name: swap(expr, old, new) for name, expr in each.conjuncts.items()}
        )
        for id_, each in INVARIANTS.items()
    }
    return Spec(invariants=invariants)


def swap(expr: Expr, old: Expr, new: Expr) -> Expr:
    """The expression with one node (that very one) replaced."""
    if expr is old:
        return new
    if isinstance(expr, App):
        return App(expr.op, tuple(swap(arg, old, new) for arg in expr.args))
    return expr


def _less(transition: Transition, *names: str) -> Transition:
    """The effect without some fields."""
    rest = {key: expr for key, expr in transition.effect.items() if key not in names}
    return replace(transition, effect=rest)


def _unguarded(transition: Transition, name: str) -> Transition:
    rest = {key: expr for key, expr in transition.guard.items() if key != name}
    return replace(transition, guard=rest)


def _only_if(condition: Expr, mem: Mem) -> Mem:
    """A move that forgets everything unless the condition holds."""

    def shrink(span: Interval) -> Interval:
        return span if span is EMPTY else Interval(span.lo, ite(condition, span.hi, span.lo))

    return Mem(mem.move, shrink(mem.full), shrink(mem.swa))


def _restore(**changed: object) -> Spec:
    return _with(replace(t.T_RESTORE, **changed))  # type: ignore[arg-type]  # by field name


_tail = t.T_RESTORE.memory[0]


def _from(span: Interval, lo: Expr) -> Interval:
    return Interval(lo, lo + span.length)


_EXHIBITS = (
    Exhibit(
        "22213-double-count",
        "a lent slot is counted as held and as uncached",
        lambda: _figure(held, ite(slot.holding, private(slot_kv), 0)),
    ),
    Exhibit(
        "22753-sticky-active",
        "lent is set by restore and not cleared when the turn is refused",
        lambda: _with(_less(t.T_REFUSE, "slot.lent")),
    ),
    Exhibit(
        "20070-unaligned-protected",
        "a restore takes all committed KV for the tree's",
        lambda: _restore(effect={**t.T_RESTORE.effect, "turn.Q": t.T_RESTORE.effect["turn.C"]}),
    ),
    Exhibit(
        "20476-restore-empties-slot",
        "restore empties the slot: a refused turn loses the KV, and its lock stays",
        lambda: _restore(effect={**t.T_RESTORE.effect, **t.no_slot}),
    ),
    Exhibit(
        "20557-empty-key",
        "with an empty match key nothing is freed",
        lambda: _restore(memory=(_only_if(t.reusable > 0, _tail),)),
    ),
    Exhibit(
        "22273-doomed-restores",
        "a doomed turn saves its one token over the slot",
        lambda: _with(
            replace(
                t.T_DOOM,
                effect={
                    **t.T_DOOM.effect,
                    **assign(
                        (slot_kv.C, ite(slot.holding, 1, 0)), (slot_kv.A, ite(slot.holding, 1, 0))
                    ),
                },
            )
        ),
    ),
    Exhibit(
        "22790a-abort-drops-row",
        "a mid-flight abort gives back the row only",
        lambda: _with(replace(t.T_ABORT, memory=(give_row(turn_kv.row != NO_ROW),))),
    ),
    Exhibit(
        "22790b-first-turn-abort",
        "an abort of the first turn finds no slot and releases nothing",
        lambda: _with(
            replace(t.T_ABORT, memory=tuple(_only_if(slot.holding, m) for m in t.T_ABORT.memory))
        ),
    ),
    Exhibit(
        "22790c-history-at-create",
        "the history is taken out when a turn is created, not when it finishes",
        lambda: _with(
            replace(t.T_SUBMIT, effect={**t.T_SUBMIT.effect, **assign((session.history, 0))})
        ),
    ),
    Exhibit(
        "22790d-two-in-flight",
        "nothing prevents a second turn in flight",
        lambda: _with(_unguarded(t.T_SUBMIT, "idle")),
    ),
    Exhibit(
        "21875a-close-releases-running",
        "a close releases the slot while a turn runs on it",
        lambda: _with(_unguarded(t.T_CLOSE, "idle")),
    ),
    Exhibit(
        "22862-no-free-tail",
        "what lies past the matched prefix is not freed",
        lambda: _restore(memory=()),
    ),
    Exhibit(
        "22862r-unaligned-free-tail",
        "a cut frees from the position on instead of from the next page boundary",
        lambda: _restore(
            memory=(
                Mem(
                    Move.FREE,
                    Interval(t.T_RESTORE.effect["slot.A"], _tail.full.hi),
                    Interval(t.T_RESTORE.effect["slot.A"], _tail.swa.hi),
                ),
            )
        ),
    ),
    Exhibit(
        "22897-no-trim",
        "a finishing speculative round leaves KV committed past the finished length",
        lambda: _with(
            replace(
                t.T_SAVE,
                memory=(),
                effect={
                    **t.T_SAVE.effect,
                    **assign((slot_kv.C, turn_kv.C), (slot_kv.A, turn_kv.A)),
                },
            )
        ),
    ),
    Exhibit(
        "22900-trim-forgets-cursor",
        "trim caps C and A and leaves the sliding-window cursor behind",
        lambda: _with(
            replace(t.T_SAVE, effect={**t.T_SAVE.effect, **assign((slot_kv.E, turn_kv.E))})
        ),
    ),
    Exhibit(
        "37502-parked-not-counted",
        "a turn between two chunks is in neither batch and is not counted",
        lambda: _figure(
            uncached, ite((turn.phase == MATCHED) | (turn.phase == RUNNING), private(turn_kv), 0)
        ),
    ),
    Exhibit(
        "26676-restore-does-nothing",
        "a restore reports success and hands over nothing",
        lambda: _with(_less(t.T_RESTORE, "turn.row", "turn.C", "turn.A", "turn.Q", "turn.E")),
    ),
    Exhibit(
        "42571-double-free",
        "one page is named twice in one call to free",
        lambda: _with(replace(t.T_DISCARD, memory=(t.T_DISCARD.memory[0], *t.T_DISCARD.memory))),
    ),
    Exhibit(
        "2954-double-unpin",
        "releasing a slot drops its tree lock twice",
        lambda: _with(replace(t.T_CLOSE, memory=(*t.T_CLOSE.memory, unlock(t.u, t.swa_u)))),
    ),
    Exhibit(
        "free-wrong-end",
        "free_tail gives back as many pages as it should, from the wrong end: sums stay balanced",
        lambda: _restore(
            memory=(
                Mem(
                    Move.FREE,
                    _from(_tail.full, slot_kv.Q),
                    _from(_tail.swa, ceil_page(t.T_RESTORE.effect["slot.E"])),
                ),
            )
        ),
    ),
)

EXHIBITS: dict[str, Exhibit] = {each.name: each for each in _EXHIBITS}
