"""The build's own event loop, stopped where it asks for input.

Nothing of the loop is written down here: which one runs (normal, overlap), what it launches
and when it processes a result, is the build's business. The driver is called where the loop
would read its sockets, and goes on with its script up to the next `yield`: one iteration.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from .dialects import checks
from .own_check import Checker


class _Over(BaseException):
    """The script has ended: out of the loop."""


def run(scheduler: Any, script: Iterator[None], checker: Checker) -> None:
    """Run the event loop until the script ends; each `yield` of it is one iteration.

    What the engine raises goes through; what its own check complains of goes to ``checker``.
    """

    def recv_requests(*_: Any, local_reqs: Iterable[Any] = (), **__: Any) -> list[Any]:
        try:
            next(script)
        except StopIteration:
            raise _Over from None
        return list(local_reqs)  # what the engine asks of itself: to end who is late

    receiver = getattr(scheduler, "request_receiver", scheduler)
    type(receiver).recv_requests = recv_requests
    checks.surround(scheduler, checker.around)
    module: Any = sys.modules[type(scheduler).__module__]
    torch = without_device(scheduler)
    try:
        with torch.inference_mode():
            module.dispatch_event_loop(scheduler)
    except _Over:
        pass


def without_device(scheduler: Any) -> Any:
    """What a server does before its loop begins: there is no device to synchronise with, and no
    stream that a tensor could wait for. The module torch."""
    torch: Any = importlib.import_module("torch")
    torch.Tensor.record_stream = lambda *_: None
    scheduler.schedule_stream = scheduler.device_module.Stream(priority=0)
    scheduler.schedule_stream.synchronize = lambda: None
    scheduler._war_barrier_enabled = False
    return torch
