"""Named pages and several actors: facts beyond an actor's figures (INV-PIN, ADR 10).

In every hole all invariants over figures hold, for all actors, from the initial state on.
"""

from __future__ import annotations

import pytest

from slotproof_model.evaluation.world import Constants
from slotproof_model.spec.profiles import PROFILES
from tests.checks.paged import Choice, Paged


class Hand(Paged):
    """A world in which steps outside the test must be allowed."""

    def __init__(self, window: int = 0, page: int = 1, tokens: int = 12) -> None:
        constants = Constants(page, 8 * page, window, PROFILES["reference"], slack=2)
        super().__init__(constants, tokens * page, tokens * page if window else 0, 6)
        self.window = window

    def ok(self, transition: str, who: str, /, pages: dict[str, Choice] | None = None,
           **params: int) -> None:  # fmt: skip
        assert self.step(transition, who, pages, **params) == []

    def step(self, transition: str, who: str, pages: dict[str, Choice] | None = None,
             **params: int) -> list[str]:  # fmt: skip
        """A capital letter is a session with its turn, everything else a request."""
        sid, rid = (who, who) if who[:1].isupper() else (None, who or None)
        both = dict.fromkeys(("u", "swa_u", "locked", "swa_locked", "dup", "swa_dup", "swa_n"), 0)
        return self.do(transition, sid, rid, {**both, **params}, pages)

    def finished(self, who: str, prompt: int, row: int) -> None:
        """Run a request whose prompt ends up in the tree, except for its last token."""
        size = self.size
        self.ok("T-PLAIN-SUBMIT", who, prompt=prompt)
        self.ok("T-MATCH", who, m=0)
        self.ok("T-EXTEND", who, t=prompt, ahead=0, sampled=1, told=1, row=row)
        self.ok("T-PLAIN-FINISH", who, q=(prompt - 1) // size * size)

    def running(
        self, who: str, path: list[int], u: int, row: int, swa: list[int] | None = None,
        swa_u: int = 0,
    ) -> None:  # fmt: skip
        """Match these pages of the tree, and prefill one token more."""
        self.match(who, path, u, swa, swa_u)
        self.ok("T-EXTEND", who, t=len(path) * self.size + 1, ahead=0, sampled=1, told=1, row=row)

    def match(
        self, who: str, path: list[int], u: int, swa: list[int] | None = None, swa_u: int = 0
    ) -> None:
        matched = len(path) * self.size
        if who[:1].isupper():
            self.ok("T-OPEN", who)
            self.ok("T-SUBMIT", who, new=matched + 1)
        else:
            self.ok("T-PLAIN-SUBMIT", who, prompt=matched + 1)
        self.ok("T-MATCH", who, self.at(path, swa), m=matched, locked=u, swa_locked=swa_u)

    def at(self, path: list[int], swa: list[int] | None = None) -> dict[str, Choice]:
        both = {"full": path, "swa": swa or []}
        return {
            pool: Choice({index * self.size: page for index, page in enumerate(choice)})
            for pool, choice in both.items()
        }

    def tree(self, pool: str = "full") -> list[int]:
        return sorted(self.layers[pool].tree)


@pytest.fixture
def three() -> Hand:
    """Build prefix a (one token) locked by b and by session S, and prefix b of two tokens locked by
    c."""
    hand = Hand()
    hand.finished("r", 2, 0)
    (a,) = hand.tree()
    hand.finished("q", 3, 0)
    longer = [page for page in hand.tree() if page != a]
    hand.running("b", [a], 1, 0)
    hand.running("c", longer, 2, 1)
    hand.running("S", [a], 0, 2)
    hand.ok("T-SAVE", "S")
    return hand


def test_a_close_does_not_drop_anothers_lock(three: Hand) -> None:
    """Hole A: lock_max and lock_sum allow u = 1, although request b still locks the page."""
    said = three.step("T-CLOSE", "S", u=1)
    assert said == ["T-CLOSE [full] / choice.last_pin", "INV-PIN.full"]


def test_a_close_that_drops_nothing_is_allowed(three: Hand) -> None:
    """A page locked by a running request is not evicted afterwards."""
    three.ok("T-CLOSE", "S", u=0)
    (shared,) = three.layers["full"].locks["/b"]
    said = three.step("T-EVICT", "", {"full": Choice(evicted=frozenset([shared]))}, n=1)
    assert "T-EVICT [full] / choice.unpinned" in said
    assert "INV-PIN.tree" in said


def test_a_lock_that_nobody_drops_is_not_hidden_by_sharing() -> None:
    """Hole A2: u = 0 leaves S's page protected forever, hidden by the equal locks of b and c."""
    hand = Hand()
    hand.finished("r", 2, 0)
    (a,) = hand.tree()
    hand.finished("q", 2, 0)
    (other,) = (page for page in hand.tree() if page != a)
    hand.running("b", [a], 1, 0)
    hand.running("c", [a], 0, 1)
    hand.running("S", [other], 1, 2)
    hand.ok("T-SAVE", "S")
    said = hand.step("T-CLOSE", "S", u=0)
    assert said == ["T-CLOSE [full] / choice.last_pin", "INV-PIN.full"]


def test_the_window_of_a_running_request_stays_locked() -> None:
    """Hole B: in the sliding-window pool two actors suffice."""
    hand = Hand(window=1)
    hand.finished("r", 2, 0)
    full, swa = hand.tree(), hand.tree("swa")
    hand.running("b", full, 1, 0, swa, 1)
    hand.running("S", full, 0, 1, swa, 0)
    hand.ok("T-SAVE", "S")
    said = hand.step("T-CLOSE", "S", u=0, swa_u=1)
    assert said == ["T-CLOSE [swa] / choice.last_pin", "INV-PIN.swa"]


def test_a_match_needs_the_window_of_its_prefix() -> None:
    """Hole D: the first pool has all of the prefix, the second pool nothing."""
    hand = Hand(window=2)
    hand.finished("r", 5, 0)
    gone = {"swa": Choice(evicted=frozenset(hand.tree("swa")))}
    hand.ok("T-EVICT", "", gone, n=0, swa_n=4)
    hand.ok("T-PLAIN-SUBMIT", "b", prompt=5)
    said = hand.step("T-MATCH", "b", hand.at(hand.tree()), m=4, locked=4)
    assert set(said) == {
        "T-MATCH [swa] / choice.found",
        "T-MATCH / guard.window",
        "INV-LOCK-STEP.window",
        "INV-BACKED.swa_protected",
    }


def test_the_window_is_all_that_a_match_needs() -> None:
    """Pages below the window may be gone, and the lock need not cover them."""
    hand = Hand(window=2)
    hand.finished("r", 5, 0)
    first, second, *window = hand.tree("swa")
    hand.ok("T-EVICT", "", {"swa": Choice(evicted=frozenset([first]))}, n=0, swa_n=1)
    hand.ok("T-PLAIN-SUBMIT", "b", prompt=5)
    pointed = {at + 1: page for at, page in enumerate([second, *window])}
    choice = {**hand.at(hand.tree()), "swa": Choice(pointed, locked=frozenset(window))}
    hand.ok("T-MATCH", "b", choice, m=4, locked=4, swa_locked=2)


def test_an_insert_points_to_the_trees_copy() -> None:
    """T-INSERT: tokens meanwhile in the tree are freed, and the row has the tree's page, locked."""
    hand = Hand()
    for who, row in (("b", 0), ("c", 1)):
        hand.ok("T-PLAIN-SUBMIT", who, prompt=3)
        hand.ok("T-MATCH", who, m=0)
        hand.ok("T-EXTEND", who, t=3, ahead=0, sampled=1, told=1, row=row)
    hand.ok("T-INSERT", "b", q=2, locked=2)
    first, second = hand.tree()
    hand.ok("T-INSERT", "c", hand.at([first, second]), q=2, dup=2)
    assert hand.layers["full"].rows["/c"][0] == first
    assert hand.layers["full"].locks["/c"] == {first, second}
    hand.ok("T-PLAIN-ABORT", "b", u=0)
    hand.ok("T-PLAIN-ABORT", "c", u=2)


def test_an_insert_that_keeps_pointing_to_its_own_pages_is_seen() -> None:
    """The pages were freed, so a later owner would share them."""
    hand = Hand()
    for who, row in (("b", 0), ("c", 1)):
        hand.ok("T-PLAIN-SUBMIT", who, prompt=3)
        hand.ok("T-MATCH", who, m=0)
        hand.ok("T-EXTEND", who, t=3, ahead=0, sampled=1, told=1, row=row)
    hand.ok("T-INSERT", "b", q=2, locked=2)
    said = hand.step("T-INSERT", "c", q=2, dup=2)
    assert "T-INSERT [full] / choice.found" in said
    assert "INV-BACKED.full_protected" in said


def test_whole_pages() -> None:
    """P = 4: a page counts four tokens, in u as well."""
    hand = Hand(page=4, tokens=6)
    hand.finished("r", 9, 0)
    path = hand.tree()
    assert len(path) == 2
    hand.running("b", path, 8, 0)
    said = hand.step("T-PLAIN-ABORT", "b", u=4)
    assert "T-PLAIN-ABORT [full] / choice.last_pin" in said
