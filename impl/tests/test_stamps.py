"""INV-CONTENT: stamps detect a page other than the saved page, even with equal tokens."""

from __future__ import annotations

from typing import Any

import pytest


def two_sessions(d: Any) -> Any:
    """Sessions with the same conversation: their KV is equal, number by number."""
    for sid, rid in (("a", "r1"), ("b", "r2")):
        d.open(sid).submit(sid, rid, [5, 6], 6).drain()
    return d


@pytest.mark.parametrize("pool", ["full", "swa"])
def test_an_equal_page_of_another_session_is_noticed_on_restore(drive: Any, pool: str) -> None:
    d = two_sessions(drive(window=4, swa_tokens=100))
    assert d.answer("r1")["tokens"] == d.answer("r2")["tokens"]
    slots = d.engine.cache.slots
    table = d.engine.kv.req_to_token_pool.req_to_token[pool]
    one, other = slots["a"].req_pool_idx, slots["b"].req_pool_idx
    table[[one, other], 5] = table[[other, one], 5]
    assert d.broken() == set()  # every page has an owner, every position its token
    d.submit("a", "r3", [9], 3).step()
    assert d.broken() == {"INV-CONTENT"}
    assert d.engine.content({one: 6})[one][5] == (-1, -1)


def test_a_page_that_was_freed_meanwhile_is_noticed(drive: Any) -> None:
    d = two_sessions(drive())
    slot = d.engine.cache.slots["a"]
    kv = d.engine.kv
    kv.stamps["full"].free(kv.req_to_token_pool.pages("full", slot.req_pool_idx, 5, 6))
    assert d.broken() == set()
    d.submit("a", "r3", [9], 3).step()
    assert d.broken() == {"INV-CONTENT"}


def test_restored_pages_that_are_as_they_were_are_not_suspect(drive: Any) -> None:
    d = two_sessions(drive(draft=3, page_size=4))
    for number in range(4):
        d.submit("a", f"t{number}", [number], 3).step(2).do("retract").step().drain()
        assert d.broken() == set()
    assert not d.engine.kv.stamps["full"].suspect().any()
