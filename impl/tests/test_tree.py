"""The prefix tree: match, insert, lock, evict."""

from __future__ import annotations

from slotproof_engine.memory.tree import PrefixTree


def figures(tree: PrefixTree) -> tuple[int, int]:
    return tree.evictable, tree.protected


def test_only_whole_pages_match() -> None:
    tree = PrefixTree(2)
    tree.insert(tree.root, [1, 2, 3, 4, 5], [10, 11], [])
    assert [node.page for node in tree.match_prefix([1, 2, 3, 4, 5]).path()] == [10, 11]
    assert [node.page for node in tree.match_prefix([1, 2, 3]).path()] == [10]
    assert tree.match_prefix([2, 2]) is tree.root
    assert figures(tree) == (4, 0)


def test_insert_says_what_was_there() -> None:
    tree = PrefixTree(1)
    tree.insert(tree.root, [1, 2], [0, 1], [7, 8])
    node, dup = tree.insert(tree.root, [1, 2, 3], [4, 5, 6], [4, 5, 6])
    assert dup == 2
    assert [(step.page, step.swa_page) for step in node.path()] == [(0, 7), (1, 8), (6, 6)]


def test_a_shared_lock_moves_a_page_once() -> None:
    """INV-LOCK: protected counts a page once, for any number of locks."""
    tree = PrefixTree(1)
    node, _ = tree.insert(tree.root, [1, 2, 3], [0, 1, 2], [])
    first = tree.match_prefix([1])
    assert tree.lock(node) == 3
    assert tree.lock(first) == 0
    assert tree.unlock(node) == 2
    assert figures(tree) == (2, 1)
    assert tree.unlock(first) == 1
    assert tree.lock(tree.root) == 0


def test_eviction_takes_the_oldest_unlocked_leaves() -> None:
    tree = PrefixTree(1)
    tree.insert(tree.root, [1, 2], [0, 1], [])
    locked, _ = tree.insert(tree.root, [3, 4], [2, 3], [])
    tree.lock(locked)
    tree.insert(tree.root, [5], [4], [])
    tree.match_prefix([1, 2])
    assert [node.page for node in tree.evict(2)] == [4, 1]
    assert [node.page for node in tree.evict(9)] == [0]
    assert figures(tree) == (0, 2)
    assert tree.evicted == 3


def test_an_inner_node_is_not_evicted_before_its_children() -> None:
    tree = PrefixTree(1)
    tree.insert(tree.root, [1, 2, 3], [0, 1, 2], [])
    assert [node.page for node in tree.evict(2)] == [2, 1]
