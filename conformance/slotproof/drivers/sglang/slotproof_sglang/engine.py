"""One scheduler that the driver steps: it runs commands and returns snapshots."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

from slotproof_driver import fields
from slotproof_driver.usage import UsageError

from . import loop, options, speculation, window
from .branching import SESSION, Branches
from .clock import Clock
from .dialects import checks
from .dialects.base import Dialect
from .draft import Drafts
from .events import Wrapper
from .inputs import Inputs
from .messages import Mailbox
from .own_check import Checker, Probe
from .retraction import Retraction
from .snapshot import Snapshooter
from .strict import Worker
from .tracker import Tracker

INBOX = (
    "open",
    "submit",
    "abort",
    "close",
    "evict",
    "retract",
    "accept",
    "draft",
    "flush",
    "pause",
    "continue",
    "abort_all",
)
COMMANDS = (*INBOX, "step", "tick", "tick_ms")
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
    "T-LAUNCH",
    "T-RESULT",
    "T-SWA-ADVANCE",
    "T-SAVE",
    "T-ABORT",
    "T-ABORT-WAITING",
    "T-OOM",
    "T-EVICT",
    "T-DISCARD",
    "T-PLAIN-FINISH",
    "T-PLAIN-ABORT",
    "T-PLAIN-RETRACT",
)
KEPT, WIPED = "T-RETRACT", "T-RETRACT-WIPE"
"""Transitions of a retraction. The first leaves KV in the slot, the second does not."""
PUBLISHES = {"sglang-records": ("T-ABORT-PUBLISH",)}
"""Transitions that only builds of one profile offer. The profile's name is the key."""
NOT_OBSERVED = {
    "KV content": "the KV pool is not read back; finished turns are replayed on an empty cache",
    "match without admission": "SGLang locks the tree at admission, so T-MATCH is reported then",
    "room that idle slots make": "SGLang never reclaims the slot of an open session",
    "commands to the engine": "retract uses SGLang's pause in mode retract, and also ends a pause; "
    "accept applies to the next scheduled round",
    "answers to close": "SGLang does not answer a close, or report a session's timeout",
}
MARGIN = 7
"""Number of tokens that a prompt must leave free in context and pool. SGLang reserves 1 + 5."""
BLIND = {
    "tokens with a sliding window": "this build's CPU attention also reads KV outside the window"
}
"""Facts that the driver can't observe on builds up to 0.5.12."""
BY_HAND = {
    "KV content after a draft": "an injected draft computes no KV, so later turns are not replayed"
}
"""Facts that the driver can't observe on builds without scripted rounds."""


class Engine:
    """Engine under test in one example."""

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
        #: Scripted rounds, or None if this scheduler does not speculate.
        self.rounds = speculation.rounds(scheduler)
        self.inbox: list[dict[str, Any]] = []
        self.iterations = 0
        self.watch = options.Watch(scheduler, self.tracker)
        self.worker = Worker(scheduler, dialect)
        self._install()

    def _install(self) -> None:
        self.mailbox.install()
        controller = sys.modules[type(self.scheduler.session_controller).__module__]
        module = sys.modules[type(self.scheduler).__module__]
        times = importlib.import_module("sglang.srt.observability.req_time_stats")
        self.clock.install(controller, module, times)
        checks.watch(self.scheduler, self.probe)
        Wrapper(self.scheduler, self.dialect, self.tracker, self.drafts).install()
        self.watch.install()
        self.worker.install(self.rounds)

    def configure(self, config: dict[str, Any]) -> None:
        """Apply the fields of a configuration that need no new scheduler."""
        self.dialect.reserve(config["reserve"] / 100)
        self.worker.max_running, self.worker.chunk = config["max_running"], config["chunk"]
        self.inputs.timeout = self.watch.timeout = config["timeout"]
        self.inputs.own_timeouts = bool(config["own_timeouts"])
        self.inputs.differ = bool(config["priority"])
        self.inputs.logprobs = bool(config["logprobs"])
        self.inputs.stream = bool(config["stream"])
        self.inputs.pause = "retract" if config["pause_retracts"] else "in_place"
        options.configure(self.scheduler, config)
        if config["branching"]:
            self.inputs.branches = Branches(self.scheduler)
            opening = self.inputs.opening(SESSION, streaming=False)
            self.scheduler.session_controller.open(opening)

    def do(self, command: dict[str, Any]) -> Generator[None, None, list[dict[str, Any]]]:
        """Run one command of a client. Each `yield` is one iteration of the event loop."""
        name = command.get("do")
        fields.check(command)
        if name == "step":
            self.worker.begin()
            snapshots = []
            for _ in range(command["n"]):
                consumed = self._begin()
                yield
                snapshots.append(self._snapshot(consumed))
            return snapshots
        if name == "tick":
            return [self.tick(float(command["seconds"]))]
        if name == "tick_ms":
            return [self.drift(command["ms"] / 1000)]
        if name not in commands():
            raise UsageError(f"unknown command {name!r}; there are: {', '.join(commands())}")
        self._action(command)  # An impossible command is refused before it is queued.
        self.inbox.append(command)
        return []

    def _begin(self) -> int:
        """At the start of an iteration, run the commands in the inbox. Return their number."""
        consumed, self.inbox = self.inbox, []
        self.checker.clear()
        self.iterations += 1
        for command in consumed:
            self._action(command)()
        return len(consumed)

    def run(self, script: Iterator[None]) -> None:
        """Run the event loop until the script ends. Each `yield` of the script is one iteration."""
        loop.run(self.scheduler, script, self.checker)

    def tick(self, seconds: float) -> dict[str, Any]:
        """Advance the clock and close each session whose close is due. Runs no iteration."""
        self.checker.clear()
        self.clock.now += seconds
        self.scheduler.session_controller.maybe_reap(self.clock.now, -1.0)
        return self._snapshot(0)

    def drift(self, seconds: float) -> dict[str, Any]:
        """Advance the clock by a fraction of a second. Only the engine's own reaper may run."""
        self.checker.clear()
        self.clock.now += seconds
        return self._snapshot(0)

    def _snapshot(self, consumed: int) -> dict[str, Any]:
        messages = self.mailbox.take()
        self.tracker.options.extend(options.heard(messages))
        if self.mailbox.streamed and self.inputs.stream:
            self.tracker.options.append("stream")
        self.mailbox.streamed = False
        if self.inputs.branches is not None:
            self.inputs.branches.heard(messages)
        return {
            "iter": self.iterations,
            "consumed": consumed,
            "messages": messages,
            **self.snapshooter.take(),
            "checker": self.checker.report((rid, req) for rid, req, _ in self.snapshooter.named()),
            **self.tracker.take(),
        }

    def _action(self, command: dict[str, Any]) -> Callable[[], Any]:
        """Return the function that carries out a command from the inbox in the next iteration."""
        name = command["do"]
        if name == "evict":
            return lambda: self._evict(int(command["tokens"]))
        if name == "draft":
            draft = str(command["rid"]), int(command["allocate"]), int(command["commit"])
            return lambda: self.drafts.request(*draft)
        if name == "accept":
            return lambda: self._accept(str(command["rid"]), int(command["tokens"]))
        if name == "retract":
            return self.retraction.request
        message = self.inputs.message(command)
        return lambda: self._send(command, message)

    def _send(self, command: dict[str, Any], message: Any) -> None:
        if self.inputs.branches is not None and command["do"] == "submit":
            self.tracker.options.extend(self.inputs.branches.sent(command, message))
        self.scheduler.process_input_requests([message])

    def _accept(self, rid: str, tokens: int) -> None:
        if self.rounds is not None:  # Without rounds, no draft can be accepted.
            self.rounds.accepts.request(rid, tokens)

    def _evict(self, tokens: int) -> None:
        module = importlib.import_module("sglang.srt.mem_cache.base_prefix_cache")
        also = {} if self.dialect.swa is None else {"swa_num_tokens": tokens}
        self.scheduler.tree_cache.evict(module.EvictParams(num_tokens=tokens, **also))


def commands() -> list[str]:
    """Return the commands that this build offers: `accept` with scripted rounds, else `draft`."""
    other = "draft" if speculation.scriptable() else "accept"
    return [name for name in COMMANDS if name != other]


def capabilities(profile: str, limits: dict[str, list[Any]]) -> dict[str, Any]:
    """Return the driver's capabilities, in the format of the protocol."""
    retraction = WIPED if limits["retract"] == ["wipe"] else KEPT
    return {
        "commands": commands(),
        "events": True,
        "pools": ["full", "swa"],
        "page_sizes": limits["page_size"],
        "config": {
            **{name: values for name, values in limits.items() if name != "page_size"},
            **options.offered(),
        },
        "transitions": [*TRANSITIONS, retraction, *PUBLISHES.get(profile, ())],
        "profile": profile,
        "recompute": True,
        "whole_chunks": True,
        "double_reserve": True,
        "margin": MARGIN,
        "not_observed": {
            **NOT_OBSERVED,
            **({} if window.attended() else BLIND),
            **({} if speculation.scriptable() else BY_HAND),
        },
    }
