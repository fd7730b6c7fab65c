"""A process with a fresh scheduler for each configuration, and a fork of it for each example.

    driver  --socket-->  template (a built scheduler, never stepped)
       |                     |  fork per example
       |                     +-- child: serves the same socket until the next reset
       +-----socket------------- replays: forked once, before any example (`replay.py`)

Only one of template and child reads the socket at a time: the template waits while its
child lives. A child that ends otherwise than asked is a crash, told by the template.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
import socket
import traceback
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slotproof_driver.serving import REHEARSAL, TURN
from slotproof_driver.usage import UsageError, one_line

from . import boot, dialects
from .channel import Channel, crash, fork, frames, how
from .engine import WIPED, Engine, capabilities
from .replay import Replay

#: Built schedulers kept at a time; each costs about half a gigabyte, most of it shared.
KEPT = 8

#: What a build is asked whether a retracted turn keeps its KV with.
RETRACTION: list[dict[str, Any]] = [
    *REHEARSAL[:3],
    {**TURN, "rid": "r2", "tokens": [4, 5], "max_new": 8},
    {"do": "step", "n": 2},
    {"do": "retract"},
    {"do": "step", "n": 1},
]


@dataclass
class Template:
    """The driver's end of a template: its process, and the two sockets."""

    pid: int
    channel: Channel
    replays: Channel
    #: What is known already: replays are deterministic.
    known: dict[tuple[int, ...], list[int] | None] = field(default_factory=dict)

    def close(self) -> None:
        """Close both sockets."""
        self.channel.close()
        self.replays.close()

    def kill(self) -> None:
        """End it; its children die with it."""
        self.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


class Templates:
    """The driver's side: one template per shape of configuration, one of them in use."""

    def __init__(self) -> None:
        self.channels: dict[str, Template] = {}
        self.current: str | None = None
        self.busy = False

    def reset(self, config: dict[str, Any]) -> None:
        """End the running example and start one of this configuration."""
        self._finish()
        key = boot.shape_key(config)
        if key != self.current and self.current in self.channels:
            # Its nine threads of gloo wake a hundred times in a second each.
            os.kill(self.channels[self.current].pid, signal.SIGSTOP)
        self._ensure(key, config)
        os.kill(self.channels[key].pid, signal.SIGCONT)
        self.current = key
        answer = self._exchange(key, {"fork": config})
        self.busy = bool(answer.get("ok"))
        if not answer.get("ok"):
            raise UsageError(str(answer.get("error")))

    def probe(self, config: dict[str, Any]) -> dict[str, Any]:
        """The capabilities that a scheduler of this build shows."""
        key = boot.shape_key(config)
        self._ensure(key, config)
        self._rehearse(config)
        boot.LIMITS["retract"] = [self._retraction(config)]
        answer = self._exchange(key, {"capabilities": boot.LIMITS})
        if not answer.get("ok"):
            raise UsageError(str(answer.get("error")))
        found: dict[str, Any] = answer["result"]
        return found

    def _rehearse(self, config: dict[str, Any]) -> None:
        """Two turns of a session, so that every reader has read something.

        An error of the driver's own code is a layout that it does not know; one of the
        engine's is for the examples to find.
        """
        self.reset(config)
        for command in REHEARSAL:
            answer = self.ask({"command": command})
            if answer.get("kind") == "crash":
                where = frames(str(answer.get("trace"))) or [""]
                if Path(where[-1]).is_relative_to(Path(__file__).parent):
                    name = Path(where[-1]).name
                    raise UsageError(f"unknown layout: {answer['error']} (in {name})")
                break
        self._finish()

    def _retraction(self, config: dict[str, Any]) -> str:
        """Whether a retracted turn keeps its KV or is wiped; of a build that breaks here before
        it has said so: keep, as all that is known do."""
        self.reset(config)
        told: set[str] = set()
        for command in RETRACTION:
            answer = self.ask({"command": command})
            if not answer.get("ok"):
                break
            told |= {event[0] for each in answer["result"]["snapshots"] for event in each["events"]}
        self._finish()
        return "wipe" if WIPED in told else "keep"

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Pass a command to the running example."""
        if self.current is None or not self.busy:
            raise UsageError("do: reset first")
        answer = self._exchange(self.current, message)
        if answer.get("kind") == "crash":
            self.busy = not answer.get("gone", False)
            answer.pop("gone", None)
        return answer

    def recompute(self, tokens: list[int], count: int) -> dict[str, Any]:
        """The tokens that follow, replayed on an empty cache of the running configuration."""
        found = None if self.current is None else self.channels.get(self.current)
        if found is None:
            raise UsageError("recompute: reset first")
        key = (count, *tokens)
        if key not in found.known:
            message = {"tokens": tokens, "count": count}
            died = crash("the process that replays turns died", "", gone=True)
            answer = found.replays.ask(message) or died
            if answer.pop("gone", False):  # only a new template has another one
                self.channels.pop(str(self.current)).kill()
                self.busy = False
            if not answer.get("ok"):
                return answer
            found.known[key] = answer["result"]["tokens"]
        return {"ok": True, "result": {"tokens": found.known[key]}}

    def end(self) -> None:
        """Let every template go."""
        for found in self.channels.values():
            found.kill()
        self.channels.clear()

    def _finish(self) -> None:
        if self.busy and self.current is not None:
            self._exchange(self.current, {"end": True})
            self.busy = False

    def _exchange(self, key: str, message: dict[str, Any]) -> dict[str, Any]:
        found = self.channels[key]
        answer = found.channel.ask(message)
        if answer is not None:
            if answer.get("gone"):
                self._resync(found.channel)
            return answer
        del self.channels[key]
        found.close()
        self.busy = False
        _, status = os.waitpid(found.pid, 0)
        return crash(f"the engine's process died ({how(status)})", "", gone=True)

    @staticmethod
    def _resync(channel: Channel) -> None:
        """A child may die between two commands: then the news of it and the answer to the
        next command cross. Read until both are through."""
        channel.send({"sync": True})
        while (message := channel.receive()) is not None and "sync" not in message:
            pass

    def _ensure(self, key: str, config: dict[str, Any]) -> None:
        if key in self.channels:
            self.channels[key] = self.channels.pop(key)  # most recently used last
            return
        while len(self.channels) >= KEPT:
            self.channels.pop(next(iter(self.channels))).kill()
        ours, theirs = socket.socketpair()
        asking, replaying = socket.socketpair()
        gc.collect()

        def begin() -> None:
            ours.close()
            asking.close()
            for other in self.channels.values():
                other.close()
            template(Channel(theirs), Channel(replaying), config)

        pid = fork(begin)
        theirs.close()
        replaying.close()
        found = self.channels[key] = Template(pid, Channel(ours), Channel(asking))
        ready = found.channel.receive()
        if ready is None or not ready.get("ok"):
            del self.channels[key]
            found.close()
            _, status = os.waitpid(pid, 0)
            text = ready.get("error") if ready else f"its process died ({how(status)})"
            raise UsageError(f"the scheduler can't be built: {text}")


def template(channel: Channel, replays: Channel, config: dict[str, Any]) -> None:
    """Build a scheduler, then fork a child from it for every example, and one for replays."""
    try:
        scheduler = boot.build_scheduler(config)
        engine = Engine(scheduler, dialects.choose(scheduler))
    except BaseException as error:
        traceback.print_exc()
        channel.send({"ok": False, "error": one_line(error)})
        return
    gc.collect()
    gc.freeze()

    def begin() -> None:
        channel.close()
        replayer(replays, engine, bool(config["window"]))

    fork(begin)
    replays.close()
    channel.send({"ok": True})
    while (message := channel.receive()) is not None:
        if "capabilities" in message:
            shown = capabilities(engine.dialect.profile, message["capabilities"])
            channel.send({"ok": True, "result": shown})
        elif "sync" in message:
            channel.send({"sync": True})
        elif "fork" in message:
            pid = fork(functools.partial(child, channel, engine, message["fork"]))
            _, status = os.waitpid(pid, 0)
            if status != 0:
                channel.send(crash(f"the engine's process died ({how(status)})", "", gone=True))
        else:  # a command or an end after the child was gone
            channel.send(crash("there is no engine: reset first", "", gone=True))


def child(channel: Channel, engine: Engine, config: dict[str, Any]) -> None:
    """Serve one example on the template's socket, until it ends."""
    try:
        engine.configure(config)
        channel.send({"ok": True})
    except UsageError as error:
        channel.send({"ok": False, "error": one_line(error)})
        return

    def script() -> Iterator[None]:
        while (message := channel.receive()) is not None:
            if "end" in message:
                channel.send({"ok": True})
                return
            channel.send((yield from answered("snapshots", engine.do(message["command"]))))

    run(channel, engine, script())


def replayer(channel: Channel, engine: Engine, slides: bool) -> None:
    """Replay turns until nobody asks any more; an engine that a replay broke is not used again.

    A message may be lost with a process that dies: then nothing more is replayed here.
    """

    def begin() -> None:
        replay = Replay(engine, slides)

        def script() -> Iterator[None]:
            while (message := channel.receive()) is not None:
                work = replay.tokens(message["tokens"], message["count"])
                channel.send((yield from answered("tokens", work)))

        run(channel, engine, script(), "replaying a turn alone: ")

    while channel.asked():
        _, status = os.waitpid(fork(begin), 0)
        if status != 0:
            text = f"the process that replays turns died ({how(status)})"
            channel.send(crash(text, "", gone=True))
            return


def run(channel: Channel, engine: Engine, script: Iterator[None], doing: str = "") -> None:
    """Run the engine for as long as the script lasts; what it raises ends it.

    After a replay (``doing``) that raised, the next one gets a fresh fork: nothing is gone.
    """
    try:
        engine.run(script)
    except Exception as error:
        channel.send(crash(doing + one_line(error), traceback.format_exc(), gone=not doing))


def answered(name: str, work: Generator[None, None, Any]) -> Generator[None, None, dict[str, Any]]:
    """What the work gives, by this name, as an answer; what it refuses is one too."""
    try:
        return {"ok": True, "result": {name: (yield from work)}}
    except UsageError as error:
        return {"ok": False, "kind": "usage", "error": one_line(error)}
