"""Effect of transitions on memory: counts by hand, on the museum's numbers.

P = 1, total 100, turn 1 leaves Q = 4, C = A = 10, so available = 90.
"""

from __future__ import annotations

import pytest

from slotproof_model.evaluation.layout import EMPTY_ACTOR, INDEX, OWN
from slotproof_model.evaluation.world import Constants, World
from slotproof_model.spec.expr import show
from slotproof_model.spec.memory import (
    Interval,
    Mem,
    Move,
    affordable,
    alloc,
    count,
    counts,
    free,
    give_row,
    lock,
    release,
    take_row,
    unlock,
)
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.state import slot
from slotproof_model.spec.transitions import TRANSITIONS
from tests.telling import whole

NO_LOCK = {"locked": 0, "swa_locked": 0}
NO_UNLOCK = {"u": 0, "swa_u": 0}


class Hand:
    """A world with one session, moved by allowed transitions only."""

    def __init__(self, page: int = 1, window: int = 0, profile: str = "reference") -> None:
        tokens = 100 // page * page
        second = tokens if window else 0
        self.world = World(
            Constants(page, tokens, window, PROFILES[profile], slack=4),
            [tokens, tokens, 0, 0, second, second, 0, 0, 3, 3],
        )

    def do(self, transition: str, **params: int) -> Hand:
        rid = None if transition in ("T-OPEN", "T-CLOSE", "T-REAP", "T-DISCARD") else "r"
        params = whole(transition, self.world.vector("s"), params)
        assert self.world.apply(transition, "s", rid, params) == []
        assert list(self.world.violations()) == [], transition
        return self

    def turn1(self) -> Hand:
        """Run turn 1: prompt 4, all inserted, then 7 output tokens, the last without KV."""
        self.do("T-OPEN").do("T-SUBMIT", new=4).do("T-MATCH", m=0, **NO_LOCK)
        self.do("T-EXTEND", t=4, sampled=1, row=0)
        self.do("T-INSERT", q=4, dup=0, swa_dup=0, locked=4, swa_locked=4 * self.swa, swa_u=0)
        for _ in range(6):
            self.do("T-DECODE", d=1, k=1)
        return self.do("T-SAVE")

    def put(self, **values: int) -> Hand:
        """Set a slot with these lengths, with its memory taken, before T-SUBMIT."""
        actor = list(EMPTY_ACTOR)
        given = {"session.open": 1, "slot.holding": 1, "slot.locked": 1, "slot.row": 0}
        given |= {name.replace("_", "."): number for name, number in values.items()}
        for name, number in given.items():
            actor[OWN[name]] = number
        q, a, e = values.get("slot_Q", 0), values["slot_A"], values.get("slot_E", 0)
        page = self.world.constants.page_size
        owned = -(-a // page) * page
        pools = self.world.pools
        pools[INDEX["full.available"]] -= owned
        pools[INDEX["full.protected"]] += q
        if self.swa:
            pools[INDEX["swa.available"]] -= q + owned - max(q, e)
            pools[INDEX["swa.protected"]] += q
        pools[INDEX["rows.free"]] -= 1
        self.world.put("s", actor)
        assert list(self.world.violations()) == []
        return self

    @property
    def swa(self) -> int:
        return int(self.world.constants.window > 0)

    @property
    def figures(self) -> tuple[int, ...]:
        """Return available, evictable, protected, held, uncached of the full pool."""
        held, uncached = self.world.frame(None)[:2]
        return (*self.world.pools[1:4], held, uncached)

    @property
    def swa_figures(self) -> tuple[int, ...]:
        held, uncached = self.world.frame(None)[2:4]
        return (*self.world.pools[5:8], held, uncached)

    def slot(self) -> tuple[int, ...]:
        """Return C, A, Q, E."""
        actor = self.world.actors["s"]
        return tuple(actor[OWN[f"slot.{name}"]] for name in "CAQE")

    def turn(self) -> tuple[int, ...]:
        actor = self.world.actors["s"]
        return tuple(actor[OWN[f"req.{name}"]] for name in "CAQE")


def test_turn_1_leaves_the_museums_slot() -> None:
    """T-SAVE: Q = 4, C = A = 10 of 100, available 90, held 6."""
    hand = Hand().turn1()
    assert hand.slot() == (10, 10, 4, 0)
    assert hand.figures == (90, 0, 4, 6, 0)
    assert hand.world.pools[INDEX["rows.free"]] == 2, "the row stays with the slot"


def test_restore_lends_and_extend_allocates() -> None:
    """T-RESTORE, T-EXTEND (#22213): 87 + 4 + 9 = 100, where the bug counted 6 more."""
    hand = Hand().turn1().do("T-SUBMIT", new=2).do("T-RESTORE")
    assert hand.figures == (90, 0, 4, 0, 6)
    assert hand.turn() == (10, 10, 4, 0)
    hand.do("T-EXTEND", t=13, sampled=1, row=0)
    assert hand.figures == (87, 0, 4, 0, 9)
    assert hand.world.pools[INDEX["rows.free"]] == 2, "on loan: one row"


def test_refuse_changes_nothing_of_a_restored_slot() -> None:
    """T-REFUSE (#22753, #20476): 94 where the slot was counted by nobody."""
    hand = Hand().turn1().do("T-SUBMIT", new=2).do("T-RESTORE").do("T-REFUSE", u=0, swa_u=0)
    assert hand.figures == (90, 0, 4, 6, 0)
    assert hand.slot() == (10, 10, 4, 0)


def test_abort_gives_everything_back() -> None:
    """T-ABORT (#22790): available 96, the lock on 4 dropped, every row free."""
    hand = Hand().turn1().do("T-SUBMIT", new=2).do("T-RESTORE")
    hand.do("T-EXTEND", t=13, sampled=1, row=0).do("T-ABORT", u=4, swa_u=0)
    assert hand.figures == (96, 4, 0, 0, 0)
    assert hand.world.pools[INDEX["rows.free"]] == 3


def test_close_releases_the_slot() -> None:
    """T-CLOSE, INV-DRAIN."""
    hand = Hand().turn1().do("T-CLOSE", u=4, swa_u=0)
    assert hand.figures == (96, 4, 0, 0, 0)
    assert hand.world.actors == {}


def test_discard_keeps_the_session() -> None:
    """T-DISCARD."""
    hand = Hand().turn1().do("T-DISCARD", u=4, swa_u=0)
    assert hand.figures == (96, 4, 0, 0, 0)
    assert hand.world.actors["s"][OWN["session.history"]] == 11


def test_free_tail_gives_back_what_drafts_left() -> None:
    """T-RESTORE (#21875): C = 10, A = 14: the 4 past the prefix go back."""
    hand = Hand().put(slot_C=10, slot_A=14, slot_Q=4, session_history=11)
    assert hand.figures == (86, 0, 4, 10, 0)
    hand.do("T-SUBMIT", new=2).do("T-RESTORE")
    assert hand.figures == (90, 0, 4, 0, 6)
    assert hand.turn() == (10, 10, 4, 0)


@pytest.mark.parametrize(("page", "given_back"), [(1, 7), (4, 4)])
def test_free_tail_starts_at_a_page_boundary(page: int, given_back: int) -> None:
    """T-RESTORE (#22862): n = 9, A = 16: at P = 4 from 12 on, for 8..11 hold position 8."""
    hand = Hand(page).put(slot_C=9, slot_A=16, slot_Q=4, session_history=9)
    before = hand.figures[0]
    hand.do("T-SUBMIT", new=1).do("T-RESTORE")
    assert hand.figures[0] == before + given_back
    assert hand.turn() == (9, 9, 4, 0)


def test_reuse_of_whole_pages_only() -> None:
    """T-RESTORE (#32163): under aligned_reuse n = 9 becomes 8, and [8, 16) goes back."""
    hand = Hand(4, profile="aligned").put(slot_C=9, slot_A=16, slot_Q=4, session_history=9)
    before = hand.figures[0]
    hand.do("T-SUBMIT", new=1).do("T-RESTORE")
    assert (hand.turn(), hand.figures[0]) == ((8, 8, 4, 0), before + 8)


def test_the_last_known_token_is_reserved_for_its_logits() -> None:
    """T-RESTORE: C = 10 of 10 known tokens: 9 are reused, 1 goes back."""
    hand = Hand().put(slot_C=10, slot_A=10, slot_Q=4, session_history=10)
    hand.do("T-SUBMIT", new=0).do("T-RESTORE")
    assert (hand.turn()[0], hand.figures[0]) == (9, 91)


def test_trim_caps_the_cursor_too() -> None:
    """T-SAVE (#22897, #22900): prompt 26, finished 12, C = 40, A = 44, E = 42: the cut is 38."""
    hand = Hand(window=1).do("T-OPEN").do("T-SUBMIT", new=26).do("T-MATCH", m=0, **NO_LOCK)
    hand.do("T-EXTEND", t=26, sampled=1, row=0)
    hand.do("T-DECODE", d=18, k=17, told=11).do("T-SWA-ADVANCE", e=42)
    assert hand.turn() == (43, 44, 0, 42)
    assert hand.swa_figures == (98, 0, 0, 0, 2)
    hand.do("T-SAVE")
    assert hand.slot() == (38, 38, 0, 38)
    assert hand.figures == (62, 0, 0, 38, 0)
    assert hand.swa_figures == (100, 0, 0, 0, 0)


def test_insert_moves_the_prompt_to_the_tree() -> None:
    """T-INSERT: the tree already held 2 of 4: 2 freed, 2 into the tree, all 4 locked."""
    hand = Hand().do("T-OPEN").do("T-SUBMIT", new=5)
    hand.world.pools[1:3] = [98, 2]
    hand.do("T-MATCH", m=0, **NO_LOCK).do("T-EXTEND", t=5, sampled=1, row=0)
    assert hand.figures == (93, 2, 0, 0, 5)
    hand.do("T-INSERT", q=4, dup=2, swa_dup=0, locked=4, swa_locked=0, swa_u=0)
    assert hand.figures == (95, 0, 4, 0, 1)


def test_plain_finish_leaves_the_tree_only() -> None:
    """T-PLAIN-FINISH: prompt and output into the tree, the rest and the row free."""
    hand = Hand()
    for transition, params in (
        ("T-PLAIN-SUBMIT", {"prompt": 3}),
        ("T-MATCH", {"m": 0, **NO_LOCK}),
        ("T-EXTEND", {"t": 3, "sampled": 1, "row": 2}),
        ("T-DECODE", {"d": 4, "k": 1}),
        ("T-PLAIN-FINISH", {"q": 4, "dup": 1, "swa_dup": 0, **NO_UNLOCK}),
    ):
        told = whole(transition, hand.world.vector("/p"), params)
        assert hand.world.apply(transition, None, "p", told) == []
    assert hand.figures == (97, 3, 0, 0, 0)
    assert hand.world.pools[INDEX["rows.free"]] == 3


def test_every_move_changes_the_figures_it_names() -> None:
    """Counts are derived from the moves: never written twice."""
    span = Interval(slot.Q, slot.A)
    length = "max(0, slot.A - slot.Q)"
    shown = {
        Move.ALLOC: {"full.available": f"full.available - {length}"},
        Move.FREE: {"full.available": f"full.available + {length}"},
        Move.TO_TREE: {"full.evictable": f"full.evictable + {length}"},
        Move.POINT: {},
        Move.EVICT: {
            "full.evictable": f"full.evictable - {length}",
            "full.available": f"full.available + {length}",
        },
        Move.LOCK: {
            "full.evictable": f"full.evictable - {length}",
            "full.protected": f"full.protected + {length}",
        },
        Move.UNLOCK: {
            "full.protected": f"full.protected - {length}",
            "full.evictable": f"full.evictable + {length}",
        },
        Move.TAKE_ROW: {"rows.free": f"rows.free - {length}"},
        Move.GIVE_ROW: {"rows.free": f"rows.free + {length}"},
    }
    assert set(shown) == set(Move)
    for move, expected in shown.items():
        figures = counts((Mem(move, span, span),))
        assert {
            name: show(expr) for name, expr in figures.items() if not name.startswith("swa")
        } == expected
        sums = [name for name in figures if name.startswith("swa")]
        assert len(sums) == (0 if "ROW" in move.name else len(expected))


def test_moves_add_up() -> None:
    """Two moves of a figure both count."""
    figures = counts((free(slot, 3, 5), alloc(0, 1)))
    assert show(figures["full.available"]) == "full.available + max(0, 5 - 3) - max(0, 1 - 0)"


def test_a_free_leaves_out_what_the_cursor_gave_back() -> None:
    """INV-CURSOR: in the SWA pool an interval starts at the cursor at least."""
    figures = counts((free(slot, 3, 5),))
    assert show(figures["swa.available"]) == (
        "swa.available + ite(config.swa, max(0, 5 - max(3, slot.E)), 0)"
    )


def test_what_is_taken_must_be_there() -> None:
    """Guard conjuncts for the moves are derived, too."""
    need = affordable((take_row(slot.lent), alloc(0, 3), lock(2, 0), unlock(1, 0), *release(
        slot, slot.holding, 0, 0
    ), give_row(slot.lent)))  # fmt: skip
    assert set(need) == {
        "a_row", "full_available", "swa_available", "full_evictable", "swa_evictable",
    }  # fmt: skip
    assert show(need["full_available"]) == "max(0, 3 - 0) ≤ full.available"
    to_tree = Mem(Move.TO_TREE, count(4), count(0))
    both = affordable((to_tree, lock(2, 0)))
    assert show(both["full_evictable"]).endswith("≤ full.evictable + max(0, 4 - 0)")


def test_alloc_is_the_only_way_to_take_from_the_free_list() -> None:
    """The guard of a transition covers every fall of the available figure."""
    for transition in TRANSITIONS.values():
        takes = any(mem.move is Move.ALLOC for mem in transition.memory)
        assert takes == ("full_available" in transition.full_guard), transition.id
