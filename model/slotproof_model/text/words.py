"""Meaning of every variable of the spec in one line, for the documents."""

from __future__ import annotations

from slotproof_model.spec.expr import Var

_KV = {
    "row": "row of `req_to_token`, `no_row` if none (`req_pool_idx`)",
    "C": "committed: positions with valid KV (`kv_committed_len`)",
    "A": "allocated: positions from Q to A own memory (`kv_allocated_len`)",
    "Q": "protected prefix: the part of the row owned by the tree (`cache_protected_len`)",
    "E": "SWA cursor: sliding-window KV from Q to E was freed (`swa_evicted_seqlen`)",
    "locked": "owns the tree lock on the first Q positions (`last_node`)",
}
_POOL = {
    "total": "size of the pool",
    "available": "the free list",
    "evictable": "in the prefix tree and unlocked",
    "protected": "in the prefix tree and locked, each page counted once",
}

WORDS: dict[str, str] = {
    **{f"full.{name}": text for name, text in _POOL.items()},
    **{f"swa.{name}": text for name, text in _POOL.items()},
    "rows.total": "rows of `req_to_token`",
    "rows.free": "rows that are free",
    "session.open": "the session exists",
    "session.closing": "a close was requested while a turn was in flight",
    "session.inflight": "a turn was accepted and has not ended",
    "session.history": "tokens of finished turns, prompts and outputs",
    "slot.holding": "the session holds KV between turns",
    "slot.lent": "the slot's KV is on loan to a turn (`is_active`)",
    **{f"slot.{name}": text for name, text in _KV.items()},
    "req.kind": "`none`, `turn` (of the session) or `plain` (a request without a session)",
    "req.phase": "`absent` < `waiting` < `matched` < `parked` < `running`",
    "req.prompt": "tokens of the prompt, including the history for a turn",
    "req.output": "known tokens after the prompt, even past the answer's end",
    "req.told": "output tokens of the answer: the client was told these tokens",
    "req.rounds": "launched rounds whose result has not arrived, under overlap scheduling",
    **{f"req.{name}": text for name, text in _KV.items()},
    "frame.held": "full-pool tokens held by slots of all other actors",
    "frame.uncached": "private full-pool KV of requests of all other actors",
    "frame.swa_held": "sliding-window tokens held by slots of all other actors",
    "frame.swa_uncached": "private sliding-window KV of requests of all other actors",
    "frame.rows": "rows of all other actors",
    "frame.lock_max": "longest prefix locked by another actor, a lower bound of protected",
    "frame.lock_sum": "sum of all prefixes locked by other actors, shared pages counted once per "
    "lock",
    "page.free": "number of free-list entries for the page",
    "page.tree": "1 if the tree has the page",
    "page.own": "1 if the actor's row owns the page",
    "page.rest": "number of other actors' rows that own the page",
    "page.here": "the actor's row points to the page",
    "page.at": "last position in the row at which the page's first token was written",
    "page.pin": "the actor's lock covers the page",
    "page.pins": "number of other actors' locks that cover the page",
    "page.beside": "tokens of all other locked pages of the pool",
    "page.number": "number of the page",
    "page.place": "an arbitrary position of the actor's row, the first of a page",
    "page.entry": "number of the row's page at that position, -1 if none",
    "line.number": "number of the row",
    "line.free": "number of free-list entries for the row",
    "line.rest": "number of other actors' slots and requests with the row",
    "config.swa": "the model has sliding-window layers, and a second pool",
    "config.window": "number of the last positions to which a sliding-window layer attends",
    "config.width": "number of positions in a row",
    "config.reserve": "number of known tokens that a restore leaves to recompute, for their logits",
    "config.aligned_reuse": "reuse stops at a page boundary",
    "config.retract_keeps": "a retracted turn leaves its KV in the slot",
    "config.abort_publishes": "an aborted turn may leave its KV to the tree",
    "config.overlap": "a decoding round is launched before the previous round's result is known",
    "config.loan_publishes": "a turn publishes its KV even while its slot is on loan",
    "config.drops_last": "the history leaves out an answer's last token",
    "config.keeps_slack": "memory allocated past the end of a turn stays with its slot",
    "config.slack": "positions that a decoding round may allocate past the KV that it computes",
    "config.batches": "largest number of a request's rounds without a result, at least 2",
    "step.new": "number of tokens that the client appends to the history",
    "step.closes": "the client asks for the session's close",
    "step.final": "the client gets the last message about its request",
    "step.finishes": "a request ends with a complete answer",
    "step.at": "position of the first token that becomes known in the step",
    "step.published": "end of the prefix that the step gives to the tree, -1 if none",
    "step.evicted": "full-pool tokens that the step takes from the prefix tree",
    "step.swa_evicted": "sliding-window tokens that the step takes from the prefix tree",
    "step.detached": "the step detaches a request, which continues alone",
}


def word(var: Var) -> str:
    """Return the meaning of a variable.

    >>> from slotproof_model.spec.state import slot
    >>> word(slot.C)
    'committed: positions with valid KV (`kv_committed_len`)'
    """
    return WORDS[var.name]
