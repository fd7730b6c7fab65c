"""Prefix tree: published KV, shared by requests that begin with the same tokens."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class TreeNode:
    """A page of the prefix tree: an edge of P tokens, the page ID in each pool, the number of
    locks."""

    key: tuple[int, ...]
    page: int
    swa_page: int
    parent: TreeNode | None = field(default=None, repr=False)
    children: dict[tuple[int, ...], TreeNode] = field(default_factory=dict, repr=False)
    lock_ref: int = 0
    last_access: int = 0

    def path(self) -> list[TreeNode]:
        """Return the nodes of the prefix in order, from the root's child to this node."""
        nodes: list[TreeNode] = []
        node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


class PrefixTree:
    """A tree with one node per page.

    A node is one page, so no node is ever split. Locking a prefix increments a counter on its
    nodes. A lock or an eviction covers whole nodes. A node holds the same P tokens in every pool,
    so a page that lacks tokens in a pool is not in the tree.

    The host reads page IDs from the device once, on insertion. Sizes are in tokens of one pool.
    ``evictable`` and ``protected`` change when nodes are locked and unlocked. The root holds no
    page and is never evicted.
    """

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.root = TreeNode((), -1, -1)
        self.evictable = 0
        self.protected = 0
        self.evicted = 0
        """Number of tokens evicted since the start, equal in every pool."""
        self._clock = 0

    def match_prefix(self, tokens: Sequence[int]) -> TreeNode:
        """Return the node of the longest whole-page prefix of ``tokens`` in the tree.

        Changes only the order of eviction. The node may be evicted unless the caller locks it.
        """
        node = self.root
        for key in self._pages(tokens):
            child = self.child(node, key)
            if child is None:
                break
            node = child
            self._touch(node)
        return node

    def insert(
        self, node: TreeNode, tokens: Sequence[int], pages: list[int], swa_pages: list[int]
    ) -> tuple[TreeNode, int]:
        """Add the pages of ``tokens`` below ``node``, unlocked and owned by the tree from now on.

        ``swa_pages`` is empty without a second pool. Returns the last node and the number of
        leading tokens already in the tree. The caller still owns the pages of those tokens and must
        free them.
        """
        dup = 0
        for index, key in enumerate(self._pages(tokens)):
            child = self.child(node, key)
            if child is not None:
                dup += self.page_size
            else:
                swa_page = swa_pages[index] if swa_pages else -1
                child = self.grow(node, TreeNode(key, pages[index], swa_page, node))
            node = child
            self._touch(node)
        return node, dup

    def child(self, node: TreeNode, key: tuple[int, ...]) -> TreeNode | None:
        """Return the child of ``node`` whose page has the tokens ``key``, or None."""
        return node.children.get(key)

    def grow(self, node: TreeNode, leaf: TreeNode) -> TreeNode:
        """Add the unlocked page ``leaf`` as a child of ``node``."""
        node.children[leaf.key] = leaf
        self.evictable += self.page_size
        return leaf

    def lock(self, node: TreeNode) -> int:
        """Lock the prefix ending in ``node``. Return the number of tokens made protected."""
        moved = 0
        for ancestor in node.path():
            if ancestor.lock_ref == 0:
                moved += self.page_size
            ancestor.lock_ref += 1
        self.evictable -= moved
        self.protected += moved
        return moved

    def unlock(self, node: TreeNode) -> int:
        """Undo a lock. Return the number of tokens made evictable. The caller is trusted."""
        moved = 0
        for ancestor in node.path():
            if ancestor.lock_ref == 1:
                moved += self.page_size
            ancestor.lock_ref -= 1
        self.protected -= moved
        self.evictable += moved
        return moved

    def evict(self, pages: int) -> list[TreeNode]:
        """Drop up to ``pages`` unlocked nodes, least recently used leaves first.

        The caller owns the pages of the returned nodes and must free them.
        """
        leaves = [(node.last_access, node) for node in self.nodes() if self._evictable(node)]
        heapq.heapify(leaves)
        gone: list[TreeNode] = []
        while leaves and len(gone) < pages:
            node = heapq.heappop(leaves)[1]
            gone.append(node)
            parent = node.parent
            assert parent is not None
            del parent.children[node.key]
            if self._evictable(parent):
                heapq.heappush(leaves, (parent.last_access, parent))
        self.evictable -= len(gone) * self.page_size
        self.evicted += len(gone) * self.page_size
        return gone

    def nodes(self) -> list[TreeNode]:
        """Return every node but the root."""
        nodes, stack = [], list(self.root.children.values())
        while stack:
            nodes.append(node := stack.pop())
            if node.children:
                stack += node.children.values()
        return nodes

    def _evictable(self, node: TreeNode) -> bool:
        return node.parent is not None and not node.children and node.lock_ref == 0

    def _pages(self, tokens: Sequence[int]) -> Iterator[tuple[int, ...]]:
        size = self.page_size
        for lo in range(0, len(tokens) - size + 1, size):
            yield tuple(tokens[lo : lo + size])

    def _touch(self, node: TreeNode) -> None:
        self._clock += 1  # unique: the heap in evict cannot compare nodes
        node.last_access = self._clock
