"""Plausible wrong specs, each with the clause that refutes it.

The systematic mutants change one place each. A wrong spec changes all places of one error: guard,
memory, effect and allowance agree, as in an engine wrong on purpose. The refuting clause is pinned,
so a clause that loses its purpose is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from slotproof_model.bugs.museum import changed, figure, less, merged_cut, only_if, unguarded
from slotproof_model.spec import state, transitions as t
from slotproof_model.spec.allowances import unlocking
from slotproof_model.spec.expr import (
    FALSE,
    TRUE,
    Expr,
    Operand,
    Var,
    ceil_page,
    conj,
    floor_page,
    implies,
    is_aligned,
    ite,
    maximum,
    minimum,
)
from slotproof_model.spec.memory import (
    EMPTY,
    Interval,
    Mem,
    Move,
    alloc,
    count,
    free,
    give_row,
    lock,
    point,
    release,
    take_row,
    unlock,
)
from slotproof_model.spec.places import ONE_PAGE
from slotproof_model.spec.state import (
    MATCHED,
    NO_ROW,
    PARKED,
    RUNNING,
    TURN,
    WAITING,
    answered,
    config,
    frame,
    full,
    has_kv,
    is_plain,
    known,
    lengths,
    locks,
    locks_either,
    private,
    req,
    rows,
    session,
    slot,
    swa,
    this_step,
)
from slotproof_model.spec.transition import Allowance, Transition, assign, given
from slotproof_model.spec.whole import Spec


@dataclass(frozen=True)
class Wrong:
    """A spec with one error, in any number of places."""

    name: str
    sentence: str
    by: str
    """The refuting obligation: ``T-SAVE / INV-LOCK.slot``."""
    spec: Spec
    alone: bool = False
    """No other obligation refutes the spec, at any page size."""


def becomes(transition: Transition, *pairs: tuple[Var, Operand]) -> Transition:
    """Return the transition with other new values for some fields."""
    return replace(transition, effect={**transition.effect, **assign(*pairs)})


def moving(transition: Transition, *memory: Mem) -> Transition:
    """Return the transition with other memory moves."""
    return replace(transition, memory=memory)


def guarded(transition: Transition, **conjuncts: Expr) -> Transition:
    """Return the transition with these guard conjuncts, in place of any with the same name."""
    return replace(transition, guard={**transition.guard, **conjuncts})


def _wrong(name: str, sentence: str, by: str, what: Spec | Transition) -> Wrong:
    return Wrong(name, sentence, by, what if isinstance(what, Spec) else changed(what))


def _alone(name: str, sentence: str, by: str, what: Transition) -> Wrong:
    return Wrong(name, sentence, by, changed(what), alone=True)


def _breaks(name: str, sentence: str, by: str, rule: str) -> Wrong:
    """Return an engine whose choices break a rule, as the only error."""
    return Wrong(name, sentence, by, Spec(name=name, unruled=frozenset([rule])), alone=True)


def _restore_to(n: Expr) -> Transition:
    """Return a restore that reuses n positions, and requires what it needs."""
    left = t.cut(slot, n)
    window = maximum(0, left.m - config.window) >= left.E
    restore = guarded(moving(t.T_RESTORE, left.memory), prefix=n >= slot.Q, window=window)
    return replace(
        restore,
        effect={**restore.effect, **t.cut_lengths(slot, left), **t.cut_lengths(req, left)},
        allows=Allowance(t.T_RESTORE.allows.when & (n >= slot.Q) & window),
    )


def _restore_with_tail() -> Transition:
    """Return a restore that cuts as under keeps_slack, in every profile."""
    whole = t._restored.E == slot.E
    room = ite(whole, slot.A, t._restored.A)
    gone = free(slot, ceil_page(room), ceil_page(slot.A))
    return becomes(moving(t.T_RESTORE, gone), (slot.A, room), (req.A, room))


def _slack_stays(n: Expr) -> t.Cut:
    """Return a cut that frees nothing if slack is kept, also below the cursor."""
    left = t.cut(req, n)
    room = ite(config.keeps_slack, req.A, left.A)
    return left._replace(memory=free(req, ceil_page(room), ceil_page(req.A)), A=room)


def _aligned(n: Expr) -> Expr:
    return ite(config.aligned_reuse, floor_page(n), n)


def _upto(limit: Expr) -> Expr:
    return (t.q >= req.Q) & (t.q <= floor_page(limit)) & is_aligned(t.q)


_cursor = maximum(req.Q, req.E)
_below_window = floor_page(maximum(0, req.Q - config.window)) >= req.E
_no_further = req.Q + config.window + ONE_PAGE >= floor_page(req.C - config.window)
_one_less = minimum(slot.C, known - config.reserve) - 1

_last_of_window = Interval(maximum(_cursor, t.q - t.swa_dup), t.q)
_all_full = Interval(req.Q + t.dup, floor_page(req.A))
_all_swa = Interval(_cursor + t.swa_dup, floor_page(req.A))


def _finish(to_tree: Interval, swa_to_tree: Interval, *unsaid: str) -> Transition:
    """Return a finish that publishes these intervals and frees the memory past them. The event has
    no claims named in ``unsaid``."""
    first, _, _, *rest = t.T_PLAIN_FINISH.memory
    end = ceil_page(req.A)
    swa_rest = Interval(maximum(swa_to_tree.hi, req.E), end)
    tail = Mem(Move.FREE, Interval(to_tree.hi, end), swa_rest)
    published = Mem(Move.TO_TREE, to_tree, swa_to_tree)
    means = {name: expr for name, expr in t.T_PLAIN_FINISH.means.items() if name not in unsaid}
    return replace(moving(t.T_PLAIN_FINISH, first, published, tail, *rest), means=means)


_prefilled = req.prompt <= req.C
_complete = ite(~config.overlap & (t.T_RESTORE.effect["req.C"] >= known), 1, 0)
_final = assign((this_step.final, TRUE))
_both_lengths = tuple(zip(lengths(req), lengths(slot), strict=True))

_MEMORY = (
    # Reused KV
    _wrong("restore-forgets-prefix", "the turn on loan has no protected prefix",
           "T-RESTORE / INV-LOAN.prefix", becomes(t.T_RESTORE, (req.Q, 0))),
    _wrong("restore-copies-lock", "turn and slot both think the lock is theirs",
           "T-RESTORE / INV-LOCK.req", becomes(t.T_RESTORE, (req.locked, TRUE))),
    _wrong("restore-moves-lock", "the lock goes with the loan",
           "T-RESTORE / INV-LOCK.slot",
           becomes(t.T_RESTORE, (req.locked, TRUE), (slot.locked, FALSE))),
    _alone("restore-one-less",
           "one position of the prefix is recomputed without need (before #22862)",
           "T-RESTORE / INV-KEEP-STEP.restores", _restore_to(_aligned(_one_less))),
    _wrong("restore-tree-only", "a restore reuses only the tree's prefix and frees the rest",
           "T-RESTORE / INV-KEEP-STEP.restores", _restore_to(slot.Q)),
    _wrong("restore-all-known",
           "every known token is reused, with no token left to compute the logits",
           "T-RESTORE / INV-KEEP-STEP.reserve", _restore_to(_aligned(minimum(slot.C, known)))),
    _alone("restore-in-mid-page",
           "reuse stops in mid-page though the kernels of the profile can't (#32163)",
           "T-RESTORE / INV-ALIGN-STEP.reuse",
           # Without keeps_slack, pages past the reused KV would be left.
           _restore_to(ite(config.keeps_slack, minimum(slot.C, known - config.reserve),
                           t.reusable))),
    _alone("match-all-known", "a prompt that is all in the tree leaves no token to compute",
           "T-MATCH / INV-KEEP-STEP.reserve",
           guarded(t.T_MATCH,
                   m=(t.m >= 0) & is_aligned(t.m) & (t.m <= known) & (t.m <= config.width))),
    # Cuts
    _wrong("cut-frees-kept-page", "free_tail begins at the page boundary below the cut",
           "T-RESTORE / INV-SUM-FULL.equation",
           moving(t.T_RESTORE, free(slot, floor_page(t._restored.m), ceil_page(slot.A)))),
    _wrong("free-tail-cursor-in-mid-page",
           "free_tail as merged in #22862: the cursor goes down to a position inside a page",
           "T-RESTORE / INV-CURSOR.slot",
           replace(
               moving(t.T_RESTORE, free(slot, ceil_page(t.reusable), ceil_page(slot.A))),
               effect={
                   **t.T_RESTORE.effect, **t.cut_lengths(slot, merged_cut(slot, t.reusable)),
                   **t.cut_lengths(req, merged_cut(slot, t.reusable))})),
    _wrong("trim-cursor-in-mid-page",
           "trim as merged in #22900: the cursor goes down to a position inside a page",
           "T-SAVE / INV-CURSOR.slot",
           replace(moving(t.T_SAVE, free(req, ceil_page(answered), ceil_page(req.A))),
                   effect={**t.T_SAVE.effect, **t.cut_lengths(slot, merged_cut(req, answered))})),
    _wrong("save-trims-to-output",
           "a finished turn is trimmed to its sampled tokens, not to its answer",
           "T-SAVE / INV-COVER.idle",
           replace(moving(t.T_SAVE, t.cut(req, known).memory),
                   effect={**t.T_SAVE.effect, **t.cut_lengths(slot, t.cut(req, known))})),
    _wrong("save-trims-allocated-only", "trim caps A and leaves C",
           "T-SAVE / INV-ORDER.slot", becomes(t.T_SAVE, (slot.C, req.C))),
    _wrong("save-keeps-slack-below-cursor",
           "a trim under keeps_slack moves the cursor down over pages already freed",
           "T-SAVE / INV-SUM-SWA.equation",
           replace(moving(t.T_SAVE, _slack_stays(answered).memory),
                   effect={**t.T_SAVE.effect, **t.cut_lengths(slot, _slack_stays(answered))})),
    _wrong("save-forgets-output", "a finished turn leaves only the KV of its prompt",
           "T-SAVE / INV-KEEP-STEP.ends",
           replace(moving(t.T_SAVE, t.cut(req, req.prompt).memory),
                   guard={**t.T_SAVE.guard, "prompt": req.prompt >= req.Q},
                   effect={**t.T_SAVE.effect, **t.cut_lengths(slot, t.cut(req, req.prompt))})),
    _wrong("save-forgets-lock", "the first save takes the row and not the lock",
           "T-SAVE / INV-LOCK.slot", becomes(t.T_SAVE, (slot.locked, slot.holding))),
    _wrong("retract-forgets-slack", "a retract treats memory past C as free, and frees nothing",
           "T-RETRACT / INV-SUM-FULL.equation", becomes(t.T_RETRACT, (slot.A, req.C))),
    _alone("retract-cuts-to-prompt", "a retract that preserves KV frees the decoded part",
           "T-RETRACT / INV-KEEP-STEP.runs",
           replace(moving(t.T_RETRACT, t.cut(req, req.prompt).memory),
                   guard={**t.T_RETRACT.guard, "prompt": req.prompt >= req.Q},
                   effect={**t.T_RETRACT.effect, **t.cut_lengths(slot, t.cut(req, req.prompt))},
                   allows=Allowance(t.T_RETRACT.allows.when & (req.prompt >= req.Q)))),
    _alone("retract-counts-slack",
           "a retract treats drafts as committed, as far as tokens are known",
           "T-RETRACT / INV-COVER-STEP.computes",
           becomes(t.T_RETRACT, (slot.C, minimum(req.A, known)))),
    _wrong("save-counts-slack", "a save treats drafts as committed up to the finished length",
           "T-SAVE / INV-COVER-STEP.computes", becomes(t.T_SAVE, (slot.C, t._trimmed.A))),
    _wrong("partial-cut-to-prompt", "a partial slot is cut to the aborted prompt",
           "T-ABORT-PARTIAL / INV-COVER.idle",
           replace(
               moving(t.T_ABORT_PARTIAL, t.cut(slot, req.prompt).memory),
               effect={
                   **t.T_ABORT_PARTIAL.effect, **t.cut_lengths(slot, t.cut(slot, req.prompt))})),
    # Aborts and releases
    _wrong("abort-leaves-empty-slot", "an abort frees everything and leaves a slot without KV",
           "T-ABORT / INV-ROWS.present", becomes(t.T_ABORT, (slot.holding, TRUE))),
    _wrong("abort-frees-growth", "an abort frees the turn's new memory and leaks the slot's",
           "T-ABORT / INV-SUM-FULL.equation",
           moving(t.T_ABORT, free(req, maximum(ceil_page(slot.A), req.Q), ceil_page(req.A)),
                  *t.T_ABORT.memory[1:])),
    _wrong("first-abort-leaves-lock", "the abort of a first turn does not know of its lock",
           "T-ABORT / INV-LOCK.bounded",
           moving(t.T_ABORT, t.T_ABORT.memory[0], only_if(slot.holding, t.T_ABORT.memory[1]),
                  t.T_ABORT.memory[2])),
    _wrong("refuse-leaves-lock", "a refused request does not drop its lock",
           "T-REFUSE / INV-LOCK.req", less(moving(t.T_REFUSE), "req.locked")),
    _alone("refuse-releases-slot",
           "a refused turn loses its slot, which is released correctly",
           "T-REFUSE / INV-KEEP-STEP.refused",
           replace(guarded(moving(t.T_REFUSE, *t.everything), **t.dropped(locks_either)),
                   effect={**t.back_to_waiting, **t.no_slot},
                   allows=unlocking(req.phase == MATCHED, locks_either))),
    _wrong("discard-while-lent", "memory pressure takes the slot of a running turn",
           "T-DISCARD / INV-SUM-FULL.equation", unguarded(t.T_DISCARD, "not_lent")),
    # Rounds
    _wrong("extend-allocates-from-committed",
           "a prefill allocates from C on and overwrites the row (before #22862)",
           "T-EXTEND / INV-SUM-FULL.equation",
           moving(t.T_EXTEND, t.T_EXTEND.memory[0], alloc(ceil_page(req.C), ceil_page(t.t)))),
    _wrong("decode-page-late",
           "a decoding round allocates a page after filling it, not before",
           "T-DECODE / INV-SUM-FULL.equation",
           moving(t.T_DECODE, alloc(floor_page(req.A), floor_page(req.A + t.d)))),
    _wrong("park-gives-row", "a request between two chunks gives its row back",
           "T-PARK / INV-ROWS.equation", moving(t.T_PARK, give_row(TRUE))),
    _wrong("park-changes-row", "a request between two chunks gets another row",
           "T-PARK [rows] / INV-ROW.one", becomes(t.T_PARK, (req.row, ite(slot.lent, req.row, 0)))),
    _alone("park-exchanges-row",
           "a request between two chunks frees its row and takes another free row",
           "T-PARK / INV-ROWS-STEP.req",
           replace(
               becomes(t.T_PARK, (req.row, ite(slot.lent, req.row, t.row))),
               guard={**t.T_PARK.guard, "row": t.row >= 0}, params=(t.row,),
               memory=(give_row(~slot.lent), take_row(~slot.lent)),
               allows=Allowance(conj(t.T_PARK.allows.when, given(t.row) >= 0, rows.free >= 1)))),
    _wrong("cursor-frees-prefix", "the cursor frees pages of the tree's prefix",
           "T-SWA-ADVANCE / INV-SUM-SWA.equation",
           moving(t.T_SWA_ADVANCE, Mem(Move.FREE, EMPTY, Interval(req.E, t.e)))),
    _wrong("cursor-from-allocated", "the window is measured from A, drafts included",
           "T-SWA-ADVANCE / INV-WINDOW.req",
           guarded(
               t.T_SWA_ADVANCE,
               e=(t.e > req.E) & is_aligned(t.e) & (t.e <= floor_page(req.A - config.window)))),
    _alone("cursor-goes-back", "a retract moves the cursor back over the tree's part of the window",
           "T-RETRACT / INV-CURSOR-STEP.back",
           becomes(t.T_RETRACT, (slot.E, ite(_below_window, 0, req.E)))),
    _alone("cursor-moves-at-save", "a finished turn's cursor moves to the end of the tree's prefix",
           "T-SAVE / INV-CURSOR-STEP.up",
           becomes(t.T_SAVE,
                   (slot.E, ite(config.swa & (req.E < req.Q) & _no_further, req.Q,
                                t.T_SAVE.effect["slot.E"])))),
    # The tree
    _wrong("insert-frees-last", "an insert takes the first tokens for new and frees the last",
           "T-INSERT [full] / MEANS.full",
           moving(
               t.T_INSERT,
               Mem(Move.FREE, Interval(t.q - t.dup, t.q), Interval(_cursor, _cursor + t.swa_dup)),
               Mem(Move.TO_TREE, Interval(req.Q, t.q - t.dup), Interval(_cursor + t.swa_dup, t.q)),
               *t.T_INSERT.memory[2:])),
    _wrong("insert-frees-tree", "an insert retains its own pages and frees the tree's copies",
           "T-INSERT / INV-SUM-FULL.nonnegative",
           moving(t.T_INSERT, Mem(Move.EVICT, count(t.dup), count(t.swa_dup)),
                  Mem(Move.TO_TREE, Interval(req.Q, t.q), Interval(_cursor, t.q)),
                  *t.T_INSERT.memory[2:])),
    _wrong("insert-drafts", "an insert publishes allocated but uncommitted KV",
           "T-INSERT / INV-PUBLISH-STEP.committed",
           guarded(t.T_INSERT, q=_upto(minimum(req.A, known)))),
    _wrong("insert-takes-no-swa-lock",
           "an insert drops its lock in the second pool without a new lock",
           "T-INSERT / MEANS.swa_locked",
           moving(t.T_INSERT, *t.T_INSERT.memory[:2], lock(t.locked, 0), t.T_INSERT.memory[3])),
    _alone("insert-on-loan", "a turn on loan inserts although the profile forbids it",
           "T-INSERT / MEANS.profile", unguarded(t.T_INSERT, "not_lent")),
    _wrong("lent-insert-leaves-slot", "a turn on loan inserts, and only its own Q moves",
           "T-INSERT / INV-LOAN.prefix", less(t.T_INSERT, *(var.name for var in lengths(slot)))),
    _wrong("lent-insert-moves-prefix-alone",
           "a turn on loan inserts, and of the slot only Q moves: past its own C",
           "T-INSERT / INV-ORDER.slot", less(t.T_INSERT, "slot.C", "slot.A", "slot.E")),
    _alone("lent-insert-takes-slot", "every turn's insert writes the slot, even without a slot",
           "T-INSERT / INV-ABSENT.slot",
           becomes(t.T_INSERT,
                   *((kept, ite(is_plain, kept, t.q if kept is slot.Q else of))
                     for of, kept in _both_lengths))),
    _alone("lent-insert-counts-the-lock-twice",
           "an insert on loan takes a lock for the turn, beside the slot's lock",
           "T-INSERT / INV-LOCK.req", becomes(t.T_INSERT, (req.locked, TRUE))),
    _wrong("finish-publishes-drafts",
           "a request that ends publishes allocated but uncommitted KV",
           "T-PLAIN-FINISH / INV-PUBLISH-STEP.committed",
           guarded(t.T_PLAIN_FINISH, q=_upto(minimum(req.A, known)))),
    _alone("finish-publishes-swa-drafts",
           "a request that ends publishes all allocated KV of the second pool, and of no other",
           "T-PLAIN-FINISH / INV-PUBLISH-STEP.swa_committed",
           _finish(t.T_PLAIN_FINISH.memory[1].full, _all_swa, "swa", "swa_dup")),
    _alone("finish-publishes-full-drafts",
           "a request that ends publishes all allocated KV of the first pool, and of no other",
           "T-PLAIN-FINISH / INV-PUBLISH-STEP.committed",
           _finish(_all_full, t.T_PLAIN_FINISH.memory[1].swa, "full", "dup")),
    _alone("insert-frees-last-of-window",
           "an insert frees its copies at the end of the window, not at the beginning",
           "T-INSERT [swa] / MEANS.swa",
           moving(
               t.T_INSERT, Mem(Move.FREE, t.T_INSERT.memory[0].full, _last_of_window),
               Mem(Move.TO_TREE, t.T_INSERT.memory[1].full,
                   Interval(_cursor, maximum(_cursor, t.q - t.swa_dup))),
               Mem(Move.POINT, t.T_INSERT.memory[2].full, _last_of_window),
               *t.T_INSERT.memory[3:])),
    _wrong("finish-publishes-rejected",
           "a request that ends publishes all allocated KV, rejected drafts included",
           "T-PLAIN-FINISH / INV-PUBLISH-STEP.committed",
           guarded(t.T_PLAIN_FINISH, q=_upto(req.A))),
    _wrong("abort-publishes-drafts", "an abort publishes allocated but uncommitted KV",
           "T-ABORT-PUBLISH / INV-PUBLISH-STEP.committed",
           guarded(t.T_ABORT_PUBLISH, q=_upto(minimum(req.A, known)))),
    _wrong("publishes-unknown",
           "an abort publishes the KV of a token that is not yet known (overlap)",
           "T-ABORT-PUBLISH / INV-PUBLISH-STEP.committed",
           guarded(t.T_ABORT_PUBLISH, q=_upto(req.C))),
    _wrong("finish-leaves-lock", "a request that ends does not drop its lock",
           "T-PLAIN-FINISH / INV-LOCK.bounded",
           moving(t.T_PLAIN_FINISH,
                  *(m for m in t.T_PLAIN_FINISH.memory if m.move != Move.UNLOCK))),
    _wrong("evict-locked", "an eviction unlocks the evicted pages",
           "T-EVICT / INV-LOCK-STEP.falls",
           moving(t.T_EVICT, unlock(t.n, t.swa_n), *t.T_EVICT.memory)),
    # Figures
    _wrong("held-without-rounding", "held is A - Q, not whole pages",
           "T-REFUSE / INV-SUM-FULL.equation",
           figure(state.held, ite(slot.holding & ~slot.lent, slot.A - slot.Q, 0))),
    _wrong("swa-held-with-prefix", "held in the second pool does not know of the tree's prefix",
           "T-CLOSE / INV-SUM-SWA.equation",
           figure(
               state.swa_held,
               ite(slot.holding & ~slot.lent, ite(config.swa, ceil_page(slot.A) - slot.E, 0), 0))),
    _wrong("uncached-without-loans", "KV on loan is in neither figure",
           "T-RESTORE / INV-SUM-FULL.equation",
           figure(state.uncached, ite(has_kv & ~slot.lent, private(req), 0))),
    _wrong("row-on-loan-twice", "the row of a slot on loan counts for the turn as well",
           "T-RESTORE / INV-ROWS.equation",
           figure(state.req_rows, ite(has_kv & (req.row != NO_ROW), 1, 0))),
)  # fmt: skip
"""Errors in lengths, memory, the tree and counts."""

_LOCKS = (
    # The lock itself
    _breaks("evict-pinned", "an eviction takes a page locked by a running request",
            "T-EVICT [full] / INV-PIN.tree", "unpinned"),
    _breaks("evict-pinned-window", "the same in the sliding-window pool alone",
            "T-EVICT [swa] / INV-PIN.tree", "swa.unpinned"),
    _breaks("close-keeps-lock", "a close gives everything back but the lock on some page",
            "T-CLOSE [full] / INV-PIN.mine", "released"),
    _breaks("match-locks-part", "a match locks only a part of its prefix",
            "T-MATCH [full] / INV-PIN.full_covers", "full.covers"),
    _breaks("match-locks-part-of-window",
            "a match locks a part of the window in the sliding-window pool",
            "T-MATCH [swa] / INV-PIN.swa_covers", "swa.covers"),
    _alone("match-without-window",
           "a match does not look whether the window of its prefix is in the sliding-window pool",
           "T-MATCH / INV-LOCK-STEP.window", unguarded(t.T_MATCH, "window")),
    # Meaning of u
    _breaks("unlock-counts-shared",
            "an unlock counts pages still locked by another, or not all that lose their last lock",
            "T-CLOSE [full] / INV-PIN.full", "full.last_pin"),
    _breaks("unlock-counts-shared-window", "the same in the sliding-window pool",
            "T-CLOSE [swa] / INV-PIN.swa", "swa.last_pin"),
    _breaks("lock-counts-shared", "a match counts pages that were already locked",
            "T-MATCH [full] / INV-PIN.full", "full.first_pin"),
    _alone("unlock-if-none-is-shared",
           "a close assumes that the prefixes locked by other actors do not overlap",
           "T-CLOSE [unlock] / EXISTS.u_others",
           replace(
               guarded(t.T_CLOSE, u_others=full.protected - t.u == frame.lock_sum),
               allows=replace(
                   t.T_CLOSE.allows,
                   when=t.T_CLOSE.allows.when & (Var("given.others") == frame.lock_sum)))),
    _breaks("unlock-more-than-all",
            "an unlock compensates for one page with more tokens of other pages than exist",
            "T-CLOSE [full] / INV-PIN.counted", "unlocked_beside"),
    # Rows
    _breaks("row-in-use", "a request gets a row that is in use",
            "T-EXTEND [rows] / INV-ROW.counted", "fresh"),
    # Rows and pages
    _breaks("page-at-two-positions", "an allocation gives one page to two positions of a row",
            "T-EXTEND [full] / INV-PLACE.full_injective", "full.named"),
    _breaks("window-page-at-two-positions", "the same in the sliding-window pool",
            "T-EXTEND [swa] / INV-PLACE.swa_injective", "swa.named"),
    _breaks("page-not-in-the-row", "an allocation takes a page and writes another into the row",
            "T-EXTEND [full] / INV-PLACE.function", "chosen"),
    _breaks("prefix-without-page", "a match uses pages that the tree does not have",
            "T-MATCH [full] / INV-BACKED.full_protected", "full.found"),
    _breaks("window-without-page",
            "a match takes a prefix whose window was evicted from the sliding-window pool",
            "T-MATCH [swa] / INV-BACKED.swa_protected", "swa.found"),
    _breaks("token-without-page", "a decoding round computes a token without a page",
            "T-DECODE [full] / INV-BACKED.full_private", "full.found"),
    _breaks("token-without-window-page", "the same in the sliding-window pool",
            "T-DECODE [swa] / INV-BACKED.swa_private", "swa.found"),
)  # fmt: skip
"""Errors in a rule of the page layer or of the rows: wrong choices, but right figures."""

_LIFE = (
    # Turns in flight
    _wrong("stub-clears-in-flight", "a rejected turn clears the running turn's in-flight flag",
           "T-REJECT / INV-INFLIGHT.iff", becomes(t.T_REJECT, (session.inflight, FALSE))),
    _wrong("reject-displaces-queued", "a second turn displaces a waiting turn",
           "T-REJECT / INV-INFLIGHT-STEP.keeps",
           becomes(
               t.T_REJECT,
               (req.prompt, ite(req.phase == WAITING, session.history + t.prompt, req.prompt)))),
    _wrong("reject-aborts-running", "a second turn aborts the first, which is released correctly",
           "T-REJECT / MEANS.stays",
           replace(guarded(t.T_REJECT, **t._abort_guard), params=(t.prompt, *t.UNLOCK),
                   memory=t.everything, effect=t._abort_effect, allows=t._abort_allowed)),
    _wrong("retract-ends-flight", "a retracted turn is not in flight: the session takes another",
           "T-RETRACT / INV-INFLIGHT.iff", becomes(t.T_RETRACT, (session.inflight, FALSE))),
    _wrong("defer-ends-flight", "a deferred close loses its turn",
           "T-CLOSE-DEFER / INV-INFLIGHT.iff", becomes(t.T_CLOSE_DEFER, (session.inflight, FALSE))),
    _alone("save-forgets-close",
           "a finished turn clears the deferred close: the session stays open",
           "T-SAVE / INV-INFLIGHT-STEP.remembers", becomes(t.T_SAVE, (session.closing, FALSE))),
    # A session ends
    _alone("close-drops-running",
           "a close ends a running turn, with all memory released",
           "T-CLOSE / INV-INFLIGHT-STEP.ends",
           replace(
               t.T_CLOSE,
               guard={
                   "open": session.open & ~session.closing, "busy": has_kv,
                   "own": implies(slot.holding, slot.lent), **t.dropped(locks_either)},
               memory=t.everything, effect={**t._abort_effect, **t.session_over},
               reports={**t.T_CLOSE.reports, **_final},
               allows=unlocking(session.open & ~session.closing & has_kv, locks_either))),
    _wrong("reap-drops-queued",
           "a session times out while its turn waits, with all memory released",
           "T-REAP / INV-INFLIGHT-STEP.ends",
           replace(guarded(t.T_REAP, idle=~session.inflight | (req.phase == WAITING)),
                   effect={**t.T_REAP.effect, **t.turn_over})),
    _wrong("discard-ends-session", "a session ends along with its slot, although a turn may wait",
           "T-DISCARD / INV-ABSENT.session",
           becomes(t.T_DISCARD, (session.open, FALSE), (session.history, 0))),
    _alone("discard-ends-idle-session", "an idle session ends when memory is short",
           "T-DISCARD / MEANS.stays",
           becomes(t.T_DISCARD, (session.open, session.open & session.inflight),
                   (session.closing, session.closing & session.inflight),
                   (session.history, ite(session.inflight, session.history, 0)))),
    # History
    _wrong("abort-keeps-turn", "an aborted turn stays in the history (#22790)",
           "T-ABORT / INV-HISTORY.only_at_finish",
           becomes(t.T_ABORT, (session.history, ite(_prefilled, known, session.history)))),
    _wrong("abort-keeps-prompt", "an aborted turn's prompt stays in the history",
           "T-ABORT / INV-HISTORY.only_at_finish",
           becomes(t.T_ABORT, (session.history, ite(_prefilled, req.prompt, session.history)))),
    _wrong("save-without-history", "a finished turn is not in the history",
           "T-SAVE / INV-COVER.idle", less(t.T_SAVE, "session.history")),
    _wrong("submit-without-history", "a prompt is the new tokens alone",
           "T-SUBMIT / INV-TOKENS.prompt", becomes(t.T_SUBMIT, (req.prompt, t.new))),
    _alone("open-with-history", "a session opens with a history",
           "T-OPEN / INV-HISTORY.begins", becomes(t.T_OPEN, (session.history, 1))),
    _wrong("wipe-forgets-history", "a turn that releases its KV also clears the history",
           "T-RETRACT-WIPE / INV-HISTORY.only_at_finish",
           becomes(t.T_RETRACT_WIPE, (session.history, 0))),
    _alone("wipe-remembers-prompt",
           "a turn that releases its KV before its first token leaves its prompt in the history",
           "T-RETRACT-WIPE / INV-HISTORY.only_at_finish",
           becomes(t.T_RETRACT_WIPE,
                   (session.history, ite(req.told == 0, req.prompt, session.history)))),
    _wrong("discard-forgets-history", "an idle session loses its history with its slot",
           "T-DISCARD / INV-HISTORY.only_at_finish",
           becomes(t.T_DISCARD, (session.history, ite(session.inflight, session.history, 0)))),
    # Queued turns
    _wrong("doom-releases-slot", "a doomed turn releases the slot, rightly",
           "T-DOOM / INV-QUEUED-STEP.slot",
           replace(t.T_DOOM, params=(t.prompt, *t.UNLOCK),
                   guard={**t.T_DOOM.guard, **t.dropped(locks(slot))},
                   memory=release(slot, slot.holding, *t.UNLOCK),
                   effect={**t.T_DOOM.effect, **t.no_slot})),
    # The life of a request
    _alone("wipe-ends-turn", "a retracted turn does not come back",
           "T-RETRACT-WIPE / MEANS.waits",
           replace(t.T_RETRACT_WIPE, effect={**t.no_slot, **t.turn_over}, reports=_final)),
    _wrong("abort-requeues", "an aborted turn waits for its next try",
           "T-ABORT / MEANS.ends", replace(t.T_ABORT, effect={**t.no_slot, **t.back_to_waiting})),
    _alone("retract-merges-output",
           "a retracted request without a session takes its output into the prompt",
           "T-PLAIN-RETRACT / INV-LIFE-STEP.prompt",
           becomes(t.T_PLAIN_RETRACT, (req.prompt, known))),
    _alone("submit-matched", "a request is matched as soon as it is submitted",
           "T-PLAIN-SUBMIT / INV-LIFE-STEP.begins",
           moving(becomes(t.T_PLAIN_SUBMIT, (req.phase, MATCHED), (req.locked, TRUE)),
                  point(0, 0))),
    _wrong("open-adopts", "an opening session takes a request without a session as its first turn",
           "T-OPEN / INV-LIFE-STEP.kind",
           becomes(guarded(t.T_OPEN, closed=~session.open),
                   (req.kind, ite(is_plain, TURN, req.kind)), (session.inflight, is_plain))),
    _alone("park-unmatched", "a turn without computed KV becomes matched again, not parked",
           "T-PARK / INV-LIFE-STEP.matched",
           becomes(
               t.T_PARK,
               (req.phase,
                ite(slot.lent & conj(*(a == b for a, b in _both_lengths)), MATCHED, PARKED)))),
    _alone("match-runs", "a request with tokens to compute takes its row and runs at the match",
           "T-MATCH / INV-LIFE-STEP.runs",
           replace(
               becomes(moving(guarded(t.T_MATCH, tokens=t.m < known), *t.T_MATCH.memory,
                              take_row(TRUE)), (req.phase, RUNNING), (req.row, 0)),
               allows=replace(
                   t.T_MATCH.allows,
                   when=conj(t.T_MATCH.allows.when, rows.free >= 1, given(t.m) < known)))),
    _wrong("restore-runs", "a turn on loan runs at once",
           "T-RESTORE / INV-LIFE-STEP.runs", becomes(t.T_RESTORE, (req.phase, RUNNING))),
    _wrong("extend-parks", "a chunk before the last parks the request in the same step",
           "T-EXTEND / INV-COVER-STEP.computes",
           becomes(t.T_EXTEND, (req.phase, ite(t.t < known, PARKED, RUNNING)))),
    _alone("extend-parks-idle", "an empty chunk parks a matched request",
           "T-EXTEND / INV-LIFE-STEP.parked",
           becomes(t.T_EXTEND, (req.phase, ite((t.t == req.C) & (t.t < known), PARKED, RUNNING)))),
    _alone("doom-forgets-committed",
           "a doomed turn leaves the slot its memory without any committed KV",
           "T-DOOM / INV-KEEP-STEP.ends", becomes(t.T_DOOM, (slot.C, slot.Q))),
    # Known and computed tokens
    _wrong("retract-forgets-output", "a retracted turn starts its output again",
           "T-RETRACT / INV-COVER-STEP.keeps", becomes(t.T_RETRACT, (req.output, 0))),
    _wrong("decode-tells-one", "a speculative round commits k tokens and reports one token",
           "T-DECODE / INV-COVER.req",
           becomes(t.T_DECODE, (req.output, req.output + minimum(t.k, 1)))),
    _alone("result-tells-fewer",
           "a speculative result counts the KV of one token too many (overlap)",
           "T-RESULT / INV-COVER-STEP.rounds",
           replace(
               guarded(t.T_RESULT,
                       sampled=(t.sampled >= maximum(1, t.k - 1))
                       & (known + t.sampled <= req.C + t.k + 1),
                       read=(req.C + t.k <= known + t.sampled) & (known - 1 <= req.C)),
               allows=Allowance(
                   t.T_RESULT.allows.when & (req.C + given(t.k) <= known + given(t.sampled))
                   & (known - 1 <= req.C)))),
    _wrong("prefill-samples-early", "a token is sampled when a chunk is done, not the prompt",
           "T-EXTEND / INV-COVER-STEP.samples",
           guarded(t.T_EXTEND, sampled=(t.sampled >= 0) & (t.sampled <= 1))),
    _wrong("prefill-samples-two", "a prefill samples two tokens",
           "T-EXTEND / INV-COVER-STEP.samples",
           guarded(
               t.T_EXTEND,
               sampled=(t.sampled >= 0) & (t.sampled <= 2)
               & implies(t.sampled >= 1, t.t == known))),
    _wrong("prefill-past-row", "a prefill does not look at the row's width",
           "T-EXTEND / INV-ORDER.req",
           guarded(t.T_EXTEND, ahead=(t.ahead >= 0) & (t.ahead <= config.slack))),
    _alone("prefill-computes-sampled", "a prefill computes KV of its own sampled token",
           "T-EXTEND / INV-COVER-STEP.prefills",
           replace(
               guarded(
                   t.T_EXTEND,
                   t=(t.t >= req.C) & (t.t <= known + t.sampled) & (t.t <= config.width),
                   sampled=(t.sampled >= 0) & (t.sampled <= 1)
                   & implies(t.sampled == 1, t.t >= known)),
               reports=assign((this_step.at, minimum(t.t, known))))),
    _alone("restore-samples",
           "a completely reused prompt samples a token without a computation",
           "T-RESTORE / INV-COVER-STEP.tells",
           replace(
               becomes(t.T_RESTORE, (req.output, req.output + _complete),
                       (req.told, req.told + _complete)),
               reports=assign((this_step.at, known)))),
    _wrong("insert-samples", "an insert samples a token that has KV already",
           "T-INSERT / INV-COVER-STEP.tells",
           becomes(t.T_INSERT, (req.output, req.output + ite(known <= req.C, 1, 0)))),
    _wrong("cursor-commits-slack",
           "a step of the cursor commits KV of a known token without a round",
           "T-SWA-ADVANCE / INV-COVER-STEP.rounds",
           becomes(t.T_SWA_ADVANCE,
                   (req.C, ite((known - 1 == req.C) & (req.A > req.C), req.C + 1, req.C)))),
)  # fmt: skip
"""Errors in sessions, requests and histories."""

_nowhere = replace(
    guarded(t.T_RESULT, at=t.at >= 0),
    means={name: expr for name, expr in t.T_RESULT.means.items() if name != "at"},
    allows=replace(t.T_RESULT.allows, when=conj(t.T_RESULT.allows.when, given(t.at) >= 0)),
)
_ANSWERS = (
    # Results and their rounds
    _alone("result-of-no-position", "the result of an old round counts as the next one",
           "T-RESULT / INV-TOLD-STEP.next", _nowhere),
    _wrong("decode-of-no-position", "a round's tokens are appended wherever the round began",
           "T-DECODE / INV-TOLD-STEP.next", unguarded(t.T_DECODE, "at")),
    _wrong("prefill-tells-under-overlap",
           "a prefill reports its token at once, and a result reports it again (ADR 9)",
           "T-EXTEND / INV-ROUND-STEP.results", unguarded(t.T_EXTEND, "overlap")),
    _wrong("result-of-no-round", "a result arrives although no round is outstanding",
           "T-RESULT / INV-ROUNDS.counted",
           guarded(unguarded(t.T_RESULT, "rounds"),
                   ahead=req.C + t.k + 2 <= known + t.sampled + maximum(1, req.rounds))),
    _wrong("result-stays", "a processed result stays in the queue and is processed again",
           "T-RESULT / INV-ROUND-STEP.results", less(t.T_RESULT, "req.rounds")),
    _wrong("retract-keeps-rounds", "a turn that keeps its KV still takes results of its old rounds",
           "T-RETRACT / INV-ROUNDS.running", less(t.T_RETRACT, "req.rounds")),
    _alone("match-keeps-rounds", "a request that runs again still takes results of its old rounds",
           "T-MATCH / INV-ROUNDS.running", less(t.T_MATCH, "req.rounds")),
    _wrong("launch-too-deep", "more rounds are launched than there are batches under way",
           "T-LAUNCH / INV-ROUNDS.counted", unguarded(t.T_LAUNCH, "rounds")),
    _wrong("late-result-stays", "a result that arrives late stays in the queue",
           "T-LATE-RESULT / INV-ROUND-STEP.results", less(t.T_LATE_RESULT, "req.rounds")),
    _wrong("late-result-untold", "the client is not told the tokens of a late result",
           "T-LATE-RESULT / INV-TOKENS.past_end", less(t.T_LATE_RESULT, "req.told")),
    _wrong("late-result-of-nothing", "a token becomes known while a request waits, without a round",
           "T-LATE-RESULT / INV-COVER-STEP.tells", unguarded(t.T_LATE_RESULT, "rounds")),
    _wrong("late-result-elsewhere", "a late result repeats a known token",
           "T-LATE-RESULT / INV-TOLD-STEP.next",
           replace(t.T_LATE_RESULT, reports=assign((this_step.at, known - 1)))),
    _wrong("late-finish-of-nothing", "a request that never ran finishes while it waits",
           "T-LATE-FINISH / INV-LIFE-STEP.finishes", unguarded(t.T_LATE_FINISH, "output")),
    _wrong("late-finish-forgets", "a turn that finishes while it waits leaves no history",
           "T-LATE-FINISH / INV-HISTORY.complete", less(t.T_LATE_FINISH, "session.history")),
    _wrong("late-abort-told", "the abort of a retracted turn leaves its answer in the history",
           "T-ABORT-WAITING / INV-HISTORY.late",
           becomes(guarded(t.T_ABORT_WAITING, late=config.overlap & ~config.retract_keeps
                           & (req.output > 0) & ~slot.holding), (session.history, answered))),
    _wrong("wipe-drops-rounds", "a retraction that wipes forgets the rounds under way",
           "T-RETRACT-WIPE / INV-ROUND-STEP.wiped", becomes(t.T_RETRACT_WIPE, (req.rounds, 0))),
    _wrong("abort-finishes", "the abort of a matched turn counts as its finish",
           "T-ABORT / INV-HISTORY.complete",
           replace(t.T_ABORT, reports={**t.T_ABORT.reports,
                                       **assign((this_step.finishes, TRUE))})),
    _alone("plain-abort-finishes", "the abort of a waiting request counts as its finish",
           "T-PLAIN-ABORT / INV-LIFE-STEP.finishes",
           replace(t.T_PLAIN_ABORT, reports={**t.T_PLAIN_ABORT.reports,
                                             **assign((this_step.finishes, TRUE))})),
    _wrong("prefill-of-old-rounds", "a prefill does not count as a round of its own",
           "T-EXTEND / INV-ROUND-STEP.prefills", becomes(t.T_EXTEND, (req.rounds, 0))),
    _wrong("launch-uncounted", "a round is launched and nothing waits for its result",
           "T-LAUNCH / INV-ROUND-STEP.ahead", less(t.T_LAUNCH, "req.rounds")),
    _wrong("speculative-launch-uncounted", "a launched round that computes no KV is not counted",
           "T-LAUNCH / INV-ROUND-STEP.ahead",
           becomes(t.T_LAUNCH, (req.rounds, req.rounds + minimum(t.k, 1)))),
    _wrong("launch-twice", "one launched round gets two results",
           "T-LAUNCH / INV-ROUND-STEP.launches", becomes(t.T_LAUNCH, (req.rounds, req.rounds + 2))),
    _wrong("launch-past-end", "a round is launched although the answer has ended",
           "T-LAUNCH / INV-ROUND-STEP.launches",
           replace(unguarded(t.T_LAUNCH, "answering"),
                   allows=Allowance(config.overlap & t._round_allowed & (req.rounds < 2)
                                    & (req.C + given(t.k) <= known + req.rounds)))),
    _wrong("launch-third", "a third round is launched before any result",
           "T-LAUNCH / INV-ROUNDS.counted",
           replace(unguarded(t.T_LAUNCH, "rounds"),
                   allows=Allowance(t.T_LAUNCH.allows.when & (req.rounds >= 0)))),
    _alone("result-commits-ahead", "a result commits the KV of a round without a result",
           "T-RESULT / INV-COVER.rounds", unguarded(t.T_RESULT, "ahead")),
    _alone("insert-drops-round", "a request that publishes KV loses its round in flight",
           "T-INSERT / INV-ROUND-STEP.arrives",
           becomes(t.T_INSERT, (req.rounds, ite(known > req.C, 0, req.rounds)))),
    # What the client was told
    _wrong("save-history-of-output", "the history gets every sampled token, the dropped ones too",
           "T-SAVE / INV-HISTORY.told", becomes(t.T_SAVE, (session.history, known))),
    _wrong("save-history-of-kv", "the history gets the tokens with KV, not the answer",
           "T-SAVE / INV-HISTORY.told",
           becomes(t.T_SAVE, (session.history, minimum(answered, req.C)))),
    _wrong("save-drops-last", "the history loses each answer's last token in every profile",
           "T-SAVE / INV-HISTORY.told",
           becomes(t.T_SAVE, (session.history, maximum(req.prompt, answered - 1)))),
    _wrong("save-keeps-last", "the history keeps each answer's last token in every profile",
           "T-SAVE / INV-HISTORY.told",
           becomes(t.T_SAVE, (session.history, req.prompt + req.told))),
    _wrong("decode-past-end", "an answer goes on after its end",
           "T-DECODE / INV-TOLD-STEP.ends",
           replace(unguarded(t.T_DECODE, "answering"),
                   allows=Allowance(~config.overlap & t._round_allowed & (given(t.at) == known)
                                    & t._answers(given(t.k))))),
    _wrong("result-unsays", "a retracted turn's client is told its tokens again",
           "T-RETRACT / INV-TOLD-STEP.keeps", becomes(t.T_RETRACT, (req.told, 0))),
    _wrong("decode-tells-more", "a client is told tokens that no step reports",
           "T-DECODE / INV-TOKENS.told",
           becomes(t.T_DECODE, (req.told, req.told + t.k + 1))),
    _wrong("insert-tells", "a client is told a token of a round that has no result",
           "T-INSERT / INV-TOKENS.told", becomes(t.T_INSERT, (req.told, req.told + 1))),
    # Prompts, rejections, closes
    _alone("submit-empty", "a turn may have an empty prompt",
           "T-SUBMIT / INV-LIFE-STEP.begins",
           replace(guarded(t.T_SUBMIT, nonempty=t.new >= 0),
                   means={"new": t.T_SUBMIT.means["new"]})),
    _alone("reject-idle", "an idle session rejects a turn",
           "T-REJECT / INV-LIFE-STEP.detaches",
           replace(unguarded(t.T_REJECT, "busy"),
                   means={"stays": t.T_REJECT.means["stays"]})),
    _alone("reject-closes", "a rejected turn closes its session",
           "T-REJECT / INV-INFLIGHT-STEP.asks",
           replace(becomes(t.T_REJECT, (session.closing, session.closing | session.inflight)),
                   means={"stub": t.T_REJECT.means["stub"]})),
    _alone("retract-closes", "a retracted turn closes its session",
           "T-RETRACT / INV-INFLIGHT-STEP.asks", becomes(t.T_RETRACT, (session.closing, TRUE))),
    _wrong("submit-overwrites-tail", "a prompt's new tokens begin where the slot's KV ends",
           "T-SUBMIT / INV-HISTORY.extends",
           replace(t.T_SUBMIT,
                   effect={**t.T_SUBMIT.effect,
                           **assign((req.prompt, maximum(session.history,
                                                         ite(slot.holding, slot.C, session.history)
                                                         + t.new)))})),
    _wrong("close-of-waiting-lost", "a close is forgotten if its turn waits",
           "T-CLOSE-DEFER / INV-INFLIGHT-STEP.heard",
           becomes(t.T_CLOSE_DEFER, (session.closing, ~(req.phase == WAITING)))),
    _wrong("decode-final", "a round sends the final answer of a request that goes on",
           "T-DECODE / INV-LIFE-STEP.answered",
           replace(t.T_DECODE, reports={**t.T_DECODE.reports, **_final})),
    _wrong("refuse-drops-turn", "a refused first turn is not queued again",
           "T-REFUSE / INV-LIFE-STEP.ends",
           becomes(t.T_REFUSE, (session.inflight, session.inflight & slot.holding),
                   *((var, ite(slot.holding, t.back_to_waiting.get(var.name, var), 0))
                     for var in (req.kind, req.phase, req.prompt, req.output, req.told)))),
    _wrong("doom-running", "a running turn is detached, and begins again without its session",
           "T-DOOM / INV-LIFE-STEP.detaches",
           replace(t.T_ABORT, id="T-DOOM", params=(t.prompt, *t.T_ABORT.params),
                   guard={**t.T_ABORT.guard, "prompt": t.prompt >= 0},
                   allows=Allowance(FALSE), reports={}, detaches="doomed")),
    # Slack
    _alone("save-keeps-slack", "a finished turn leaves its drafts' memory to the slot",
           "T-SAVE / INV-SLACK-STEP.trims",
           replace(moving(t.T_SAVE, free(req, ceil_page(req.A), ceil_page(req.A))),
                   effect={**t.T_SAVE.effect,
                           **assign((slot.A, ite(answered >= req.E, req.A, t._trimmed.A)))},
                   memory=(free(req, ite(answered >= req.E, ceil_page(req.A),
                                         ceil_page(t._trimmed.A)), ceil_page(req.A)),))),
    _alone("restore-keeps-tail", "a restore leaves the slot's memory past the reused KV",
           "T-RESTORE / INV-SLACK-STEP.tail", _restore_with_tail()),
    _alone("decode-grows", "every decoding round allocates more ahead",
           "T-DECODE / INV-SLACK-STEP.grows", unguarded(t.T_DECODE, "slack")),
    _alone("launch-grows", "every launched round allocates more ahead",
           "T-LAUNCH / INV-SLACK-STEP.grows", unguarded(t.T_LAUNCH, "slack")),
    _wrong("wipe-keeps-overallocated", "a retract frees committed KV, and not the pages past it",
           "T-RETRACT-WIPE / INV-SLACK-STEP.together",
           moving(t.T_RETRACT_WIPE, free(req, req.Q, ceil_page(req.C)),
                  *t.T_RETRACT_WIPE.memory[1:])),
    _wrong("parked-abort-keeps-memory", "the abort of a parked turn keeps its pages in the slot",
           "T-ABORT / INV-SLACK-STEP.trims",
           replace(t.T_ABORT, params=(),
                   guard={"turn": (req.kind == TURN) & (req.phase == PARKED) & slot.lent,
                          "possible": (session.history >= slot.C) & (req.Q == slot.Q)
                          & (req.E == slot.E)},
                   memory=(), means={}, allows=Allowance(FALSE),
                   effect={**assign((slot.lent, FALSE), (slot.A, req.A)), **t.turn_over})),
    _wrong("partial-abort-keeps-memory",
           "the abort of a retracted turn cuts the slot's KV and keeps the memory",
           "T-ABORT-PARTIAL / INV-SLACK-STEP.trims",
           replace(moving(t.T_ABORT_PARTIAL),
                   effect={**t.T_ABORT_PARTIAL.effect,
                           **assign((slot.C, minimum(slot.C, t._to_history.m)),
                                    (slot.A, slot.A))})),
    _wrong("lent-slot-forgets", "a decoding turn clears the committed length of its lent slot",
           "T-DECODE / INV-SLACK-STEP.lent",
           becomes(t.T_DECODE, (slot.C, ite(slot.lent, slot.Q, slot.C)))),
    _wrong("lent-slot-counts-drafts", "a slot on loan counts the drafts of its turn",
           "T-DECODE / INV-LOAN.grows",
           becomes(t.T_DECODE, (slot.C, ite(slot.lent, req.A + t.d, slot.C)),
                   (slot.A, ite(slot.lent, req.A + t.d, slot.A)))),
    # Economy
    _wrong("finish-publishes-little", "a finished request gives the tree one page at most",
           "T-PLAIN-FINISH / INV-PUBLISH-STEP.answer",
           guarded(unguarded(t.T_PLAIN_FINISH, "answer"), little=t.q <= req.Q + ceil_page(1))),
    _wrong("insert-publishes-little", "a request publishes one page of its prompt at most",
           "T-INSERT / INV-PUBLISH-STEP.answer",
           guarded(unguarded(t.T_INSERT, "answer"), little=t.q <= req.Q + ceil_page(1))),
    _wrong("evicts-one-more", "an eviction takes one page more than it was asked for",
           "T-EVICT / INV-PUBLISH-STEP.evicts",
           moving(t.T_EVICT, Mem(Move.EVICT, count(minimum(t.n + ite(t.n > 0, ceil_page(1), 0),
                                                           full.evictable)), count(t.swa_n)))),
    _wrong("evicts-one-more-of-window", "an eviction takes one page of windows more than asked for",
           "T-EVICT / INV-PUBLISH-STEP.swa_evicts",
           moving(t.T_EVICT, Mem(Move.EVICT, count(t.n),
                                 count(minimum(t.swa_n + ite(t.swa_n > 0, ceil_page(1), 0),
                                               swa.evictable))))),
    _alone("finish-unprefilled", "a request without a session finishes between two chunks",
           "T-PLAIN-FINISH / INV-COVER-STEP.finishes", unguarded(t.T_PLAIN_FINISH, "prefilled")),
    _wrong("cursor-moves-little", "a cursor moves by one page, however far its window is",
           "T-SWA-ADVANCE / INV-CURSOR-STEP.far",
           guarded(unguarded(t.T_SWA_ADVANCE, "far"), little=t.e <= req.E + ceil_page(1))),
)  # fmt: skip
"""Errors in results, answers, rejections, closes, slack and economy."""

WRONG: dict[str, Wrong] = {wrong.name: wrong for wrong in (*_MEMORY, *_LOCKS, *_LIFE, *_ANSWERS)}
ANSWERS: tuple[Wrong, ...] = _ANSWERS
"""Wrong specs that TLC refutes, too."""
