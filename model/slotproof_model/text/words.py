"""What each variable of the spec means, in a line: the words of the documents."""

from __future__ import annotations

from slotproof_model.spec.expr import Var

_KV = {
    "row": "line of `req_to_token`, `no_row` when there is none (`req_pool_idx`)",
    "C": "committed: positions with valid KV (`kv_committed_len`)",
    "A": "allocated: from Q up to it, positions own memory (`kv_allocated_len`)",
    "Q": "protected prefix: what the tree owns of the row (`cache_protected_len`)",
    "E": "SWA cursor: from Q up to it, sliding-window KV was given back (`swa_evicted_seqlen`)",
    "locked": "owns the tree lock on the first Q positions (`last_node`)",
}
_POOL = {
    "total": "size of the pool",
    "available": "the free list",
    "evictable": "in the prefix tree, locked by nobody",
    "protected": "in the prefix tree, locked by somebody; a shared page counts once",
}

WORDS: dict[str, str] = {
    **{f"full.{name}": text for name, text in _POOL.items()},
    **{f"swa.{name}": text for name, text in _POOL.items()},
    "rows.total": "rows of `req_to_token`",
    "rows.free": "rows that nobody has",
    "session.open": "the session exists",
    "session.closing": "a close was asked for while a turn was in flight",
    "session.inflight": "a turn was accepted and has not ended",
    "session.history": "tokens of finished turns, prompts and outputs",
    "slot.holding": "the session keeps KV between turns",
    "slot.lent": "that KV is on loan to a turn (`is_active`)",
    **{f"slot.{name}": text for name, text in _KV.items()},
    "req.kind": "`none`, `turn` (of the session) or `plain` (a request without one)",
    "req.phase": "`absent` < `waiting` < `matched` < `parked` < `running`",
    "req.prompt": "tokens of the prompt; a turn's includes the history",
    "req.output": "tokens sampled so far",
    **{f"req.{name}": text for name, text in _KV.items()},
    "frame.held": "held by slots of others",
    "frame.uncached": "private KV of requests of others",
    "frame.swa_held": "the same in the sliding-window pool",
    "frame.swa_uncached": "the same in the sliding-window pool",
    "frame.rows": "rows of others",
    "frame.lock_max": "longest prefix that one of the others locks: so much stays protected",
    "frame.lock_sum": "all prefixes that others lock, shared pages counted often",
    "page.free": "entries of the free list that are this page",
    "page.tree": "1 if the tree has it",
    "page.own": "1 if this actor's row owns it",
    "page.rest": "rows of others that own it",
    "page.here": "this actor's row points to it",
    "page.at": "if so, the position of its first token; of several the one written last",
    "page.pin": "this actor's lock covers it",
    "page.pins": "how many other actors' locks do",
    "page.beside": "tokens of all other pages of the pool that somebody locks",
    "page.number": "its number",
    "page.place": "an arbitrary position of this actor's row, the first of a page",
    "page.entry": "number of the page that the row has there, -1 where it has none",
    "line.number": "its number",
    "line.free": "entries of the free list that are this row",
    "line.rest": "slots and requests of others that have it",
    "config.swa": "the model has sliding-window layers, so there is a second pool",
    "config.window": "how many of the last positions such a layer needs",
    "config.width": "positions that a row can hold",
    "config.reserve": "known tokens that a restore leaves to be recomputed, for their logits",
    "config.aligned_reuse": "reuse stops at a page boundary",
    "config.retract_keeps": "a retracted turn leaves its KV in the slot",
    "config.abort_publishes": "an aborted turn may leave its KV to the tree",
    "config.overlap": "a round is launched before the result of the one before is known",
    "config.loan_publishes": "a turn publishes its KV while its slot is on loan, too",
    "config.keeps_slack": "what is allocated past the end of a turn stays with its slot",
}


def word(var: Var) -> str:
    """What a variable means.

    >>> from slotproof_model.spec.state import slot
    >>> word(slot.C)
    'committed: positions with valid KV (`kv_committed_len`)'
    """
    return WORDS[var.name]
