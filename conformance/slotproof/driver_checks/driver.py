"""A driver under test: raw messages to it, and what it says, however odd; what a check is."""

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
"""Characters of a message that is quoted."""

PROMPT = [1, 2, 3, 4, 5, 6, 7, 8, 9]
"""More than two pages of four."""
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
"""A short script: two sessions, three turns, an abort, a close."""


class NotAsked(Exception):
    """A check can't be made, because of something that another one reports."""


@dataclass(frozen=True)
class ScriptRun:
    """A run of the script in one configuration, with all snapshots that it showed."""

    name: str
    config: EngineConfig
    told: list[tuple[Command, list[Snapshot]]]
    choices: Choices = field(default_factory=lambda: PROFILES["reference"].choices)

    @property
    def moments(self) -> Iterator[tuple[Snapshot, Snapshot, Client]]:
        """Each snapshot after the one before it, and what clients know by then."""
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
        """Something that was seen, and where."""
        return f"{self.name}, iteration {snapshot['iter']}: {what}"


@dataclass
class Driver:
    """A driver that is started when it is needed, and again after it broke.

    Answers are taken as they come: a wrong ``id`` or a line that is no answer is
    noted, not fatal. Times in seconds.
    """

    argv: Sequence[str]
    step_timeout: float = 10.0
    start_timeout: float = START_TIMEOUT
    config: EngineConfig = field(default_factory=EngineConfig)
    configs: dict[str, EngineConfig] = field(default_factory=dict)
    """Those that it is asked to live in, by name: the one above, and one with larger pages."""
    capabilities: Capabilities | None = None
    noise: list[str] = field(default_factory=list)
    """Lines on standard output that are no answers; the first ones."""
    numbered: list[str] = field(default_factory=list)
    """Answers with another id than their message's; the first ones."""
    welcome: Answer = field(default_factory=dict)
    """The answer to the first hello."""
    pipe: Pipe | None = None
    _next: int = 0

    def start(self) -> Pipe:
        """The driver's process; a new one that has said hello if there is none."""
        if self.pipe is None:
            self.pipe = Pipe(self.argv)
            hello = self.ask({"op": "hello", "protocol": PROTOCOL}, self.start_timeout)
            self.welcome = self.welcome or hello
        return self.pipe

    def again(self) -> Pipe:
        """Another process."""
        self.leave()
        return self.start()

    def leave(self) -> None:
        """End the driver, whatever it is doing."""
        if self.pipe is not None:
            self.pipe.kill()
            self.pipe = None

    def ask(self, message: Answer, timeout: float | None = None) -> Answer:
        """The answer to a message. :class:`EngineFailed` where none comes."""
        self._next += 1
        return self.say(json.dumps({**message, "id": self._next}), timeout, self._next)

    def say(self, line: str, timeout: float | None = None, number: int | None = None) -> Answer:
        """The answer to a line, which may be anything."""
        pipe, odd = self.start(), ""
        limit = self.step_timeout if timeout is None else timeout
        deadline = time.monotonic() + limit
        try:
            pipe.send(line, limit)
            while True:
                answer, wrong = _answer(pipe.line(max(0.0, deadline - time.monotonic())))
                if answer is not None:
                    break
                odd = odd or f"; it said {wrong}"
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

    # What other checks vouch for ---------------------------------------------------

    def fresh(self, config: EngineConfig | None = None) -> None:
        """A reset that works; :class:`NotAsked` where it does not."""
        answer = self.reset(config.to_json() if config else None)
        if not answer["ok"]:
            raise NotAsked(f"reset is answered with: {answer.get('error')}")

    def shown(self, command: Command) -> list[Snapshot]:
        """Snapshots of a command; :class:`NotAsked` where they can't be read."""
        answer = self.do(command)
        if not answer["ok"]:
            raise NotAsked(f"{command['do']} is answered with: {answer.get('error')}")
        if SNAPSHOTS.misfit(answer.get("result")) is not None:
            raise NotAsked("snapshots do not follow the schema")
        return cast("list[Snapshot]", answer["result"]["snapshots"])

    def one(self) -> Snapshot:
        """The snapshot of one step."""
        if not (found := self.shown({"do": "step", "n": 1})):
            raise NotAsked("a step shows nothing")
        return found[-1]

    def live(self) -> list[Snapshot]:
        """The script, as far as the driver offers its commands."""
        return [snapshot for command in self.script() for snapshot in self.shown(command)]

    def script_runs(self) -> Iterator[ScriptRun]:
        """Run the script in every configuration, on a fresh engine each."""
        for name, config in (self.configs or {"": self.config}).items():
            self.fresh(config)
            told = [(each, self.shown(each)) for each in self.script()]
            run = ScriptRun(name, config, told, self.choices(config))
            if any(nonsense(each, config) for _, shown in run.told for each in shown):
                raise NotAsked("snapshots make no sense")
            yield run

    def choices(self, config: EngineConfig) -> Choices:
        """What its profile and the configuration choose; the reference's, where it names none."""
        offered = self.capabilities
        if offered is None or offered.profile not in PROFILES:
            return PROFILES["reference"].choices
        return Setup(config).choices(offered).choices

    def offered(self) -> Capabilities:
        """Return what it offers; raise :class:`NotAsked` where that is not known."""
        if self.capabilities is None:
            raise NotAsked("the capabilities are not known")
        return self.capabilities

    def first_wrong(
        self, look: Callable[[ScriptRun, Snapshot, Client], str | None]
    ) -> Iterator[str]:
        """The first thing that is wrong of all that the script shows, and where."""
        for run in self.script_runs():
            for _, snapshot, client in run.moments:
                if wrong := look(run, snapshot, client):
                    yield run.at(snapshot, wrong)
                    return

    def script(self) -> Iterator[Command]:
        """The commands of the script that the driver offers."""
        offered = FIELDS.keys() if self.capabilities is None else self.capabilities.commands
        yield from (command for command in SCRIPT if command["do"] in offered)


Look = Callable[[Driver], Iterator[str]]


class Check:
    """One thing that a driver does well, by a function: its name, and its docstring as sentence."""

    def __init__(self, look: Look, fix: str) -> None:
        self.look, self.fix = look, fix
        """Yields what is wrong, one line each; what to do then."""
        self.name = look.__name__.replace("_", "-")
        self.sentence = (look.__doc__ or "").rstrip(".")
        self.sentence = self.sentence[:1].lower() + self.sentence[1:]


def checks(fix: str) -> Callable[[Look], Check]:
    """Return what makes a :class:`Check` of a function."""
    return partial(Check, fix=fix)


def _answer(line: bytes) -> tuple[Answer | None, str]:
    """The answer on a line, or what is there instead, and why that is none."""
    try:
        answer = jsontext.parse(line)
        wrong = 'it is JSON, and no object with a truth as "ok"'
    except jsontext.BadJson as bad:
        answer, wrong = None, str(bad)
    if isinstance(answer, dict) and isinstance(answer.get("ok"), bool):
        return answer, ""
    return None, f"{quoted(line[: bounds.SEEN_CHARS].decode(errors='replace'))} ({wrong[:80]})"


def refused(answer: Answer, what: str) -> Iterator[str]:
    """What is wrong with an answer that should say ``usage``."""
    error = answer.get("error")
    if answer["ok"]:
        yield f"{what} is answered with a result: {json.dumps(answer.get('result'))[:80]}"
    elif answer.get("kind") != "usage":
        yield f"{what} is answered with kind {answer.get('kind')!r}: {error}"
    elif not isinstance(error, str) or not error.strip() or "\n" in error:
        yield f"{what} is refused, and the error is no line of text: {error!r}"
