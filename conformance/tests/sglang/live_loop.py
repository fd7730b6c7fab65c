"""A scheduler in its own event loop, fed from a file.

    PYTHONPATH=…/drivers/sglang ENV/bin/python live_loop.py SCRIPT

It replaces a server, whose HTTP front end and tokenizer need packages missing on a CPU machine.
SCRIPT is a JSON file: `config`, `feed` (the commands of each iteration), and optionally `loop`, the
name of another event loop. With `"measure": true` it also measures the recorder's CPU time. The
output is a JSON object: `seconds` of CPU for the loop, `iterations` (nanoseconds of each), and
`recorder` (nanoseconds of each within the recorder).
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from slotproof_sglang import boot, branching, inputs, loop, speculation  # type: ignore[import-not-found]  # of the PYTHONPATH

RECORDER = Path(boot.__file__).parent
STAND_INS = ("paging.py", "window.py")
"""Replacements of kernels by the driver. They count as the engine."""
PASSED_ON = (
    "hooks.py",
    "guard.py",
    "checks.py",
    "record.py:inc_lock_ref",
    "record.py:dec_lock_ref",
)
"""Places where the recorder calls the engine."""


def pretend_device(told: bool) -> None:
    """Make every tensor raise if the recorder reads it, as if it were on a device.

    The reader is the recorder if its code is the innermost above the engine's.
    """
    torch: Any = importlib.import_module("torch")

    def guarded(name: str) -> Any:
        read = getattr(torch.Tensor, name)

        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            while frame is not None:
                path = Path(frame.f_code.co_filename)
                if RECORDER in path.parents:
                    names = (path.name, f"{path.name}:{frame.f_code.co_name}")
                    if not set(names) & {*STAND_INS, *PASSED_ON}:
                        raise RuntimeError(f"device: {name} in {names[1]}")
                    break
                frame = frame.f_back  # type: ignore[assignment]
            return read(self, *args, **kwargs)

        return method

    for name in ("tolist", "item", "cpu", "numpy", "__int__", "__bool__", "__index__", "__iter__"):
        setattr(torch.Tensor, name, guarded(name))
    if told:
        base: Any = importlib.import_module("slotproof_sglang.dialects.base")
        base.Dialect.device = property(lambda _: "cuda:0")


class Clock:
    """CPU time, split between the recorder's wrappers and the engine."""

    def __init__(self) -> None:
        self.recorder = False
        self.mine = 0
        self.since = time.thread_time_ns()
        self.iterations: list[int] = []
        self.shares: list[int] = []
        self.began = 0

    def turn(self, recorder: bool) -> bool:
        """Switch to the recorder or the engine. Return True if the recorder was measured before."""
        now, before = time.thread_time_ns(), self.recorder
        self.mine += now - self.since if before else 0
        self.since, self.recorder = now, recorder
        return before

    def iteration(self) -> None:
        """Start the next iteration. The caller runs within a wrapper."""
        self.turn(self.recorder)
        if self.began:
            self.iterations.append(self.since - self.began)
            self.shares.append(self.mine)
        self.began, self.mine = self.since, 0


def measured(clock: Clock) -> None:
    """Time every wrapper of the recorder. Call it before the recorder is imported."""
    guard: Any = importlib.import_module("slotproof_sglang.recording.guard")
    guarded = guard.guarded

    def timed(switch: Any, original: Any, wrapper: Any) -> Any:
        def inner(*args: Any, **kwargs: Any) -> Any:
            before = clock.turn(False)
            try:
                return original(*args, **kwargs)
            finally:
                clock.turn(before)

        outer = guarded(switch, inner, wrapper)

        def called(*args: Any, **kwargs: Any) -> Any:
            before = clock.turn(True)
            try:
                return outer(*args, **kwargs)
            finally:
                clock.turn(before)

        called.__name__ = getattr(original, "__name__", "called")
        return called

    guard.guarded = timed


def main() -> None:
    clock = Clock()
    script = json.loads(Path(sys.argv[1]).read_text())
    if script.get("measure"):
        measured(clock)
    device, room = (script["config"].pop(name, 0) for name in ("device", "room"))
    boot.import_engine()
    scheduler = boot.build_scheduler(boot.normalise(script["config"]))
    if device:
        pretend_device(told=device == 1)
    loop.without_device(scheduler)
    speculation.rounds(scheduler)
    make = inputs.Inputs()
    feed = iter(script["feed"])
    first = []
    if script["config"].get("branching"):
        make.branches = branching.Branches(scheduler)
        first.append(make.opening(branching.SESSION, streaming=False))

    def recv_requests(*_: Any, **__: Any) -> list[Any]:
        clock.iteration()
        if first:
            return [first.pop()]
        commands = next(feed, None)
        if commands is None:
            raise SystemExit(0)
        messages = [make.message(command) for command in commands]
        for command, message in zip(commands, messages, strict=True):
            if make.branches is not None and command["do"] == "submit":
                make.branches.sent(command, message)
        return messages

    receiver = getattr(scheduler, "request_receiver", scheduler)
    type(receiver).recv_requests = recv_requests
    for module in list(sys.modules.values()):
        sender = getattr(module, "SenderWrapper", None)
        if isinstance(sender, type) and hasattr(sender, "send_output"):
            sender.send_output = lambda *_: None  # No client is connected.
    if room:  # as on a full disk: no file may be longer
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    started = time.process_time()
    try:
        overlap = script["config"].get("overlap")
        kind = script.get("loop") or f"event_loop_{'overlap' if overlap else 'normal'}"
        getattr(scheduler, kind)()
    finally:
        took = {"iterations": clock.iterations, "recorder": clock.shares}
        sys.stdout.write(json.dumps({"seconds": time.process_time() - started, **took}) + "\n")


if __name__ == "__main__":
    main()
