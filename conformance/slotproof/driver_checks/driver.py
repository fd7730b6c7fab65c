"""Driver under test, with its raw messages and answers, and the definition of a check."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

from slotproof.engines.base import Capabilities, EngineFailed
from slotproof.engines.pipe import Pipe
from slotproof.engines.process import START_TIMEOUT
from slotproof.lockstep.client import Client
from slotproof.lockstep.referee import Setup, empty_snapshot, with_totals
from slotproof.protocol.commands import FIELDS, Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.messages import PROTOCOL
from slotproof.protocol.shapes import quoted
from slotproof.protocol.snapshot import SNAPSHOTS, Snapshot, nonsense
from slotproof.support import bounds, jsontext
from slotproof_model.spec.profiles import PROFILES, Choices

Answer = dict[str, Any]
ASKED = 120
"""Largest number of characters of a quoted message."""

PROMPT = [1, 2, 3, 4, 5, 6, 7, 8, 9]
"""Prompt that is longer than two pages of four tokens."""
SCRIPT: tuple[Command, ...] = (
    {"do": "open", "session": "s1"},
    {"do": "open", "session": "s2"},
    {"do": "submit", "session": "s1", "rid": "r1", "tokens": PROMPT, "max_new": 3, "stop": []},
    {"do": "step", "n": 1},
    {"do": "submit", "session": "s2", "rid": "r2", "tokens": PROMPT, "max_new": 2, "stop": []},
    {"do": "step", "n": 6},
    {"do": "submit", "session": "s1", "rid": "r3", "tokens": [10], "max_new": 4, "stop": []},
    {"do": "step", "n": 1},
    {"do": "abort", "rid": "r3"},
    {"do": "step", "n": 3},
    {"do": "tick", "seconds": 1},
    {"do": "close", "session": "s1"},
    {"do": "step", "n": 2},
)
"""Short script with two sessions, three turns, an abort and a close."""


class NotAsked(Exception):
    """A check that cannot run, because a fault prevents it. Another check reports that fault."""


@dataclass(frozen=True)
class ScriptRun:
    """A run of the script in one configuration, with all snapshots."""

    name: str
    config: EngineConfig
    told: list[tuple[Command, list[Snapshot]]]
    choices: Choices = field(default_factory=lambda: PROFILES["reference"].choices)

    @property
    def moments(self) -> Iterator[tuple[Snapshot, Snapshot, Client]]:
        """Snapshots, each with the previous snapshot and the state of the clients at that time."""
        client, before = Client(choices=self.choices), empty_snapshot()
        for command, shown in self.told:
            client.sends(command)
            for snapshot in shown:
                client.reads(snapshot["consumed"])
                for message in snapshot["messages"]:
                    client.hears(message)
                yield before if before["pools"] else with_totals(before, snapshot), snapshot, client
                before = snapshot

    def at(self, snapshot: Snapshot, what: str) -> str:
        """Return the text, preceded by the configuration and the iteration."""
        return f"{self.name}, iteration {snapshot['iter']}: {what}"


@dataclass
class Driver:
    """A driver process, started when needed and restarted after a failure.

    A wrong ``id``, or a line that is no answer, is only recorded. Times are in seconds.
    """

    argv: Sequence[str]
    step_timeout: float = 10.0
    start_timeout: float = START_TIMEOUT
    config: EngineConfig = field(default_factory=EngineConfig)
    configs: dict[str, EngineConfig] = field(default_factory=dict)
    """Configurations for the script, by name: the first accepted one, and one with larger pages."""
    capabilities: Capabilities | None = None
    noise: list[str] = field(default_factory=list)
    """Lines on standard output that are no answers. Only the first few are stored."""
    numbered: list[str] = field(default_factory=list)
    """Answers whose ``id`` differs from the message's ``id``. Only the first few are stored."""
    welcome: Answer = field(default_factory=dict)
    """Answer to the first hello."""
    pipe: Pipe | None = None
    _next: int = 0

    def start(self) -> Pipe:
        """Return the running process. If there is none, start one and send hello."""
        if self.pipe is None:
            self.pipe = Pipe(self.argv)
            self.greet()
        return self.pipe

    def greet(self) -> None:
        """Send hello to the running process. The first answer becomes ``welcome``."""
        hello = self.ask({"op": "hello", "protocol": PROTOCOL}, self.start_timeout)
        self.welcome = self.welcome or hello

    def again(self) -> Pipe:
        """Restart the driver."""
        self.leave()
        return self.start()

    def leave(self) -> None:
        """Kill the driver's process."""
        if self.pipe is not None:
            self.pipe.kill()
            self.pipe = None

    def ask(self, message: Answer, timeout: float | None = None) -> Answer:
        """Send a message and return its answer. Raises :class:`EngineFailed` if no answer comes."""
        self._next += 1
        return self.say(json.dumps({**message, "id": self._next}), timeout, self._next)

    def say(self, line: str, timeout: float | None = None, number: int | None = None) -> Answer:
        """Send a line, valid or not, and return the answer."""
        pipe, odd = self.start(), ""
        limit = self.step_timeout if timeout is None else timeout
        deadline = time.monotonic() + limit
        try:
            pipe.send(line, limit)
            while True:
                answer, wrong = _answer(pipe.line(max(0.0, deadline - time.monotonic())))
                if answer is not None:
                    break
                odd = odd or f"; the driver wrote {wrong}"
                self.noise += [wrong] if len(self.noise) < bounds.SEEN_LINES else []
        except EngineFailed as failure:
            self.leave()
            what = f" to {ascii(line)[1:-1][:ASKED]}" if self.welcome else ""
            none = f"no answer within {limit:g} s{what}{odd}"
            text = none if failure.how == "hang" else str(failure)
            raise EngineFailed(failure.how, text, failure.trace) from None
        if answer.get("id") != number and len(self.numbered) < bounds.SEEN_LINES:
            self.numbered.append(f"answer {quoted(answer.get('id'))} to message {quoted(number)}")
        return answer

    def reset(self, config: Any = None) -> Answer:
        wanted = self.config.to_json() if config is None else config
        return self.ask({"op": "reset", "config": wanted, "seed": 0}, self.start_timeout)

    def do(self, command: Any) -> Answer:
        count = command.get("n", 1) if isinstance(command, dict) else 1
        limit = self.step_timeout * max(1, count if isinstance(count, int) else 1)
        return self.ask({"op": "do", "command": command}, limit)

    # Helpers that rely on other checks ----------------------------------------------

    def fresh(self, config: EngineConfig | None = None) -> None:
        """Reset the engine. Raise :class:`NotAsked` if the reset fails."""
        answer = self.reset(config.to_json() if config else None)
        if not answer["ok"]:
            raise NotAsked(f"reset is answered with: {answer.get('error')}")

    def shown(self, command: Command) -> list[Snapshot]:
        """Run a command and return its snapshots. Raises :class:`NotAsked` for unreadable ones."""
        answer = self.do(command)
        if not answer["ok"]:
            raise NotAsked(f"{command['do']} is answered with: {answer.get('error')}")
        if SNAPSHOTS.misfit(answer.get("result")) is not None:
            raise NotAsked("snapshots do not follow the schema")
        return cast("list[Snapshot]", answer["result"]["snapshots"])

    def one(self) -> Snapshot:
        """Run one step and return its snapshot."""
        if not (snapshots := self.shown({"do": "step", "n": 1})):
            raise NotAsked("a step shows no snapshot")
        return snapshots[-1]

    def live(self) -> list[Snapshot]:
        """Run every script command that the driver offers. Return the snapshots."""
        return [snapshot for command in self.script() for snapshot in self.shown(command)]

    def script_runs(self) -> Iterator[ScriptRun]:
        """Yield a run of the script per configuration, each on a fresh engine."""
        for name, config in (self.configs or {"": self.config}).items():
            self.fresh(config)
            told = [(command, self.shown(command)) for command in self.script()]
            run = ScriptRun(name, config, told, self.choices(config))
            if any(nonsense(snapshot, config) for _, shown in run.told for snapshot in shown):
                raise NotAsked("snapshots make no sense")
            yield run

    def choices(self, config: EngineConfig) -> Choices:
        """Return the profile's choices for a configuration. Default profile: ``reference``."""
        if (offered := self.capabilities) is None or offered.profile not in PROFILES:
            return PROFILES["reference"].choices
        return Setup(config).choices(offered).choices

    def offered(self) -> Capabilities:
        """Return the driver's capabilities. Raises :class:`NotAsked` without capabilities."""
        if self.capabilities is None:
            raise NotAsked("the hello gave no capabilities")
        return self.capabilities

    def first_wrong(
        self, look: Callable[[ScriptRun, Snapshot, Client], str | None]
    ) -> Iterator[str]:
        """Yield the first fault that ``look`` finds in the script's snapshots, with its place."""
        for run in self.script_runs():
            for _, snapshot, client in run.moments:
                if wrong := look(run, snapshot, client):
                    yield run.at(snapshot, wrong)
                    return

    def script(self) -> Iterator[Command]:
        """Yield every script command that the driver offers."""
        offered = FIELDS.keys() if self.capabilities is None else self.capabilities.commands
        yield from (command for command in SCRIPT if command["do"] in offered)


Look = Callable[[Driver], Iterator[str]]


class Check:
    """A check made from a function, with the function's name and its docstring's sentence."""

    def __init__(self, look: Look, fix: str) -> None:
        self.look, self.fix = look, fix
        """``look`` yields a line per fault. ``fix`` is advice on how to repair the driver."""
        self.name = look.__name__.replace("_", "-")
        self.sentence = (look.__doc__ or "").rstrip(".")
        self.sentence = self.sentence[:1].lower() + self.sentence[1:]


def checks(fix: str) -> Callable[[Look], Check]:
    """Return a decorator that turns a function into a :class:`Check`."""
    return partial(Check, fix=fix)


def _answer(line: bytes) -> tuple[Answer | None, str]:
    """Return the answer on a line, or None with a quote of the line and the reason."""
    try:
        answer = jsontext.parse(line)
        wrong = 'JSON, but no object with a boolean "ok"'
    except jsontext.BadJson as bad:
        answer, wrong = None, str(bad)
    if isinstance(answer, dict) and isinstance(answer.get("ok"), bool):
        return answer, ""
    return None, f"{quoted(line[: bounds.SEEN_CHARS].decode(errors='replace'))} ({wrong[:80]})"


def refused(answer: Answer, what: str) -> Iterator[str]:
    """Yield a fault unless the answer is of kind ``usage``, with one line of text."""
    error = answer.get("error")
    if answer["ok"]:
        yield f"{what} is answered with a result: {json.dumps(answer.get('result'))[:80]}"
    elif answer.get("kind") != "usage":
        yield f"{what} is answered with kind {answer.get('kind')!r}: {error}"
    elif not isinstance(error, str) or not error.strip() or "\n" in error:
        yield f"{what} is refused, but the error is not one line of text: {error!r}"
