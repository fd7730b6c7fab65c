"""Memory check of the engine: runs, coverage, figures and report."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.test_walks import command, configuration


def test_every_step_is_checked(drive: Any) -> None:
    d = drive(window=2, swa_tokens=50).step()
    checker = d.engine.checker
    assert (checker.ran, checker.verdict) == (True, "ok")
    d.submit(None, "a", [1, 2], 3).step()
    assert set(checker.figures) == {"full", "swa"}
    assert checker.figures["swa"].total == checker.figures["swa"].sum == 50
    assert str(checker.figures["full"]) == (
        "98 available + 0 evictable + 2 protected + 0 held + 0 uncached = 100 of 100"
    )


def test_level_0_does_not_run(drive: Any) -> None:
    d = drive(checker_level=0).submit(None, "a", [1, 2], 3).step()
    assert (d.engine.checker.ran, d.engine.checker.verdict, d.log) == (False, "off", [])


def test_level_1_is_quiet_until_something_is_wrong(drive: Any) -> None:
    d = drive("leak-full", checker_level=1).open("s").submit("s", "a", [1, 2], 3).step()
    assert d.log == []
    assert len(d.engine.checker.recent) == 1
    d.do("abort", rid="a").submit("s", "b", [1, 2], 3).step(2).do("abort", rid="b").step()
    assert d.engine.checker.verdict == "leak"
    assert d.log[0].startswith("[Mem Check (BUSY)] full: 98 available")
    assert d.log[-1] == f"[Mem Check (IDLE)] leak: {d.engine.checker.message}"


def test_level_2_logs_every_line(drive: Any) -> None:
    d = drive().step(3)
    assert len(d.log) == 3
    assert d.log[0].startswith("[Mem Check (IDLE)] full: 100 available")


def test_the_log_of_level_1_is_bounded(drive: Any) -> None:
    d = drive(checker_level=1).step(1100)
    assert len(d.engine.checker.recent) == 1000


def test_a_lost_row_is_seen_when_idle(drive: Any) -> None:
    d = drive().step()
    d.engine.kv.req_to_token_pool.alloc()
    d.step()
    assert d.engine.checker.verdict == "leak"
    assert d.engine.checker.message == "rows: 7 free + 0 held of 8"


def test_a_batch_seen_twice_counts_once(drive: Any) -> None:
    """INV-CHECKER (#27228): the decoding batch is both the last and the running batch."""
    d = drive().submit(None, "a", [1, 2], 9).step(3)
    assert d.engine.scheduler.last_batch is d.engine.scheduler.running_batch
    assert len(d.engine.checker.batches()) == 1
    d.submit(None, "b", [3, 4], 9).step()
    assert len(d.engine.checker.batches()) == 2
    assert d.figures() == (94, 0, 4, 0, 2)


@pytest.mark.parametrize("seed", range(6))
def test_the_page_audit_finds_nothing_in_the_reference(drive: Any, seed: int) -> None:
    """INV-OWNER: on a walk through a small engine, in every pool, after every step."""
    r = random.Random(seed)
    d = drive(**configuration(r), audit=True).open("a", "b")
    for number in range(20):
        d.engine.do(command(r, number))
        d.step()
        assert d.engine.checker.message == ""


def test_the_page_audit_sees_what_the_sum_does_not(drive: Any) -> None:
    """INV-OWNER: a page has two owners, another has none, and the sum is right."""
    d = drive(audit=True).submit(None, "r", [1, 2, 3], 9).step(3)
    free = d.engine.kv.allocators["full"].free_pages
    free[0] = free[1]
    d.step()
    assert d.reported_sum() == 100
    assert d.engine.checker.verdict == "leak"
    assert "full: a page has no owner: 1" in d.engine.checker.message
