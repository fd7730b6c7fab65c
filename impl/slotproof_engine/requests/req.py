"""A request, the session whose turn it is, and the record of KV that requests and slots share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from slotproof_engine.memory.rows import NO_ROW
from slotproof_engine.memory.tree import TreeNode


@dataclass(eq=False, kw_only=True)
class KVRecord:
    """KV along one row. 0 <= cache_protected_len <= kv_committed_len <= kv_allocated_len.

    [0, cache_protected_len)                  the tree's pages, locked through last_node
    [cache_protected_len, kv_committed_len)   valid KV of this record's own
    [kv_committed_len, kv_allocated_len)      own memory without valid KV (draft slack)
    [cache_protected_len, swa_evicted_seqlen) sliding-window KV already given back
    """

    req_pool_idx: int = NO_ROW
    kv_committed_len: int = 0
    kv_allocated_len: int = 0
    cache_protected_len: int = 0
    swa_evicted_seqlen: int = 0
    last_node: TreeNode | None = None
    """The end of the locked prefix; the root where that is empty."""

    def copy_kv(self, other: KVRecord) -> None:
        """Describe the same KV as ``other``. Moves no memory."""
        self.req_pool_idx = other.req_pool_idx
        self.kv_committed_len = other.kv_committed_len
        self.kv_allocated_len = other.kv_allocated_len
        self.cache_protected_len = other.cache_protected_len
        self.swa_evicted_seqlen = other.swa_evicted_seqlen
        self.last_node = other.last_node

    def clear_kv(self) -> None:
        """Describe nothing. Whoever calls has seen to the memory."""
        self.copy_kv(KVRecord())


class Phase(StrEnum):
    WAITING = "waiting"
    MATCHED = "matched"
    PARKED = "parked"
    RUNNING = "running"


@dataclass(eq=False, kw_only=True)
class Req(KVRecord):
    """A request. While it runs, KV of all tokens but the last sampled one is committed."""

    rid: str
    origin_input_ids: list[int]
    max_new_tokens: int
    stop_token_ids: frozenset[int] = frozenset()
    session: Session | None = None
    """Set for a turn; a stub, a doomed turn that left, and a plain request have none."""
    kind: str = "plain"
    doomed: str = ""
    """Why a turn is known to be aborted, before it is matched."""
    output_ids: list[int] = field(default_factory=list)
    phase: Phase = Phase.WAITING
    extend_to: int = 0
    """Prefill goes up to here in this iteration."""
    """Tokens of KV that the last match or restore found."""
    _scanned: int = 0

    @property
    def session_id(self) -> str | None:
        return self.session.session_id if self.session is not None else None

    @property
    def fill_ids(self) -> list[int]:
        """All tokens known: token i is the one that KV position i holds."""
        return self.origin_input_ids + self.output_ids

    @property
    def seqlen(self) -> int:
        return len(self.origin_input_ids) + len(self.output_ids)

    @property
    def remaining_new_tokens(self) -> int:
        return max(0, self.max_new_tokens - len(self.output_ids))

    def finished_len(self) -> tuple[int, str] | None:
        """Output length at which the request is finished, and why; ``None`` if it goes on.

        A speculative round may have gone past it. Each output is looked at once.
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
    """An append-only conversation. Knows tokens; what KV there is, its slot knows."""

    session_id: str
    open: bool = True
    closing: bool = False
    """A close was asked for while a turn was in flight."""
    inflight: Req | None = None
    history: list[int] = field(default_factory=list)
    """Prompt and output of the last finished turn, as far as it is kept."""
    last_active: float = 0.0
    queue: list[dict[str, Any]] = field(default_factory=list)
    """Submits of turns that wait for the one in flight, where turns are queued."""
    close_waits: bool = False
    """A close was asked for while turns waited: it comes after them."""

    @property
    def accepts_turn(self) -> bool:
        """One turn at a time, and none once a close was asked for (#22790)."""
        return self.inflight is None and not self.closing

    def prompt_of(self, tokens: list[int]) -> list[int]:
        """The next turn's prompt. The history stays: the turn may never finish (#22790)."""
        return self.history + tokens

    def create_req(self, rid: str, prompt: list[int], max_new: int, stop: Iterable[int]) -> Req:
        """Make a turn and put it in flight."""
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
        """The turn in flight finished: its prompt and ``kept`` of its outputs are history now."""
        self.history = req.origin_input_ids + req.output_ids[:kept]
        self.inflight = None

    def abort_req(self) -> None:
        """The turn in flight is no more; the history stays as it was."""
        self.inflight = None
