"""The prefix tree: KV of finished prompts, shared by whoever begins with the same tokens."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(eq=False, slots=True)
class TreeNode:
    """One page: an edge of P tokens, the page in each pool, who locks it."""

    key: tuple[int, ...]
    page: int
    swa_page: int
    parent: TreeNode | None = field(default=None, repr=False)
    children: dict[tuple[int, ...], TreeNode] = field(default_factory=dict, repr=False)
    lock_ref: int = 0
    last_access: int = 0

    def path(self) -> list[TreeNode]:
        """The nodes from below the root to here: the pages of this prefix, in order."""
        nodes: list[TreeNode] = []
        node = self
        while node.parent is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]


class PrefixTree:
    """A tree with one node per page.

    One node per page, not per run of tokens: a lock on a prefix is then a count
    on each of its nodes, no node is ever split, and how much a lock or an
    eviction moves is a number of nodes. A page is here only if it is whole in
    every pool, so one node stands for the same P tokens of each pool.

    Page ids are read back to the host once, when they are inserted. All sizes
    are tokens of one pool; ``evictable`` and ``protected`` are kept as nodes
    are locked and unlocked. The root holds nothing and is never evicted.
    """

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.root = TreeNode((), -1, -1)
        self.evictable = 0
        self.protected = 0
        self.evicted = 0
        """Since the beginning, in tokens; the same for every pool."""
        self._clock = 0

    def match_prefix(self, tokens: Sequence[int]) -> TreeNode:
        """The node of the longest whole-page prefix of ``tokens`` that is here.

        Changes only the order of eviction. The node may be evicted unless it is locked.
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
        """Add the pages of ``tokens`` below ``node``; they are the tree's from now on, unlocked.

        ``swa_pages`` is empty where there is no second pool. Returns the last
        node and how many of the tokens, from the first on, were here already:
        pages of those stay the caller's, to free.
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
        """The page with these tokens below ``node``, if it is here."""
        return node.children.get(key)

    def grow(self, node: TreeNode, leaf: TreeNode) -> TreeNode:
        """Put a page below ``node``, beside others that may be there; it is unlocked."""
        node.children[leaf.key] = leaf
        self.evictable += self.page_size
        return leaf

    def lock(self, node: TreeNode) -> int:
        """Lock the prefix that ends in ``node``; returns what moved from evictable to protected."""
        moved = 0
        for each in node.path():
            if each.lock_ref == 0:
                moved += self.page_size
            each.lock_ref += 1
        self.evictable -= moved
        self.protected += moved
        return moved

    def unlock(self, node: TreeNode) -> int:
        """Undo one lock; returns what moved from protected to evictable. Trusts its caller."""
        moved = 0
        for each in node.path():
            if each.lock_ref == 1:
                moved += self.page_size
            each.lock_ref -= 1
        self.protected -= moved
        self.evictable += moved
        return moved

    def evict(self, pages: int) -> list[TreeNode]:
        """Drop up to ``pages`` unlocked nodes, least recently used leaves first.

        The pages of the nodes returned are the caller's, to free.
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
        self._clock += 1  # no two nodes have the same
        node.last_access = self._clock
