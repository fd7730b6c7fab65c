"""Bugs of the prefix tree: it finds KV of tokens that only look the same, does not find all that
there is, or does not get what it should."""

from __future__ import annotations

from collections.abc import Sequence

from slotproof_engine.memory.tree import PrefixTree, TreeNode
from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.req import Req
from slotproof_engine.sessions.session_cache import SessionCache


class EndsOfPages(PrefixTree):
    def child(self, node: TreeNode, key: tuple[int, ...]) -> TreeNode | None:
        """Compares the first and the last token of a page."""
        ends = key[0], key[-1]
        alike = (each for k, each in node.children.items() if (k[0], k[-1]) == ends)
        return next(alike, None)


class SumOfPage(PrefixTree):
    def child(self, node: TreeNode, key: tuple[int, ...]) -> TreeNode | None:
        """Knows a page by a hash that is the same in whatever order the tokens are."""
        known = {tuple(sorted(k)): each for k, each in node.children.items()}
        return known.get(tuple(sorted(key)))


class HashOfPageAlone(PrefixTree):
    def child(self, node: TreeNode, key: tuple[int, ...]) -> TreeNode | None:
        """Knows a page by its own tokens and how far they are from the beginning, whatever comes
        before them."""
        beside = [node] if node.parent is None else list(node.parent.children.values())
        return next((each.children[key] for each in beside if key in each.children), None)


class FiledByLastToken(PrefixTree):
    def grow(self, node: TreeNode, leaf: TreeNode) -> TreeNode:
        """Where a prefix branches within a page, each part is filed under its last token: one that
        ends the same takes the place of the one before it."""
        ends = leaf.key[0], leaf.key[-1]
        for key in [k for k in node.children if (k[0], k[-1]) == ends]:
            del node.children[key]
        return super().grow(node, leaf)


class LastTokenTwice(PrefixTree):
    def match_prefix(self, tokens: Sequence[int]) -> TreeNode:
        """Leaves out the last token, as its caller did."""
        return super().match_prefix(tokens[:-1])


class PromptStaysPrivate(SessionCache):
    def cache_unfinished_req(self, req: Req) -> None:
        """Shares nothing of a request without a session before it ends."""
        if req.session_id is not None:
            super().cache_unfinished_req(req)


class AnswerIsDropped(SessionCache):
    def cache_finished_req(self, req: Req, finished_len: int) -> None:
        """Gives back whatever a request without a session had not shared while it ran."""
        if req.session_id is None:
            req.kv_committed_len = req.cache_protected_len
        super().cache_finished_req(req, finished_len)


MUTANTS = (
    Mutant(
        "prefix-prompt-private",
        "a plain fault",
        "the tree gets a request's prompt when the request ends, not when it is computed",
        ("INV-MATCH",),
        swap(cache=PromptStaysPrivate),
    ),
    Mutant(
        "prefix-answer-dropped",
        "a plain fault",
        "a request ends, and the tree keeps its prompt alone",
        ("INV-MATCH",),
        swap(cache=AnswerIsDropped),
    ),
    Mutant(
        "prefix-last-token-twice",
        "a plain fault",
        "a match leaves out the last token of what it is asked for, and finds a page less",
        ("INV-MATCH",),
        swap(tree=LastTokenTwice),
    ),
    Mutant(
        "prefix-ends-of-pages",
        "a plain fault",
        "of a page's tokens the prefix tree compares the first and the last",
        ("INV-CONTENT",),
        swap(tree=EndsOfPages),
        {"page_size": 4},
    ),
    Mutant(
        "prefix-hash-without-order",
        "a plain fault",
        "the hash of a page is the same in whatever order its tokens are",
        ("INV-CONTENT",),
        swap(tree=SumOfPage),
        {"page_size": 4},
    ),
    Mutant(
        "prefix-hash-without-parent",
        "a plain fault",
        "the hash of a page says nothing of the page before it: another prefix's KV is shared",
        ("INV-BACKED", "INV-CONTENT"),
        swap(tree=HashOfPageAlone),
    ),
    Mutant(
        "prefix-split-by-last-token",
        "a plain fault",
        "of two pages that begin and end alike the later one takes the other's place",
        ("INV-OWNER", "INV-BACKED", "INV-LOCK"),
        swap(tree=FiledByLastToken),
        {"page_size": 4},
    ),
)
