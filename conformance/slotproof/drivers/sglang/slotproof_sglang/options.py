"""Server options that preempt, delay or end requests, and the signs that an option had an effect.

The driver implements no option. It only sets the build's own options. Wrapped methods of the build
tell the tracker when an option has an effect.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable
from typing import Any

from .tracker import Tracker

DEFAULTS: dict[str, Any] = {
    "priority": False,
    "queue": 0,
    "waiting_timeout": 0,
    "running_timeout": 0,
    "pause_retracts": False,
    "mixed": False,
    "longest_match": False,
    "logprobs": False,
    "stream": False,
    "own_timeouts": False,
    "branching": False,
    "no_tree": False,
}
SHAPE = ("priority", "mixed", "longest_match", "no_tree")
"""Options for which the driver has to build a new scheduler."""
_ARGUMENT = {
    "priority": "enable_priority_scheduling",
    "queue": "max_queued_requests",
    "mixed": "enable_mixed_chunk",
    "no_tree": "disable_radix_cache",
}
"""Options that some builds lack. A build with the server argument has the option."""
_TIMEOUTS = {
    "waiting_timeout": "SGLANG_REQ_WAITING_TIMEOUT",
    "running_timeout": "SGLANG_REQ_RUNNING_TIMEOUT",
}
"""Options that the build reads from its environment whenever it looks for late requests."""


def offered() -> dict[str, list[Any]]:
    """Return the options of this build with their possible values. An empty list: any value."""
    server_args = importlib.import_module("sglang.srt.server_args").ServerArgs
    has = inspect.signature(server_args).parameters
    listed = importlib.import_module("sglang.srt.environ").envs
    return {
        name: [False, True] if default is False else []
        for name, default in DEFAULTS.items()
        if _ARGUMENT.get(name) in {None, *has}
        and (name not in _TIMEOUTS or hasattr(listed, _TIMEOUTS[name]))
    }


def configure(scheduler: Any, config: dict[str, Any]) -> None:
    """Set the options that need no new scheduler."""
    scheduler.max_queued_requests = config["queue"] or None
    for name, variable in _TIMEOUTS.items():
        if config[name]:
            os.environ[variable] = str(config[name])


def server_args(config: dict[str, Any]) -> dict[str, Any]:
    """Return the build's server arguments for the options."""
    return {
        "enable_priority_scheduling": config["priority"],
        # This is the smallest difference in priority between a request and its victim.
        "priority_scheduling_preemption_threshold": 0,
        "enable_mixed_chunk": config["mixed"],
        "schedule_policy": "lpm" if config["longest_match"] else "fcfs",
        "disable_radix_cache": config["no_tree"],
    }


def drawn(name: str) -> int:
    """Return 0, 1 or 2. The number depends only on the name, so a replay draws it again.

    >>> [drawn(f"r{number}") for number in range(1, 5)]
    [1, 2, 0, 1]
    """
    return sum(name.encode()) % 3


_SAID = {
    "request queue is full": "queue",
    "aborted by a higher priority request": "queue",
    "waiting timeout reached": "waiting_timeout",
    "running timeout reached": "running_timeout",
}
"""Table from a text in the engine's message to a client to the option that ended the request."""


def heard(messages: list[dict[str, Any]]) -> list[str]:
    """Return the options that ended requests, according to the messages to clients.

    >>> heard([{"type": "finish", "rid": "r1", "message": "The request queue is full."}])
    ['queue']
    """
    return [
        name for message in messages for said, name in _SAID.items() if said in message["message"]
    ]


class Watch:
    """Reporter of the options that have an effect without a message to clients."""

    def __init__(self, scheduler: Any, tracker: Tracker) -> None:
        self.scheduler = scheduler
        self.tracker = tracker
        #: Default timeout of a session, in seconds.
        self.timeout = 0

    def install(self) -> None:
        """Wrap the methods that implement options, if the build has them."""
        policy: Any = importlib.import_module("sglang.srt.managers.schedule_policy")
        self._wrap(policy.PrefillAdder, "preempt_to_schedule", self._preempt)
        self._wrap(policy.SchedulePolicy, "calc_priority", self._order)
        self._wrap(self.scheduler, "_request_dispatcher", self._dispatch)
        self._wrap(self.scheduler, "run_batch", self._run)
        self._wrap(self.scheduler.session_controller, "_close", self._close)

    @staticmethod
    def _wrap(owner: Any, name: str, wrapper: Callable[..., Any]) -> None:
        original = getattr(owner, name, None)
        if original is not None:
            setattr(owner, name, lambda *args, **kwargs: wrapper(original, *args, **kwargs))

    def _preempt(self, original: Any, *args: Any) -> Any:
        gone = original(*args)
        if gone:
            self.tracker.options.append("priority")
        return gone

    def _order(self, original: Any, policy: Any, queue: list[Any], *args: Any, **kw: Any) -> Any:
        """Report that the queue was reordered by matched prefixes."""
        before = list(queue)
        result = original(policy, queue, *args, **kw)
        moved = any(a is not b for a, b in zip(before, queue, strict=True))
        if moved and str(getattr(policy.policy, "value", "")) == "lpm":
            self.tracker.options.append("longest_match")
        return result

    def _run(self, original: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        """Report a batch that mixes decodes and prefills, computes logprobs, or has no tree."""
        if self.scheduler.disable_radix_cache and batch.forward_mode.is_extend():
            self.tracker.options.append("no_tree")
        if batch.forward_mode.is_mixed():
            self.tracker.options.append("mixed")
        elif batch.forward_mode.is_extend() and batch.return_logprob:
            self.tracker.options.append("logprobs")
        return original(batch, *args, **kwargs)

    def _dispatch(self, original: Any, message: Any) -> Any:
        """Report a pause that retracts running requests."""
        before = len(self.tracker.events)
        result = original(message)
        if type(message).__name__ == "PauseGenerationReqInput":
            gone = [event for event in self.tracker.events[before:] if "RETRACT" in event[0]]
            self.tracker.options.extend(["pause_retracts"] if gone else [])
        return result

    def _close(self, original: Any, sid: str) -> Any:
        """Report a session that is closed by its own timeout."""
        session = self.scheduler.session_controller.sessions[sid]
        if session.timeout not in (None, self.timeout) and session.is_timed_out():
            self.tracker.options.append("own_timeouts")
        return original(sid)
