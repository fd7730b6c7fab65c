"""The bug museum in the spec: each known bug as a spec with one error.

An exhibit has the name of the reference engine's mutant. The name begins with the number of the
pull request that fixed the bug. Some bugs exist only in the reference engine, because the spec is
too coarse: a check that never runs, a crash, reuse forbidden by a profile.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slotproof_model.spec import transitions as t
from slotproof_model.spec.expr import FALSE, App, Expr, ceil_page, floor_page, ite, maximum, minimum
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.memory import EMPTY, Interval, Mem, Move, free, give_row, unlock
from slotproof_model.spec.state import (
    MATCHED,
    NO_ROW,
    RUNNING,
    Kv,
    answered,
    config,
    held,
    known,
    private,
    req,
    session,
    slot,
    uncached,
)
from slotproof_model.spec.transition import Transition, assign
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec


@dataclass(frozen=True)
class Exhibit:
    """One known bug, as an error in the spec."""

    name: str
    sentence: str
    make: Callable[[], Spec]
    depth: int
    """Number of transitions in the shortest counterexample, as proved by `prove --mutant`."""
    page_size: int = 1
    """Smallest page size with a counterexample."""

    @property
    def spec(self) -> Spec:
        return replace(self.make(), name=self.name)


def changed(*transitions: Transition) -> Spec:
    """Return the spec with the given transitions in place of the right transitions."""
    return Spec(transitions={**TRANSITIONS, **{wrong.id: wrong for wrong in transitions}})


def figure(old: Expr, new: Expr) -> Spec:
    """Return the spec in which every invariant computes the count ``old`` as ``new``."""
    return Spec(
        invariants={
            id_: replace(inv, conjuncts={n: swap(e, old, new) for n, e in inv.conjuncts.items()})
            for id_, inv in INVARIANTS.items()
        }
    )


def swap(expr: Expr, old: Expr, new: Expr) -> Expr:
    """Return the expression with ``new`` in place of ``old``, comparing nodes by identity."""
    if expr is old:
        return new
    if isinstance(expr, App):
        return App(expr.op, tuple(swap(arg, old, new) for arg in expr.args))
    return expr


def less(transition: Transition, *names: str) -> Transition:
    """Return the transition with some fields left out of its effect."""
    rest = {key: expr for key, expr in transition.effect.items() if key not in names}
    return replace(transition, effect=rest)


def unguarded(transition: Transition, name: str) -> Transition:
    """Return the transition without one guard conjunct."""
    rest = {key: expr for key, expr in transition.guard.items() if key != name}
    return replace(transition, guard=rest)


def only_if(condition: Expr, mem: Mem) -> Mem:
    """Return a move that is empty unless the condition holds."""

    def shrink(span: Interval) -> Interval:
        return span if span is EMPTY else Interval(span.lo, ite(condition, span.hi, span.lo))

    return Mem(mem.move, shrink(mem.full), shrink(mem.swa))


def _restore(**fields: object) -> Spec:
    return changed(replace(t.T_RESTORE, **fields))  # type: ignore[arg-type]  # by field name


_tail, _kept = t.T_RESTORE.memory[0], t.T_RESTORE.effect["slot.A"]


def _from(span: Interval, lo: Expr) -> Interval:
    return Interval(lo, lo + span.length)


def merged_cut(kv: Kv, n: Expr) -> t.Cut:
    """Return the wrong cut of the merged `_free_tail` (#22862) and `_trim_overshoot` (#22900).
    Every length is capped at n, even the cursor, which may then lie inside a freed page."""
    gone = free(kv, ceil_page(n), ceil_page(kv.A))
    return t.Cut(n, gone, minimum(kv.C, n), minimum(kv.A, n), minimum(kv.E, n))


def _restored(left: t.Cut) -> Spec:
    effect = {**t.T_RESTORE.effect, **t.cut_lengths(slot, left), **t.cut_lengths(req, left)}
    return _restore(memory=(left.memory,), effect=effect)


def _merged_save() -> Spec:
    left = merged_cut(req, answered)
    effect = {**t.T_SAVE.effect, **t.cut_lengths(slot, left)}
    return changed(replace(t.T_SAVE, memory=(left.memory,), effect=effect))


def _one_less() -> Spec:
    n = minimum(slot.C, maximum(known - config.reserve - 1, 0))
    return _restored(t.cut(slot, ite(config.aligned_reuse, floor_page(n), n)))


_EXHIBITS = (
    Exhibit("22213-double-count", "a lent slot is counted as held and as uncached",
            lambda: figure(held, ite(slot.holding, private(slot), 0)), 6),
    Exhibit("22753-sticky-active",
            "lent is set by restore and not cleared when the turn is refused",
            lambda: changed(less(t.T_REFUSE, "slot.lent")), 7),
    Exhibit("20070-unaligned-protected", "a restore treats all committed KV as the tree's",
            lambda: _restore(effect={**t.T_RESTORE.effect, "req.Q": t.T_RESTORE.effect["req.C"]}),
            6),
    Exhibit("20476-restore-empties-slot",
            "restore empties the slot: a refused turn loses the KV, and the KV's lock stays",
            lambda: _restore(effect={**t.T_RESTORE.effect, **t.no_slot}), 6),
    Exhibit("20557-empty-key", "if the match key is empty, nothing is freed",
            lambda: _restore(memory=(only_if(t.reusable > 0, _tail),)), 6),
    Exhibit("22273-doomed-restores", "a doomed turn saves its one token over the slot's KV",
            lambda: changed(
                replace(
                    t.T_DOOM,
                    effect={
                        **t.T_DOOM.effect,
                        **assign((slot.C, ite(slot.holding, 1, 0)),
                                 (slot.A, ite(slot.holding, 1, 0)))})), 6),
    Exhibit("22790a-abort-drops-row", "an abort of a running turn gives back only the row",
            lambda: changed(replace(t.T_ABORT, memory=(give_row(req.row != NO_ROW),))), 5),
    Exhibit("22790b-first-turn-abort",
            "an abort of the first turn finds no slot and releases nothing",
            lambda: changed(
                replace(t.T_ABORT,
                        memory=tuple(only_if(slot.holding, m) for m in t.T_ABORT.memory))), 5),
    Exhibit("22790c-history-at-create",
            "the history is removed when a turn is created, not when it finishes",
            lambda: changed(
                replace(t.T_SUBMIT, effect={**t.T_SUBMIT.effect, **assign((session.history, 0))})),
            6),
    Exhibit("22790d-two-in-flight", "nothing prevents a second turn in flight",
            lambda: changed(unguarded(t.T_SUBMIT, "idle")), 3),
    Exhibit("22790-merged",
            "as merged: a stub, detached before the match, clears the live turn's in-flight flag",
            lambda: changed(replace(t.T_REJECT, effect=assign((session.inflight, FALSE)))), 3),
    Exhibit("21875a-close-releases-running", "a close releases the slot while a turn runs on it",
            lambda: changed(unguarded(t.T_CLOSE, "idle")), 3),
    Exhibit("22862-no-free-tail", "KV past the matched prefix is not freed",
            lambda: _restore(memory=()), 6),
    Exhibit("22862r-unaligned-free-tail",
            "a cut frees from its own position on, not from the next page boundary",
            lambda: _restore(
                memory=(Mem(Move.FREE, Interval(_kept, _tail.full.hi),
                            Interval(maximum(_kept, slot.E), _tail.swa.hi)),)),
            6, page_size=4),
    Exhibit("22862m-extra-minus-one",
            "the matched prefix is one token too short: the key already leaves out the last token",
            _one_less, 6),
    Exhibit("22862-merged",
            "as merged: free_tail caps the cursor inside a page that was freed already",
            lambda: _restored(merged_cut(slot, t.reusable)), 8, page_size=2),
    Exhibit("22897-no-trim",
            "when a speculative round finishes a request, KV past the finished length stays "
            "committed",
            lambda: changed(
                replace(t.T_SAVE, memory=(),
                        effect={**t.T_SAVE.effect, **assign((slot.C, req.C), (slot.A, req.A))})),
            5),
    Exhibit("22900-trim-forgets-cursor",
            "trim caps C and A but not the sliding-window cursor",
            lambda: changed(
                replace(t.T_SAVE, effect={**t.T_SAVE.effect, **assign((slot.E, req.E))})), 7),
    Exhibit("22900-merged",
            "as merged: trim caps the cursor inside a page that was freed already",
            _merged_save, 7, page_size=2),
    Exhibit("37502-parked-not-counted",
            "a turn parked between two prefill chunks is in no batch and is not counted",
            lambda: figure(uncached,
                           ite((req.phase == MATCHED) | (req.phase == RUNNING), private(req), 0)),
            4),
    Exhibit("26676-restore-does-nothing", "a restore reports success but gives the turn no KV",
            lambda: changed(less(t.T_RESTORE, "req.row", "req.C", "req.A", "req.Q", "req.E")), 6),
    Exhibit("42571-double-free", "a page is freed twice in a single call",
            lambda: changed(
                replace(t.T_DISCARD, memory=(t.T_DISCARD.memory[0], *t.T_DISCARD.memory))), 6),
    Exhibit("2954-double-unpin", "releasing a slot drops its tree lock twice",
            lambda: changed(replace(t.T_CLOSE, memory=(*t.T_CLOSE.memory, unlock(t.u, t.swa_u)))),
            7),
    Exhibit("free-wrong-end",
            "free_tail frees the right number of pages from the wrong end: sums stay balanced",
            lambda: _restore(
                memory=(Mem(Move.FREE, _from(_tail.full, slot.Q),
                            _from(_tail.swa, ceil_page(t.T_RESTORE.effect["slot.E"]))),)), 6),
    Exhibit("overlap-keeps-unknown",
            "a retracted turn leaves in its slot the KV of a token whose result is dropped",
            lambda: changed(
                replace(t.T_RETRACT, effect={**t.T_RETRACT.effect, **assign((slot.C, req.C))})), 6),
)  # fmt: skip

EXHIBITS: dict[str, Exhibit] = {exhibit.name: exhibit for exhibit in _EXHIBITS}
