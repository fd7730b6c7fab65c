"""Commands in, snapshots out: one scheduler, stepped by hand."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import fields
from boot import UsageError
from checker import Checker, Probe
from clock import Clock
from dialects import checks
from dialects.base import Dialect
from draft import Drafts
from events import Wrapper
from inputs import Inputs
from messages import Mailbox
from retraction import Retraction
from snapshot import Snapshooter
from tracker import Tracker

INBOX = (
    "open",
    "submit",
    "abort",
    "close",
    "evict",
    "retract",
    "draft",
    "flush",
    "pause",
    "continue",
    "abort_all",
)
COMMANDS = (*INBOX, "step", "tick")
TRANSITIONS = (
    "T-OPEN",
    "T-CLOSE",
    "T-CLOSE-DEFER",
    "T-REAP",
    "T-SUBMIT",
    "T-REJECT",
    "T-DOOM",
    "T-PLAIN-SUBMIT",
    "T-MATCH",
    "T-RESTORE",
    "T-REFUSE",
    "T-EXTEND",
    "T-PARK",
    "T-INSERT",
    "T-DECODE",
    "T-SWA-ADVANCE",
    "T-SAVE",
    "T-ABORT",
    "T-ABORT-WAITING",
    "T-RETRACT",
    "T-OOM",
    "T-EVICT",
    "T-DISCARD",
    "T-PLAIN-FINISH",
    "T-PLAIN-ABORT",
    "T-PLAIN-RETRACT",
)
PUBLISHES = {"sglang-records": ("T-ABORT-PUBLISH",)}
"""What only builds of that profile do."""
NOT_OBSERVED = {
    "overlap scheduling": "the driver steps the normal event loop, one batch at a time",
    "speculative decoding": "needs a GPU; drafts are put in just before a turn finishes",
    "KV content": "the KV pool is not read back; finished turns are replayed on an empty cache",
    "KV content after a draft": "a draft that is put in computes nothing: no replays after one",
    "match without admission": "SGLang locks the tree at admission; T-MATCH is told with it",
}
BLIND = {
    "tokens with a sliding window": "this build's attention on a CPU reads what slid out as well"
}
"""Of builds up to 0.5.12."""


class Engine:
    """The engine under test of one example."""

    def __init__(self, scheduler: Any, dialect: Dialect) -> None:
        self.scheduler = scheduler
        self.dialect = dialect
        self.tracker = Tracker()
        self.mailbox = Mailbox()
        self.clock = Clock()
        self.probe = Probe()
        self.checker = Checker(self.probe)
        self.inputs = Inputs()
        self.retraction = Retraction(scheduler)
        self.snapshooter = Snapshooter(dialect, self.tracker)
        self.drafts = Drafts(dialect, self.tracker, scheduler.model_config.context_len)
        self.inbox: list[dict[str, Any]] = []
        self.iterations = 0
        self.timeout = 0.0
        self.torch: Any = importlib.import_module("torch")
        self._install()

    def _install(self) -> None:
        self.mailbox.install()
        controller = sys.modules[type(self.scheduler.session_controller).__module__]
        module = sys.modules[type(self.scheduler).__module__]
        self.clock.install(controller, module)
        checks.watch(self.scheduler, self.probe)
        Wrapper(self.scheduler, self.dialect, self.tracker, self.drafts).install()

    def configure(self, config: dict[str, Any]) -> None:
        """What a configuration changes without a new scheduler."""
        self.dialect.reserve(config["reserve"] / 100)
        self.timeout = float(config["timeout"])

    def do(self, command: dict[str, Any]) -> list[dict[str, Any]]:
        """Carry out one command of a client."""
        name = command.get("do")
        fields.check(command)
        if name == "step":
            return [self.step() for _ in range(command["n"])]
        if name == "tick":
            return [self.tick(float(command["seconds"]))]
        if name not in COMMANDS:
            raise UsageError(f"unknown command {name!r}; there are: {', '.join(COMMANDS)}")
        self._action(command)  # a command that can't be built is refused before it is queued
        self.inbox.append(command)
        return []

    def step(self) -> dict[str, Any]:
        """One iteration of the event loop, the engine's own check included."""
        with self.torch.inference_mode():
            consumed, self.inbox = self.inbox, []
            self.checker.clear()
            self.iterations += 1
            self.scheduler.process_input_requests([])  # reaps, as the loop does
            for command in consumed:
                self._action(command)()
            if not getattr(self.scheduler, "_engine_paused", False):
                self.compute()
            return self._snapshot(len(consumed))

    def compute(self) -> None:
        """What one round of the event loop does once it has read its messages."""
        scheduler, dialect = self.scheduler, self.dialect
        batch = dialect.schedule()
        dialect.set_current(batch)
        if batch:
            result = scheduler.run_batch(batch)
            scheduler.process_batch_result(batch, result)
        else:
            self.checker.run(lambda: checks.check_idle(scheduler))
        scheduler.last_batch = batch
        self.checker.run(lambda: checks.check_busy(scheduler))

    def tick(self, seconds: float) -> dict[str, Any]:
        """Time passes; sessions that are due are reaped. No iteration."""
        self.checker.clear()
        self.clock.now += seconds
        with self.torch.inference_mode():
            self.scheduler.session_controller.maybe_reap(self.clock.now, -1.0)
        return self._snapshot(0)

    def _snapshot(self, consumed: int) -> dict[str, Any]:
        return {
            "iter": self.iterations,
            "consumed": consumed,
            "messages": self.mailbox.take(),
            **self.snapshooter.take(),
            "checker": self.checker.report(),
            **self.tracker.take(),
        }

    def _action(self, command: dict[str, Any]) -> Callable[[], Any]:
        """What the next iteration does for an inbox command."""
        inputs = self.inputs
        name = command["do"]
        if name == "evict":
            return lambda: self._evict(int(command["tokens"]))
        if name == "draft":
            draft = str(command["rid"]), int(command["allocate"]), int(command["commit"])
            return lambda: self.drafts.request(*draft)
        if name == "retract":
            return self.retraction.request
        if name == "open":
            message = inputs.open(command["session"], self.timeout)
        elif name == "submit":
            message = inputs.submit(command)
        elif name == "abort":
            message = inputs.abort(command["rid"])
        elif name == "close":
            message = inputs.close(command["session"])
        elif name == "abort_all":
            message = inputs.abort_all()
        elif name == "flush":
            message = inputs.flush()
        elif name == "pause":
            message = inputs.pause(str(command.get("mode", "in_place")))
        else:
            message = inputs.resume()
        return lambda: self.scheduler.process_input_requests([message])

    def _evict(self, tokens: int) -> None:
        module = importlib.import_module("sglang.srt.mem_cache.base_prefix_cache")
        also = {} if self.dialect.swa is None else {"swa_num_tokens": tokens}
        self.scheduler.tree_cache.evict(module.EvictParams(num_tokens=tokens, **also))


def capabilities(profile: str, lent: bool, page_sizes: list[int]) -> dict[str, Any]:
    """What the driver offers, by the protocol."""
    import boot
    import window

    return {
        "commands": list(COMMANDS),
        "events": True,
        "pools": ["full", "swa"],
        "page_sizes": page_sizes,
        "config": {k: v for k, v in boot.LIMITS.items() if k != "page_size"},
        "transitions": [*TRANSITIONS, *PUBLISHES.get(profile, ())],
        "profile": profile,
        "lent": lent,
        "recompute": True,
        "not_observed": NOT_OBSERVED | ({} if window.attended() else BLIND),
    }
