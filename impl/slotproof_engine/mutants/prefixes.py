"""Bugs of the prefix tree: it finds KV of tokens that only look the same, does not find all that
there is, or does not get what it should."""

from __future__ import annotations

from collections.abc import Sequence

from slotproof_engine.memory.tree import PrefixTree, TreeNode
from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.req import Req
from slotproof_engine.sessions.session_cache import SessionCache


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
)
