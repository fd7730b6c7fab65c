"""Retract one running request on the client's word, by the scheduler's own ways.

With two or more running, the build's test switch makes the next decode round call
`retract_decode`, which takes the least advanced one. That one keeps the last request
in the batch, so a single one is retracted by pausing in mode `retract` and going on.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any


class Retraction:
    """A retraction that is due in the next decode round."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.module: Any = sys.modules[type(scheduler).__module__]
        self.due = False
        self._watch()

    def request(self) -> None:
        """Retract one of the running requests; nothing happens where none runs."""
        running = self.running()
        if len(running) == 1 and self.scheduler.chunked_req is None:
            io = importlib.import_module("sglang.srt.managers.io_struct")
            self.scheduler.pause_generation(io.PauseGenerationReqInput(mode="retract"))
            self.scheduler._engine_paused = False
        elif running:
            self.due = True

    def running(self) -> list[Any]:
        """The requests that a decode round would hold."""
        found: list[Any] = []
        last = self.scheduler.last_batch
        batches = [self.scheduler.running_batch]
        if last is not None and last.forward_mode.is_extend():
            batches.append(last)
        for batch in batches:
            for req in batch.reqs:
                known = any(req is other for other in (*found, self.scheduler.chunked_req))
                if not req.finished() and not known:
                    found.append(req)
        return found

    def _watch(self) -> None:
        """Set the build's switch for the length of one `update_running_batch`."""
        update = self.scheduler.update_running_batch
        module = self.module

        def update_running_batch(batch: Any) -> Any:
            if not self.due:
                return update(batch)
            self.due = False
            before = module.TEST_RETRACT, module.TEST_RETRACT_INTERVAL
            module.TEST_RETRACT, module.TEST_RETRACT_INTERVAL = True, 1
            try:
                return update(batch)
            finally:
                module.TEST_RETRACT, module.TEST_RETRACT_INTERVAL = before

        self.scheduler.update_running_batch = update_running_batch
