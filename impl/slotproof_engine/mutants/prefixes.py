"""Bugs of the prefix tree: a match misses a page, or the tree misses KV."""

from __future__ import annotations

from collections.abc import Sequence

from slotproof_engine.memory.tree import PrefixTree, TreeNode
from slotproof_engine.mutants.registry import Mutant, swap
from slotproof_engine.requests.req import Req
from slotproof_engine.sessions.session_cache import SessionCache


class LastTokenTwice(PrefixTree):
    def match_prefix(self, tokens: Sequence[int]) -> TreeNode:
        """Leave out one more token, although the caller has already left out the last token."""
        return super().match_prefix(tokens[:-1])


class PromptStaysPrivate(SessionCache):
    def cache_unfinished_req(self, req: Req) -> None:
        """Publish no KV of a request without a session until the request ends."""
        if req.session_id is not None:
            super().cache_unfinished_req(req)


class AnswerIsDropped(SessionCache):
    def cache_finished_req(self, req: Req, finished_len: int) -> None:
        """Free the answer's KV of a request without a session, instead of publishing the KV."""
        if req.session_id is None:
            req.kv_committed_len = req.cache_protected_len
        super().cache_finished_req(req, finished_len)


MUTANTS = (
    Mutant(
        "prefix-prompt-private",
        "a plain fault",
        "a prompt enters the tree when its request ends, not when the prompt is computed",
        ("INV-MATCH",),
        swap(cache=PromptStaysPrivate),
    ),
    Mutant(
        "prefix-answer-dropped",
        "a plain fault",
        "only the prompt of a finished request is in the tree, not the answer",
        ("INV-MATCH",),
        swap(cache=AnswerIsDropped),
    ),
    Mutant(
        "prefix-last-token-twice",
        "a plain fault",
        "a match leaves out the last token of its key and may find one page too few",
        ("INV-MATCH",),
        swap(tree=LastTokenTwice),
    ),
)
