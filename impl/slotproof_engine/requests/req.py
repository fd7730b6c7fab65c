"""A request, the session of a turn, and the KV record shared by requests and slots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from slotproof_engine.memory.rows import NO_ROW
from slotproof_engine.memory.tree import TreeNode


@dataclass(eq=False, kw_only=True)
class KVRecord:
    """KV along a row, with 0 <= cache_protected_len <= kv_committed_len <= kv_allocated_len.

    [0, cache_protected_len)                  the tree's pages, locked through last_node.
    [cache_protected_len, kv_committed_len)   valid KV owned by the record.
    [kv_committed_len, kv_allocated_len)      owned memory without valid KV (draft slack).
    [cache_protected_len, swa_evicted_seqlen) sliding-window KV already freed.
    """

    req_pool_idx: int = NO_ROW
    kv_committed_len: int = 0
    kv_allocated_len: int = 0
    cache_protected_len: int = 0
    swa_evicted_seqlen: int = 0
    last_node: TreeNode | None = None
    """Tree node at the end of the locked prefix. The root if the prefix is empty."""

    def copy_kv(self, other: KVRecord) -> None:
        """Copy ``other``, so that both records describe the same KV. Moves no memory."""
        self.req_pool_idx = other.req_pool_idx
        self.kv_committed_len = other.kv_committed_len
        self.kv_allocated_len = other.kv_allocated_len
        self.cache_protected_len = other.cache_protected_len
        self.swa_evicted_seqlen = other.swa_evicted_seqlen
        self.last_node = other.last_node

    def clear_kv(self) -> None:
        """Clear the record, so that it describes no KV. The caller must free the memory."""
        self.copy_kv(KVRecord())


class Phase(StrEnum):
    WAITING = "waiting"
    MATCHED = "matched"
    PARKED = "parked"
    RUNNING = "running"


@dataclass(eq=False, kw_only=True)
class Req(KVRecord):
    """A request. While it runs, KV is committed for all tokens except the last sampled token."""

    rid: str
    origin_input_ids: list[int]
    max_new_tokens: int
    stop_token_ids: frozenset[int] = frozenset()
    session: Session | None = None
    """Session of a turn. None for a rejected turn, a detached doomed turn, and a plain request."""
    kind: str = "plain"
    doomed: str = ""
    """Reason why the turn will be aborted, determined before the match. Empty if not doomed."""
    output_ids: list[int] = field(default_factory=list)
    phase: Phase = Phase.WAITING
    extend_to: int = 0
    """Position where the prefill of this iteration ends."""
    _scanned: int = 0

    @property
    def session_id(self) -> str | None:
        return self.session.session_id if self.session is not None else None

    @property
    def fill_ids(self) -> list[int]:
        """All tokens so far. Token i belongs to KV position i."""
        return self.origin_input_ids + self.output_ids

    @property
    def seqlen(self) -> int:
        return len(self.origin_input_ids) + len(self.output_ids)

    @property
    def remaining_new_tokens(self) -> int:
        return max(0, self.max_new_tokens - len(self.output_ids))

    def told(self, tokens: list[int]) -> int:
        """Return how many of the next outputs belong to the answer."""
        room = self.remaining_new_tokens
        ends = (index + 1 for index, token in enumerate(tokens) if token in self.stop_token_ids)
        return min(room, next(ends, len(tokens)))

    def finished_len(self) -> tuple[int, str] | None:
        """Return the output length at the end and the finish reason, or ``None`` before the end.

        A speculative round may have sampled past the end. Each output token is checked only once.
        """
        if self.max_new_tokens == 0:
            return 0, "length"
        for index in range(self._scanned, len(self.output_ids)):
            if self.output_ids[index] in self.stop_token_ids:
                return index + 1, "stop"
            if index + 1 >= self.max_new_tokens:
                return index + 1, "length"
        self._scanned = len(self.output_ids)
        return None


@dataclass(eq=False)
class Session:
    """An append-only conversation. The session has the tokens, and its slot has the KV."""

    session_id: str
    open: bool = True
    closing: bool = False
    """True if a close was requested while a turn was in flight."""
    inflight: Req | None = None
    history: list[int] = field(default_factory=list)
    """Prompt and preserved output of the last finished turn."""
    last_active: float = 0.0
    queue: list[dict[str, Any]] = field(default_factory=list)
    """Submit commands waiting for the turn in flight, if turns are queued."""
    close_waits: bool = False
    """True if a close was requested while turns waited. The close follows the last such turn."""

    @property
    def accepts_turn(self) -> bool:
        """True if no turn is in flight and no close was requested (#22790)."""
        return self.inflight is None and not self.closing

    def prompt_of(self, tokens: list[int]) -> list[int]:
        """Return the next turn's prompt. The history changes only if the turn finishes (#22790)."""
        return self.history + tokens

    def create_req(self, rid: str, prompt: list[int], max_new: int, stop: Iterable[int]) -> Req:
        """Create the request of a turn, which is then in flight."""
        req = Req(
            rid=rid,
            origin_input_ids=prompt,
            max_new_tokens=max_new,
            stop_token_ids=frozenset(stop),
            session=self,
            kind="turn",
        )
        self.inflight = req
        return req

    def finish_req(self, req: Req, kept: int) -> None:
        """Finish the turn in flight. Its prompt and first ``kept`` outputs become the history."""
        self.history = req.origin_input_ids + req.output_ids[:kept]
        self.inflight = None

    def abort_req(self) -> None:
        """End the turn in flight and preserve the history."""
        self.inflight = None
