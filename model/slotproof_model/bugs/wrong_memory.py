"""Wrong specs about lengths, memory, the tree and what is counted."""

from __future__ import annotations

from dataclasses import replace

from slotproof_model.bugs.altered import (
    Wrong,
    becomes,
    changed,
    figure,
    guarded,
    less,
    moving,
    only_if,
    unguarded,
)
from slotproof_model.bugs.museum import merged_cut
from slotproof_model.spec import state, transitions as t
from slotproof_model.spec.allowances import unlocking
from slotproof_model.spec.expr import (
    FALSE,
    TRUE,
    Expr,
    ceil_page,
    conj,
    floor_page,
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
    take_row,
    unlock,
)
from slotproof_model.spec.state import (
    MATCHED,
    NO_ROW,
    config,
    has_kv,
    known,
    lengths,
    locks_either,
    private,
    req,
    rows,
    slot,
)
from slotproof_model.spec.transition import Allowance, Transition, given


def _restore_to(n: Expr) -> Transition:
    """A restore that reuses n positions, and asks for what that takes."""
    left = t.cut(slot, n)
    window = maximum(0, left.m - config.window) >= left.E
    restore = guarded(moving(t.T_RESTORE, left.memory), prefix=n >= slot.Q, window=window)
    return replace(
        restore,
        effect={**restore.effect, **t.cut_lengths(slot, left), **t.cut_lengths(req, left)},
        allows=Allowance(t.T_RESTORE.allows.when & (n >= slot.Q) & window),
    )


def _slack_stays(n: Expr) -> t.Cut:
    """A cut that gives nothing back where slack is kept, also of what the cursor goes below."""
    left = t.cut(req, n)
    room = ite(config.keeps_slack, req.A, left.A)
    return left._replace(memory=free(req, ceil_page(room), ceil_page(req.A)), A=room)


def _aligned(n: Expr) -> Expr:
    return ite(config.aligned_reuse, floor_page(n), n)


def _upto(limit: Expr) -> Expr:
    return (t.q >= req.Q) & (t.q <= floor_page(limit)) & is_aligned(t.q)


_cursor = maximum(req.Q, req.E)
_below_window = floor_page(maximum(0, req.Q - config.window)) >= req.E
_saved = req.prompt + t.F
_one_less = minimum(slot.C, known - config.reserve) - 1

_last_of_window = Interval(maximum(_cursor, t.q - t.swa_dup), t.q)
_all_full = Interval(req.Q + t.dup, floor_page(req.A))
_all_swa = Interval(_cursor + t.swa_dup, floor_page(req.A))


def _finish(to_tree: Interval, swa_to_tree: Interval, *unsaid: str) -> Transition:
    """A request ends: these go to the tree, what lies past them is freed; the event does not
    say how far that is."""
    first, _, _, *rest = t.T_PLAIN_FINISH.memory
    end = ceil_page(req.A)
    swa_rest = Interval(maximum(swa_to_tree.hi, req.E), end)
    tail = Mem(Move.FREE, Interval(to_tree.hi, end), swa_rest)
    published = Mem(Move.TO_TREE, to_tree, swa_to_tree)
    means = {name: expr for name, expr in t.T_PLAIN_FINISH.means.items() if name not in unsaid}
    return replace(moving(t.T_PLAIN_FINISH, first, published, tail, *rest), means=means)


MEMORY = (
    # What is reused
    Wrong(
        "restore-forgets-prefix",
        "the turn on loan has no protected prefix",
        "T-RESTORE / INV-LOAN.prefix",
        changed(becomes(t.T_RESTORE, (req.Q, 0))),
    ),
    Wrong(
        "restore-copies-lock",
        "turn and slot both think the lock is theirs",
        "T-RESTORE / INV-LOCK.req",
        changed(becomes(t.T_RESTORE, (req.locked, TRUE))),
    ),
    Wrong(
        "restore-moves-lock",
        "the lock goes with the loan",
        "T-RESTORE / INV-LOCK.slot",
        changed(becomes(t.T_RESTORE, (req.locked, TRUE), (slot.locked, FALSE))),
    ),
    Wrong(
        "restore-one-less",
        "one position of the prefix is computed again that need not be (before #22862)",
        "T-RESTORE / INV-KEEP-STEP.restores",
        changed(_restore_to(_aligned(_one_less))),
        alone=True,
    ),
    Wrong(
        "restore-tree-only",
        "a restore keeps what the tree has and frees the rest",
        "T-RESTORE / INV-KEEP-STEP.restores",
        changed(_restore_to(slot.Q)),
    ),
    Wrong(
        "restore-all-known",
        "every known token is reused: none is left to compute the logits from",
        "T-RESTORE / INV-KEEP-STEP.reserve",
        changed(_restore_to(_aligned(minimum(slot.C, known)))),
    ),
    Wrong(
        "restore-in-mid-page",
        "reuse stops in mid-page though the kernels of the profile can't (#32163)",
        "T-RESTORE / INV-ALIGN-STEP.reuse",
        changed(_restore_to(minimum(slot.C, known - config.reserve))),
        alone=True,
    ),
    Wrong(
        "match-all-known",
        "a prompt that the tree has as a whole leaves nothing to compute",
        "T-MATCH / INV-KEEP-STEP.reserve",
        changed(
            guarded(
                t.T_MATCH, m=(t.m >= 0) & is_aligned(t.m) & (t.m <= known) & (t.m <= config.width)
            )
        ),
        alone=True,
    ),
    # Cuts
    Wrong(
        "cut-frees-kept-page",
        "free_tail begins at the page boundary below what it keeps",
        "T-RESTORE / INV-SUM-FULL.equation",
        changed(moving(t.T_RESTORE, free(slot, floor_page(t._restored.m), ceil_page(slot.A)))),
    ),
    Wrong(
        "free-tail-cursor-in-mid-page",
        "free_tail as merged in #22862: the cursor goes down to a position inside a page",
        "T-RESTORE / INV-CURSOR.slot",
        changed(
            replace(
                moving(t.T_RESTORE, free(slot, ceil_page(t.reusable), ceil_page(slot.A))),
                effect={
                    **t.T_RESTORE.effect,
                    **t.cut_lengths(slot, merged_cut(slot, t.reusable)),
                    **t.cut_lengths(req, merged_cut(slot, t.reusable)),
                },
            )
        ),
    ),
    Wrong(
        "trim-cursor-in-mid-page",
        "trim as merged in #22900: the cursor goes down to a position inside a page",
        "T-SAVE / INV-CURSOR.slot",
        changed(
            replace(
                moving(t.T_SAVE, free(req, ceil_page(_saved), ceil_page(req.A))),
                effect={**t.T_SAVE.effect, **t.cut_lengths(slot, merged_cut(req, _saved))},
            )
        ),
    ),
    Wrong(
        "save-trims-to-output",
        "a finished turn is trimmed to what it sampled, not to what counts",
        "T-SAVE / INV-COVER.idle",
        changed(
            replace(
                moving(t.T_SAVE, t.cut(req, known).memory),
                effect={**t.T_SAVE.effect, **t.cut_lengths(slot, t.cut(req, known))},
            )
        ),
    ),
    Wrong(
        "save-trims-allocated-only",
        "trim caps A and leaves C",
        "T-SAVE / INV-ORDER.slot",
        changed(becomes(t.T_SAVE, (slot.C, req.C))),
    ),
    Wrong(
        "save-keeps-slack-below-cursor",
        "a trim that keeps slack moves the cursor down, and keeps pages it has given back",
        "T-SAVE / INV-SUM-SWA.equation",
        changed(
            replace(
                moving(t.T_SAVE, _slack_stays(t._target).memory),
                effect={**t.T_SAVE.effect, **t.cut_lengths(slot, _slack_stays(t._target))},
            )
        ),
    ),
    Wrong(
        "save-forgets-output",
        "a finished turn leaves only the KV of its prompt",
        "T-SAVE / INV-KEEP-STEP.ends",
        changed(
            replace(
                moving(t.T_SAVE, t.cut(req, req.prompt).memory),
                guard={**t.T_SAVE.guard, "prompt": req.prompt >= req.Q},
                effect={**t.T_SAVE.effect, **t.cut_lengths(slot, t.cut(req, req.prompt))},
            )
        ),
    ),
    Wrong(
        "save-forgets-lock",
        "the first save takes the row and not the lock",
        "T-SAVE / INV-LOCK.slot",
        changed(becomes(t.T_SAVE, (slot.locked, slot.holding))),
    ),
    Wrong(
        "retract-forgets-slack",
        "a retract takes what lies past C for free, and frees nothing",
        "T-RETRACT / INV-SUM-FULL.equation",
        changed(becomes(t.T_RETRACT, (slot.A, req.C))),
    ),
    Wrong(
        "retract-cuts-to-prompt",
        "a retract that keeps gives back what was decoded",
        "T-RETRACT / INV-KEEP-STEP.runs",
        changed(
            replace(
                moving(t.T_RETRACT, t.cut(req, req.prompt).memory),
                guard={**t.T_RETRACT.guard, "prompt": req.prompt >= req.Q},
                effect={**t.T_RETRACT.effect, **t.cut_lengths(slot, t.cut(req, req.prompt))},
                allows=Allowance(t.T_RETRACT.allows.when & (req.prompt >= req.Q)),
            )
        ),
        alone=True,
    ),
    Wrong(
        "retract-counts-slack",
        "a retract takes drafts for committed, as far as tokens are known",
        "T-RETRACT / INV-COVER-STEP.computes",
        changed(becomes(t.T_RETRACT, (slot.C, maximum(req.C, minimum(req.A, known))))),
        alone=True,
    ),
    Wrong(
        "save-counts-slack",
        "a save takes drafts for committed up to the finished length",
        "T-SAVE / INV-COVER-STEP.computes",
        changed(becomes(t.T_SAVE, (slot.C, t._trimmed.A))),
    ),
    Wrong(
        "partial-cut-to-prompt",
        "a slot that a retract left is cut to the aborted prompt",
        "T-ABORT-PARTIAL / INV-COVER.idle",
        changed(
            replace(
                moving(t.T_ABORT_PARTIAL, t.cut(slot, req.prompt).memory),
                effect={**t.T_ABORT_PARTIAL.effect, **t.cut_lengths(slot, t.cut(slot, req.prompt))},
            )
        ),
    ),
    # Aborts and releases
    Wrong(
        "abort-leaves-empty-slot",
        "an abort frees everything and leaves a slot without KV",
        "T-ABORT / INV-ROWS.present",
        changed(becomes(t.T_ABORT, (slot.holding, TRUE))),
    ),
    Wrong(
        "abort-frees-growth",
        "an abort frees what the turn added and forgets what the slot had",
        "T-ABORT / INV-SUM-FULL.equation",
        changed(
            moving(
                t.T_ABORT,
                free(req, maximum(ceil_page(slot.A), req.Q), ceil_page(req.A)),
                *t.T_ABORT.memory[1:],
            )
        ),
    ),
    Wrong(
        "first-abort-leaves-lock",
        "the abort of a first turn does not know of its lock",
        "T-ABORT / INV-LOCK.bounded",
        changed(
            moving(
                t.T_ABORT,
                t.T_ABORT.memory[0],
                only_if(slot.holding, t.T_ABORT.memory[1]),
                t.T_ABORT.memory[2],
            )
        ),
    ),
    Wrong(
        "refuse-leaves-lock",
        "a refused request keeps its lock",
        "T-REFUSE / INV-LOCK.req",
        changed(less(moving(t.T_REFUSE), "req.locked")),
    ),
    Wrong(
        "refuse-releases-slot",
        "a turn for which there is no room loses its slot, rightly given back",
        "T-REFUSE / INV-KEEP-STEP.refused",
        changed(
            replace(
                guarded(moving(t.T_REFUSE, *t.everything), **t.dropped(locks_either)),
                effect={**t.back_to_waiting, **t.no_slot},
                allows=unlocking(req.phase == MATCHED, locks_either),
            )
        ),
        alone=True,
    ),
    Wrong(
        "discard-while-lent",
        "memory pressure takes the slot of a running turn",
        "T-DISCARD / INV-SUM-FULL.equation",
        changed(unguarded(t.T_DISCARD, "not_lent")),
    ),
    # Rounds
    Wrong(
        "extend-allocates-from-committed",
        "a prefill allocates from C on and overwrites the row (before #22862)",
        "T-EXTEND / INV-SUM-FULL.equation",
        changed(moving(t.T_EXTEND, t.T_EXTEND.memory[0], alloc(ceil_page(req.C), ceil_page(t.t)))),
    ),
    Wrong(
        "decode-page-late",
        "a decoding round allocates a page when it is full, not when it begins",
        "T-DECODE / INV-SUM-FULL.equation",
        changed(moving(t.T_DECODE, alloc(floor_page(req.A), floor_page(req.A + t.d)))),
    ),
    Wrong(
        "park-gives-row",
        "a request between two chunks gives its row back",
        "T-PARK / INV-ROWS.equation",
        changed(moving(t.T_PARK, give_row(TRUE))),
    ),
    Wrong(
        "park-changes-row",
        "a request between two chunks gets another row",
        "T-PARK [rows] / INV-ROW.one",
        changed(becomes(t.T_PARK, (req.row, ite(slot.lent, req.row, 0)))),
    ),
    Wrong(
        "park-exchanges-row",
        "a request between two chunks gives its row back and takes another that is free",
        "T-PARK / INV-ROWS-STEP.req",
        changed(
            replace(
                becomes(t.T_PARK, (req.row, ite(slot.lent, req.row, t.row))),
                guard={**t.T_PARK.guard, "row": t.row >= 0},
                params=(t.row,),
                memory=(give_row(~slot.lent), take_row(~slot.lent)),
                allows=Allowance(conj(t.T_PARK.allows.when, given(t.row) >= 0, rows.free >= 1)),
            )
        ),
        alone=True,
    ),
    Wrong(
        "cursor-frees-prefix",
        "the cursor frees pages of the tree's prefix",
        "T-SWA-ADVANCE / INV-SUM-SWA.equation",
        changed(moving(t.T_SWA_ADVANCE, Mem(Move.FREE, EMPTY, Interval(req.E, t.e)))),
    ),
    Wrong(
        "cursor-from-allocated",
        "the window is measured from A, drafts included",
        "T-SWA-ADVANCE / INV-WINDOW.req",
        changed(
            guarded(
                t.T_SWA_ADVANCE,
                e=(t.e > req.E) & is_aligned(t.e) & (t.e <= floor_page(req.A - config.window)),
            )
        ),
    ),
    Wrong(
        "cursor-goes-back",
        "what waits again looks at the tree's part of the window anew",
        "T-RETRACT / INV-CURSOR-STEP.back",
        changed(becomes(t.T_RETRACT, (slot.E, ite(_below_window, 0, req.E)))),
        alone=True,
    ),
    Wrong(
        "cursor-moves-at-save",
        "a finished turn's cursor moves to the end of the tree's prefix",
        "T-SAVE / INV-CURSOR-STEP.up",
        changed(
            becomes(
                t.T_SAVE,
                (slot.E, ite(config.swa & (req.E < req.Q), req.Q, t.T_SAVE.effect["slot.E"])),
            )
        ),
        alone=True,
    ),
    # The tree
    Wrong(
        "insert-frees-last",
        "an insert takes the first tokens for new and frees the last",
        "T-INSERT [full] / MEANS.full",
        changed(
            moving(
                t.T_INSERT,
                Mem(Move.FREE, Interval(t.q - t.dup, t.q), Interval(_cursor, _cursor + t.swa_dup)),
                Mem(Move.TO_TREE, Interval(req.Q, t.q - t.dup), Interval(_cursor + t.swa_dup, t.q)),
                *t.T_INSERT.memory[2:],
            )
        ),
    ),
    Wrong(
        "insert-frees-tree",
        "an insert keeps its own pages and frees those that the tree had",
        "T-INSERT / INV-SUM-FULL.nonnegative",
        changed(
            moving(
                t.T_INSERT,
                Mem(Move.EVICT, count(t.dup), count(t.swa_dup)),
                Mem(Move.TO_TREE, Interval(req.Q, t.q), Interval(_cursor, t.q)),
                *t.T_INSERT.memory[2:],
            )
        ),
    ),
    Wrong(
        "insert-drafts",
        "an insert publishes KV that is allocated and not committed",
        "T-INSERT / INV-PUBLISH-STEP.committed",
        changed(guarded(t.T_INSERT, q=_upto(minimum(req.A, known)))),
    ),
    Wrong(
        "insert-takes-no-swa-lock",
        "an insert drops its lock in the second pool and takes no new one",
        "T-INSERT / MEANS.swa_u",
        changed(moving(t.T_INSERT, *t.T_INSERT.memory[:2], lock(t.u, 0), t.T_INSERT.memory[3])),
    ),
    Wrong(
        "insert-on-loan",
        "a turn on loan inserts, where that is not what the engine does",
        "T-INSERT / MEANS.profile",
        changed(unguarded(t.T_INSERT, "not_lent")),
        alone=True,
    ),
    Wrong(
        "lent-insert-leaves-slot",
        "a turn on loan inserts, and only its own Q moves",
        "T-INSERT / INV-LOAN.prefix",
        changed(less(t.T_INSERT, *(var.name for var in lengths(slot)))),
    ),
    Wrong(
        "lent-insert-moves-prefix-alone",
        "a turn on loan inserts, and of the slot only Q moves: past its own C",
        "T-INSERT / INV-ORDER.slot",
        changed(less(t.T_INSERT, "slot.C", "slot.A", "slot.E")),
    ),
    Wrong(
        "lent-insert-takes-slot",
        "every insert writes the slot, also where there is none",
        "T-INSERT / INV-ABSENT.slot",
        changed(
            becomes(t.T_INSERT, (slot.Q, t.q), (slot.C, req.C), (slot.A, req.A), (slot.E, req.E))
        ),
        alone=True,
    ),
    Wrong(
        "lent-insert-counts-the-lock-twice",
        "what a turn on loan inserts is locked for the turn, beside the slot's lock",
        "T-INSERT / INV-LOCK.req",
        changed(becomes(t.T_INSERT, (req.locked, TRUE))),
        alone=True,
    ),
    Wrong(
        "finish-publishes-drafts",
        "a request that ends publishes KV that is allocated and not committed",
        "T-PLAIN-FINISH / INV-PUBLISH-STEP.committed",
        changed(guarded(t.T_PLAIN_FINISH, q=_upto(minimum(req.A, known)))),
    ),
    Wrong(
        "finish-publishes-swa-drafts",
        "a request that ends publishes all that is allocated in the second pool, and only there",
        "T-PLAIN-FINISH / INV-PUBLISH-STEP.swa_committed",
        changed(_finish(t.T_PLAIN_FINISH.memory[1].full, _all_swa, "swa", "swa_dup")),
        alone=True,
    ),
    Wrong(
        "finish-publishes-full-drafts",
        "a request that ends publishes all that is allocated in the first pool, and only there",
        "T-PLAIN-FINISH / INV-PUBLISH-STEP.committed",
        changed(_finish(_all_full, t.T_PLAIN_FINISH.memory[1].swa, "full", "dup")),
        alone=True,
    ),
    Wrong(
        "insert-frees-last-of-window",
        "an insert frees the last of what the window has in the tree, not the first",
        "T-INSERT [swa] / MEANS.swa",
        changed(
            moving(
                t.T_INSERT,
                Mem(Move.FREE, t.T_INSERT.memory[0].full, _last_of_window),
                Mem(
                    Move.TO_TREE,
                    t.T_INSERT.memory[1].full,
                    Interval(_cursor, maximum(_cursor, t.q - t.swa_dup)),
                ),
                Mem(Move.POINT, t.T_INSERT.memory[2].full, _last_of_window),
                *t.T_INSERT.memory[3:],
            )
        ),
        alone=True,
    ),
    Wrong(
        "finish-publishes-rejected",
        "a request that ends publishes all that is allocated, rejected drafts included",
        "T-PLAIN-FINISH / INV-PUBLISH-STEP.committed",
        changed(guarded(t.T_PLAIN_FINISH, q=_upto(req.A))),
    ),
    Wrong(
        "abort-publishes-drafts",
        "an abort publishes KV that is allocated and not committed",
        "T-ABORT-PUBLISH / INV-PUBLISH-STEP.committed",
        changed(guarded(t.T_ABORT_PUBLISH, q=_upto(minimum(req.A, known)))),
    ),
    Wrong(
        "publishes-unknown",
        "an abort publishes the KV of a token that nobody has read (overlap)",
        "T-ABORT-PUBLISH / INV-PUBLISH-STEP.committed",
        changed(guarded(t.T_ABORT_PUBLISH, q=_upto(req.C))),
    ),
    Wrong(
        "finish-leaves-lock",
        "a request that ends leaves its lock",
        "T-PLAIN-FINISH / INV-LOCK.bounded",
        changed(
            moving(t.T_PLAIN_FINISH, *(m for m in t.T_PLAIN_FINISH.memory if m.move != Move.UNLOCK))
        ),
    ),
    Wrong(
        "evict-locked",
        "an eviction unlocks what it takes",
        "T-EVICT / INV-LOCK-STEP.falls",
        changed(moving(t.T_EVICT, unlock(t.n, t.swa_n), *t.T_EVICT.memory)),
    ),
    # Figures
    Wrong(
        "held-without-rounding",
        "held is A - Q, not whole pages",
        "T-REFUSE / INV-SUM-FULL.equation",
        figure(state.held, ite(slot.holding & ~slot.lent, slot.A - slot.Q, 0)),
    ),
    Wrong(
        "swa-held-with-prefix",
        "held in the second pool does not know of the tree's prefix",
        "T-CLOSE / INV-SUM-SWA.equation",
        figure(
            state.swa_held,
            ite(slot.holding & ~slot.lent, ite(config.swa, ceil_page(slot.A) - slot.E, 0), 0),
        ),
    ),
    Wrong(
        "uncached-without-loans",
        "what is on loan is in neither figure",
        "T-RESTORE / INV-SUM-FULL.equation",
        figure(state.uncached, ite(has_kv & ~slot.lent, private(req), 0)),
    ),
    Wrong(
        "row-on-loan-twice",
        "the row of a slot on loan counts for the turn as well",
        "T-RESTORE / INV-ROWS.equation",
        figure(state.req_rows, ite(has_kv & (req.row != NO_ROW), 1, 0)),
    ),
)
