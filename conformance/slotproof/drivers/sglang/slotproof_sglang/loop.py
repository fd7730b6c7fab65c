"""The build's own event loop, stopped whenever it reads input.

The build alone decides which loop runs (normal, overlap), what it launches, and when it processes a
result. Where the loop would read from sockets, the loop calls the driver. The driver's script is a
generator that carries out commands. It continues up to the next `yield`, which ends the iteration.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from .dialects import checks
from .own_check import Checker


class _Over(BaseException):
    """Exception that leaves the event loop after the script's end."""


def run(scheduler: Any, script: Iterator[None], checker: Checker) -> None:
    """Run the event loop until the script ends. Each `yield` of the script is one iteration.

    Exceptions of the engine are raised. A complaint of the engine's own check goes to ``checker``.
    """

    def recv_requests(*_: Any, local_reqs: Iterable[Any] = (), **__: Any) -> list[Any]:
        try:
            next(script)
        except StopIteration:
            raise _Over from None
        return list(local_reqs)  # The engine sends itself requests that abort late requests.

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
    """Prepare the scheduler as a server does before its loop, but without a device or streams to
    wait for. Return the module torch."""
    torch: Any = importlib.import_module("torch")
    torch.Tensor.record_stream = lambda *_: None
    scheduler.schedule_stream = scheduler.device_module.Stream(priority=0)
    scheduler.schedule_stream.synchronize = lambda: None
    scheduler._war_barrier_enabled = False
    return torch
