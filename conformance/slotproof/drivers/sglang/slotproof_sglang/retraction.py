"""Retraction of one running request by a client's command, using the scheduler's own methods.

With two or more running requests, a test switch of the build makes the next decoding round call
`retract_decode`. `retract_decode` retracts the least advanced request, but not a batch's only
request. A batch's only request is therefore retracted by a brief pause in mode `retract`.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any


class Retraction:
    """Retraction that the next decoding round has to make."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.module: Any = sys.modules[type(scheduler).__module__]
        self.due = False
        self._watch()

    def request(self) -> None:
        """Retract one of the running requests, if there is any."""
        running = self.running()
        if len(running) == 1 and self.scheduler.chunked_req is None:
            io = importlib.import_module("sglang.srt.managers.io_struct")
            self.scheduler.pause_generation(io.PauseGenerationReqInput(mode="retract"))
            self.scheduler._engine_paused = False
        elif running:
            self.due = True

    def running(self) -> list[Any]:
        """Return the requests that the next decoding round would run."""
        requests: list[Any] = []
        last = self.scheduler.last_batch
        batches = [self.scheduler.running_batch]
        if last is not None and last.forward_mode.is_extend():
            batches.append(last)
        for batch in batches:
            for req in batch.reqs:
                known = any(req is other for other in (*requests, self.scheduler.chunked_req))
                if not req.finished() and not known:
                    requests.append(req)
        return requests

    def _watch(self) -> None:
        """Turn on the build's test switch during one call of `update_running_batch`."""
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
