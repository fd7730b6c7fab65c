"""A model runner without a model: it does with a `SchedulerOutput` what the build's own would do.

It keeps the tokens and the block table of each request as it was told of them (never looking
into the scheduler), writes the KV of what is scheduled to the blocks of that table, and reads all
KV before through it. The KV is a dictionary: (block, offset) → token, position, number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import content

Hashed = Callable[[bytes | None, list[int]], bytes]
Stored = tuple[int, int, int]
"""The token whose KV it is, its position, and the number that stands for the KV."""
NOTHING: Stored = (0, -1, 0)


@dataclass
class State:
    """A request as the runner knows it."""

    tokens: list[int]
    blocks: list[int]
    computed: int
    drafts: list[int] = field(default_factory=list)


class Runner:
    """All KV, and the requests that have some of it."""

    def __init__(self, page_size: int, hashed: Hashed | None = None) -> None:
        """``hashed`` is the build's own hash of a block, by that of the block before it and its
        tokens; None where blocks have none."""
        self.page_size = page_size
        self.hashed = hashed
        self.hashes: dict[int, bytes] = {}
        """By block, the hash of all whose KV was read and written up to its end."""
        self.states: dict[str, State] = {}
        self.kv: dict[tuple[int, int], Stored] = {}

    def execute(self, output: Any) -> dict[str, list[int]]:
        """Run a batch; by request, the tokens that were sampled."""
        self._update(output)
        return {key: self._run(key, count) for key, count in output.num_scheduled_tokens.items()}

    def stamps(self, blocks: list[int], length: int) -> list[list[int]]:
        """Token and position of the KV at each position that a block table leads to."""
        size, kv = self.page_size, self.kv
        return [list(kv.get((blocks[at // size], at % size), NOTHING)[:2]) for at in range(length)]

    def _update(self, output: Any) -> None:
        for key in output.finished_req_ids:
            self.states.pop(key, None)
        for new in output.scheduled_new_reqs:  # a session's next turn is new as well
            tokens = getattr(new, "prefill_token_ids", None) or new.prompt_token_ids
            self.states[new.req_id] = State(
                list(tokens), list(new.block_ids[0]), new.num_computed_tokens
            )
        cached = output.scheduled_cached_reqs
        for index, key in enumerate(cached.req_ids):
            state, blocks = self.states[key], cached.new_block_ids[index]
            state.computed = cached.num_computed_tokens[index]
            if key in cached.resumed_req_ids:
                state.blocks = []
                state.tokens = list(cached.all_token_ids.get(key, state.tokens))
            if blocks is not None:
                state.blocks = [*state.blocks, *blocks[0]]

    def _run(self, key: str, count: int) -> list[int]:
        state, size = self.states[key], self.page_size
        first, end = state.computed, state.computed + count
        if end > len(state.blocks) * size:
            raise IndexError(f"{key}: position {end - 1} is beyond its {len(state.blocks)} blocks")
        prefix = 0
        for position in range(end):
            place = state.blocks[position // size], position % size
            if position >= first:
                token = state.tokens[position]
                self.kv[place] = token, position, content.computed(prefix, token, position)
            prefix = content.read(prefix, self.kv.get(place, NOTHING)[2])
        self._hash(state.blocks, first, end)
        if end < len(state.tokens):  # a chunk of a prefill
            return []
        state.tokens.append(content.sampled(prefix))
        return state.tokens[-1:]

    def _hash(self, blocks: list[int], first: int, end: int) -> None:
        """Hash the blocks that were filled by positions from ``first`` on, from what is stored."""
        if self.hashed is None:
            return
        size = self.page_size
        for index in range(first // size, end // size):
            parent = self.hashes.get(blocks[index - 1], b"") if index else None
            tokens = [self.kv[blocks[index], offset][0] for offset in range(size)]
            self.hashes[blocks[index]] = b"" if parent == b"" else self.hashed(parent, tokens)
