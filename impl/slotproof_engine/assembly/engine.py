"""ReferenceEngine: the assembled engine, driven by commands."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import chain, islice
from typing import Any

import torch
from torch import Tensor

from slotproof_engine.assembly.parts import Parts
from slotproof_engine.base.config import EngineConfig
from slotproof_engine.base.events import Event, Message, Outbox
from slotproof_engine.kv.kv_cache import SWA
from slotproof_engine.models.paged_model import TORN
from slotproof_engine.scheduling.intake import Command, check_command

logger = logging.getLogger(__name__)


class ReferenceEngine:
    """Serving engine driven by commands, one ``step`` at a time, with readable state.

    >>> engine = ReferenceEngine(EngineConfig())
    >>> engine.do({"do": "open", "session": "s"})
    >>> engine.do({"do": "submit", "session": "s", "rid": "r", "tokens": [5, 6], "max_new": 2})
    >>> engine.do({"do": "step", "n": 1})
    >>> [event[0] for event in engine.events]
    ['T-OPEN', 'T-SUBMIT', 'T-MATCH', 'T-EXTEND', 'T-INSERT']
    """

    def __init__(
        self,
        config: EngineConfig,
        parts: Parts | None = None,
        log: Callable[[str], None] = logger.debug,
    ) -> None:
        parts = parts or Parts()
        self.config = config
        self.iter = 0
        self.inbox: list[Command] = []
        self.consumed: list[Command] = []
        """Commands read by the last iteration."""
        self.outbox = Outbox()
        new_model = parts.models[config.model]
        self.kv = parts.kv(config, new_model.head_dim, parts.allocators, parts.rows, parts.tree)
        self.cache = parts.cache(config, parts.slot, self.kv, self.outbox)
        self.controller = parts.controller(config, parts.session, self.cache, self.outbox)
        model = new_model(config, self.kv)
        self.scheduler = parts.scheduler(config, model, self.cache, parts.rounds, self.outbox)
        self.intake = parts.intake(
            config, self.controller, self.scheduler, self.outbox, parts.queue
        )
        self.checker = parts.checker(config, self.scheduler, log)
        self._rows: list[int] = []
        """Cache of the method ``content``: the row of each position. The next fields cache KV
        indices, bits and stamps."""
        self._index: tuple[Tensor, ...] = ()
        self._shown: list[tuple[Tensor, Tensor, Tensor]] = []
        self._content: list[tuple[int, int]] = []

    @property
    def events(self) -> list[Event]:
        """Transitions of the last iteration, in order."""
        return self.outbox.events

    @property
    def messages(self) -> list[Message]:
        """Messages to clients in the last iteration, in order."""
        return self.outbox.messages

    @property
    def ended(self) -> list[dict[str, Any]]:
        """Requests that ended in the last iteration, with their KV lengths before the trim."""
        return self.outbox.ended

    def do(self, command: Command) -> None:
        """Run a ``step``, ``tick`` or ``tick_ms`` at once. Queue any other command. Raises
        ``ValueError`` if the command is malformed."""
        if command.get("do") == "step":
            for _ in range(command.get("n", 1)):
                self.step()
        elif command.get("do") == "tick":
            self.tick(command["seconds"])
        elif command.get("do") == "tick_ms":
            self.tick(command["ms"] / 1000)
        else:
            check_command(command)
            self.inbox.append(command)

    def step(self) -> None:
        """Run a scheduler iteration: read the inbox, run a batch, finish closes, check memory."""
        self._begin()
        self.iter += 1
        self.consumed, self.inbox = self.inbox, []
        for command in self.consumed:
            self.intake.handle(command)
        self.scheduler.step()
        self.intake.queue.take()
        self.controller.reap_closing()
        self.checker.check()

    def tick(self, seconds: float) -> None:
        """Advance the clock. Reads no command and runs no batch."""
        self._begin()
        self.controller.tick(seconds)
        self.checker.check()

    def _begin(self) -> None:
        self.outbox.clear()
        self.consumed = []

    def content(self, lengths: Mapping[int, int]) -> dict[int, list[tuple[int, int]]]:
        """Return (token, position) of the KV at positions ``[0, length)`` of each row, read back.

        Where sliding-window KV was freed, only full-attention layers are read. The result is
        ``TORN`` where layers disagree, where K and V disagree, and in restored pages that differ
        from the saved pages.
        """
        rows = [row for row, length in lengths.items() for _ in range(length)]
        if not rows:
            return {row: [] for row in lengths}
        same = rows == self._rows
        if not same:
            positions = [i for length in lengths.values() for i in range(length)]
            self._index = torch.tensor((rows, positions), device=self.config.device).unbind()
        shown: list[tuple[Tensor, Tensor, Tensor]] = []
        for name, table in self.kv.req_to_token_pool.req_to_token.items():
            loc = table[self._index]
            shown.append((loc, self.kv.kv_pools[name].bits(loc), self.kv.stamps[name].suspect()))
        if not (same and all(map(torch.equal, chain(*shown), chain(*self._shown)))):
            self._rows, self._shown = rows, shown
            self._content = self._stamps(shown)  # equal bits have equal stamps
        every = iter(self._content)
        return {row: list(islice(every, length)) for row, length in lengths.items()}

    def _stamps(self, shown: list[tuple[Tensor, Tensor, Tensor]]) -> list[tuple[int, int]]:
        stamps: list[tuple[int, int]] = []
        for name, (loc, bits, suspect) in zip(self.kv.kv_pools, shown, strict=True):
            stamped = self.scheduler.model.read_stamps(name, bits)
            if suspect.any():
                marked = suspect[loc // self.config.page_size].tolist()
                stamped = [TORN if bad else it for it, bad in zip(stamped, marked, strict=True)]
            if name == SWA:
                both = zip(stamps, stamped, loc.tolist(), strict=True)
                stamped = [full if where < 0 or full == it else TORN for full, it, where in both]
            stamps = stamped
        return stamps
