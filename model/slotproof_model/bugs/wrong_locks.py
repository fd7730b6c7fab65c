"""Engines that break a rule of the page layer or of the rows: wrong choices, no wrong figure."""

from __future__ import annotations

from dataclasses import replace

from slotproof_model.bugs.altered import Wrong, changed, guarded, unguarded
from slotproof_model.spec import transitions as t
from slotproof_model.spec.expr import Var
from slotproof_model.spec.state import frame, full
from slotproof_model.spec.whole import Spec


def _breaks(name: str, sentence: str, by: str, *rules: str) -> Wrong:
    """An engine whose choices do not keep these rules, and nothing else is wrong."""
    return Wrong(name, sentence, by, Spec(name=name, unruled=frozenset(rules)), alone=True)


LOCKS = (
    # The lock itself
    _breaks(
        "evict-pinned",
        "an eviction takes a page that a running request has locked",
        "T-EVICT [full] / INV-PIN.tree",
        "unpinned",
    ),
    _breaks(
        "evict-pinned-window",
        "the same in the sliding-window pool alone",
        "T-EVICT [swa] / INV-PIN.tree",
        "swa.unpinned",
    ),
    _breaks(
        "close-keeps-lock",
        "a close gives everything back but the lock on some page",
        "T-CLOSE [full] / INV-PIN.mine",
        "released",
    ),
    _breaks(
        "match-locks-part",
        "a match locks a part of what it points to",
        "T-MATCH [full] / INV-PIN.full_covers",
        "full.covers",
    ),
    _breaks(
        "match-locks-part-of-window",
        "a match locks a part of the window in the sliding-window pool",
        "T-MATCH [swa] / INV-PIN.swa_covers",
        "swa.covers",
    ),
    Wrong(
        "match-without-window",
        "a match does not look whether the window of its prefix is in the sliding-window pool",
        "T-MATCH / INV-LOCK-STEP.window",
        changed(unguarded(t.T_MATCH, "window")),
        alone=True,
    ),
    # What u counts
    _breaks(
        "unlock-counts-shared",
        "an unlock counts pages that another one still locks, or not all whose last lock goes",
        "T-CLOSE [full] / INV-PIN.full",
        "full.last_pin",
    ),
    _breaks(
        "unlock-counts-shared-window",
        "the same in the sliding-window pool",
        "T-CLOSE [swa] / INV-PIN.swa",
        "swa.last_pin",
    ),
    _breaks(
        "lock-counts-shared",
        "a match counts pages that somebody had locked before",
        "T-MATCH [full] / INV-PIN.full",
        "full.first_pin",
    ),
    Wrong(
        "unlock-if-none-is-shared",
        "a close takes for granted that prefixes which others lock do not overlap",
        "T-CLOSE [unlock] / EXISTS.u_others",
        changed(
            replace(
                guarded(t.T_CLOSE, u_others=full.protected - t.u == frame.lock_sum),
                allows=replace(
                    t.T_CLOSE.allows,
                    when=t.T_CLOSE.allows.when & (Var("given.others") == frame.lock_sum),
                ),
            )
        ),
        alone=True,
    ),
    _breaks(
        "unlock-more-than-all",
        "an unlock makes up for one page by unlocking more than there is of the others",
        "T-CLOSE [full] / INV-PIN.counted",
        "unlocked_beside",
    ),
    # Rows
    _breaks(
        "row-in-use",
        "a request gets a row that another one has",
        "T-EXTEND [rows] / INV-ROW.counted",
        "fresh",
    ),
    # Rows and pages
    _breaks(
        "page-at-two-positions",
        "an allocation gives one page to two positions of a row",
        "T-EXTEND [full] / INV-PLACE.full_injective",
        "full.named",
    ),
    _breaks(
        "window-page-at-two-positions",
        "the same in the sliding-window pool",
        "T-EXTEND [swa] / INV-PLACE.swa_injective",
        "swa.named",
    ),
    _breaks(
        "page-not-in-the-row",
        "an allocation takes a page and writes another one into the row",
        "T-EXTEND [full] / INV-PLACE.function",
        "chosen",
    ),
    _breaks(
        "prefix-without-page",
        "a match takes for found what the tree does not have",
        "T-MATCH [full] / INV-BACKED.full_protected",
        "full.found",
    ),
    _breaks(
        "window-without-page",
        "a match takes a prefix whose window was evicted from the sliding-window pool",
        "T-MATCH [swa] / INV-BACKED.swa_protected",
        "swa.found",
    ),
    _breaks(
        "token-without-page",
        "a decoding round computes a token for which no page was there",
        "T-DECODE [full] / INV-BACKED.full_private",
        "full.found",
    ),
    _breaks(
        "token-without-window-page",
        "the same in the sliding-window pool",
        "T-DECODE [swa] / INV-BACKED.swa_private",
        "swa.found",
    ),
)
