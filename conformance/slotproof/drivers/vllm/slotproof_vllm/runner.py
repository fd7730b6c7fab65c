"""A model runner without a model: it does with a `SchedulerOutput` what the build's own would do.

It keeps the tokens and the block table of each request as it was told of them (never looking
into the scheduler), writes the KV of what is scheduled to the blocks of that table, and reads all
KV before through it. The KV is a dictionary: (block, offset) → token, position, number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import content

Hashed = Callable[[bytes | None, list[int]], bytes]
Stored = tuple[int, int, int]
"""The token whose KV it is, its position, and the number that stands for the KV."""
NOTHING: Stored = (0, -1, 0)
NONE = -1
"""A draft that the scheduler does not know, or that there is not."""
OTHER = 0
"""The token of which a rejected position holds KV: none that there is."""


@dataclass
class RunnerRequest:
    """A request as the runner knows it."""

    tokens: list[int]
    blocks: list[int]
    computed: int
    drafts: list[int] = field(default_factory=list)
    """What was proposed after its last batch."""
    rejected: int = 0
    """Positions that the scheduler counts as computed and that hold a rejected draft: of batches
    whose output it has not processed."""


class Runner:
    """All KV, and the requests that have some of it. Of drafts: how many it proposes, and how many
    tokens a round accepts (by the request and the positions before it)."""

    def __init__(
        self,
        page_size: int,
        draft: int = 0,
        accepts: Callable[[str, int], int] = lambda *_: 1,
        hashed: Hashed | None = None,
    ) -> None:
        """``hashed`` is the build's own hash of a block, by that of the block before it and its
        tokens; None where blocks have none."""
        self.page_size = page_size
        self.draft, self.accepts = draft, accepts
        self.rejected: list[tuple[RunnerRequest, int]] = []
        """What the last batch rejected."""
        self.hashed = hashed
        self.hashes: dict[int, bytes] = {}
        """By block, the hash of all whose KV was read and written up to its end."""
        self.requests: dict[str, RunnerRequest] = {}
        self.kv: dict[tuple[int, int], Stored] = {}

    def execute(self, output: Any) -> dict[str, list[int]]:
        """Run a batch; by request, the tokens that were sampled."""
        self._update(output)
        drafts = output.scheduled_spec_decode_tokens
        self.rejected = []
        return {
            key: self._run(key, count, drafts.get(key, ()))
            for key, count in output.num_scheduled_tokens.items()
        }

    def settle(self, rejected: list[tuple[RunnerRequest, int]]) -> None:
        """The scheduler has processed the output of the batch that rejected these."""
        for request, count in rejected:
            request.rejected -= count

    def proposed(self, keys: Iterable[str]) -> dict[str, list[int]]:
        """The drafts of the requests of a batch."""
        return {key: self.requests[key].drafts for key in keys}

    def stamps(self, blocks: list[int], length: int) -> list[list[int]]:
        """Token and position of the KV at each position that a block table leads to."""
        size, kv = self.page_size, self.kv
        return [list(kv.get((blocks[at // size], at % size), NOTHING)[:2]) for at in range(length)]

    def _update(self, output: Any) -> None:
        for key in output.finished_req_ids:
            self.requests.pop(key, None)
        for new in output.scheduled_new_reqs:  # a session's next turn is new as well
            tokens = getattr(new, "prefill_token_ids", None) or new.prompt_token_ids
            self.requests[new.req_id] = RunnerRequest(
                list(tokens), list(new.block_ids[0]), new.num_computed_tokens
            )
        cached = output.scheduled_cached_reqs
        for index, key in enumerate(cached.req_ids):
            request, blocks = self.requests[key], cached.new_block_ids[index]
            if key in cached.resumed_req_ids:
                tokens = cached.all_token_ids.get(key, request.tokens)
                request = self.requests[key] = RunnerRequest(list(tokens), [], 0)
            request.computed = cached.num_computed_tokens[index] - request.rejected
            if blocks is not None:
                request.blocks = [*request.blocks, *blocks[0]]

    def _run(self, key: str, count: int, drafts: Sequence[int]) -> list[int]:
        """The known tokens that are scheduled, then drafts as long as they are accepted."""
        request = self.requests[key]
        first, end = request.computed, request.computed + count
        base, own = end - len(drafts), iter(request.drafts)
        # Scheduled ahead of the output, a draft is a placeholder for one that the worker has.
        drafts = [next(own, NONE) if each == NONE else each for each in drafts]
        request.drafts = []
        if end > (blocks := len(request.blocks)) * self.page_size:
            raise IndexError(f"{key}: position {end - 1} is beyond its {blocks} blocks")
        prefix = 0
        for position in range(base):
            if position >= first:
                self._write(request, position, prefix, request.tokens[position])
            prefix = self._read(request, position, prefix)
        if base < len(request.tokens):  # a chunk of a prefill
            self._hash(request.blocks, first, end)
            return []
        sampled = [content.sampled(prefix)]
        most = self.accepts(key, base) if drafts and drafts[0] != NONE else 1
        for draft in drafts:
            if len(sampled) >= most or draft != sampled[-1]:
                break
            position = base + len(sampled) - 1
            self._write(request, position, prefix, draft)
            prefix = self._read(request, position, prefix)
            sampled.append(content.sampled(prefix))
        for position in range(base + len(sampled) - 1, end):  # rejected
            self._write(request, position, prefix, OTHER)
        self._hash(request.blocks, first, end)
        request.rejected += end + 1 - base - len(sampled)
        self.rejected.append((request, end + 1 - base - len(sampled)))
        request.tokens += sampled
        request.drafts = content.continued(prefix, request.tokens, self.draft)
        return sampled

    def _write(self, request: RunnerRequest, position: int, prefix: int, token: int) -> None:
        size = self.page_size
        place = request.blocks[position // size], position % size
        self.kv[place] = token, position, content.computed(prefix, token, position)

    def _read(self, request: RunnerRequest, position: int, prefix: int) -> int:
        size = self.page_size
        place = request.blocks[position // size], position % size
        return content.read(prefix, self.kv.get(place, NOTHING)[2])

    def _hash(self, blocks: list[int], first: int, end: int) -> None:
        """Hash the blocks that were filled by positions from ``first`` on, from what is stored."""
        if self.hashed is None:
            return
        size = self.page_size
        for index in range(first // size, end // size):
            parent = self.hashes.get(blocks[index - 1], b"") if index else None
            stored = (self.kv.get((blocks[index], offset), NOTHING) for offset in range(size))
            tokens = [token for token, *_ in stored]
            self.hashes[blocks[index]] = b"" if parent == b"" else self.hashed(parent, tokens)
