"""Processes. Each configuration has a process with a fresh scheduler. An example runs in a fork.

    driver  --socket-->  template (a built scheduler, never stepped)
       |                     |  fork per example
       |                     +-- child: serves the same socket until the next reset
       +-----socket------------- replays: forked once, before any example (`replay.py`)

Either the template or its child reads the socket: the template waits while a child lives. If a
child ends without being asked to, the template reports a crash.
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

#: Largest number of schedulers. Each takes about half a gigabyte, most of it shared.
KEPT = 8

#: Commands of a trial: does the build leave the KV of a retracted turn in the slot?
RETRACTION: list[dict[str, Any]] = [
    *REHEARSAL[:3],
    {**TURN, "rid": "r2", "tokens": [4, 5], "max_new": 8},
    {"do": "step", "n": 2},
    {"do": "retract"},
    {"do": "step", "n": 1},
]


@dataclass
class Template:
    """Driver's handle on a template: the template's process and two sockets."""

    pid: int
    channel: Channel
    replays: Channel
    #: Results of earlier replays. They are reused, because a replay is deterministic.
    known: dict[tuple[int, ...], list[int] | None] = field(default_factory=dict)

    def close(self) -> None:
        """Close both sockets."""
        self.channel.close()
        self.replays.close()

    def kill(self) -> None:
        """Kill the template. The template's children die, too."""
        self.close()
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


class Templates:
    """Templates of the driver, keyed by shape of configuration. One is in use."""

    def __init__(self) -> None:
        self.channels: dict[str, Template] = {}
        self.current: str | None = None
        self.busy = False

    def reset(self, config: dict[str, Any]) -> None:
        """End the running example and start one with this configuration."""
        self._finish()
        key = boot.shape_key(config)
        if key != self.current and self.current in self.channels:
            # Each of the template's nine gloo threads would wake a hundred times per second.
            os.kill(self.channels[self.current].pid, signal.SIGSTOP)
        self._ensure(key, config)
        os.kill(self.channels[key].pid, signal.SIGCONT)
        self.current = key
        answer = self._exchange(key, {"fork": config})
        self.busy = bool(answer.get("ok"))
        if not answer.get("ok"):
            raise UsageError(str(answer.get("error")))

    def probe(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return the capabilities that a scheduler of this build has."""
        key = boot.shape_key(config)
        self._ensure(key, config)
        self._rehearse(config)
        boot.LIMITS["retract"] = [self._retraction(config)]
        answer = self._exchange(key, {"capabilities": boot.LIMITS})
        if not answer.get("ok"):
            raise UsageError(str(answer.get("error")))
        shown: dict[str, Any] = answer["result"]
        return shown

    def _rehearse(self, config: dict[str, Any]) -> None:
        """Run two turns of a session, so that every reading method of the driver runs.

        An error in the driver's own code means an unknown layout. Errors of the engine are ignored,
        because the examples report them.
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
        """Return "wipe" if the build wipes the KV of a retracted turn, else "keep". A build that
        fails in the trial counts as "keep", because all known builds keep the KV."""
        self.reset(config)
        seen: set[str] = set()
        for command in RETRACTION:
            answer = self.ask({"command": command})
            if not answer.get("ok"):
                break
            seen |= {event[0] for step in answer["result"]["snapshots"] for event in step["events"]}
        self._finish()
        return "wipe" if WIPED in seen else "keep"

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
        """Return the next tokens, replayed on an empty cache with the current configuration."""
        running = None if self.current is None else self.channels.get(self.current)
        if running is None:
            raise UsageError("recompute: reset first")
        key = (count, *tokens)
        if key not in running.known:
            message = {"tokens": tokens, "count": count}
            died = crash("the replay process died", "", gone=True)
            answer = running.replays.ask(message) or died
            if answer.pop("gone", False):  # Only a new template gets another replay process.
                self.channels.pop(str(self.current)).kill()
                self.busy = False
            if not answer.get("ok"):
                return answer
            running.known[key] = answer["result"]["tokens"]
        return {"ok": True, "result": {"tokens": running.known[key]}}

    def end(self) -> None:
        """Kill every template."""
        for started in self.channels.values():
            started.kill()
        self.channels.clear()

    def _finish(self) -> None:
        if self.busy and self.current is not None:
            self._exchange(self.current, {"end": True})
            self.busy = False

    def _exchange(self, key: str, message: dict[str, Any]) -> dict[str, Any]:
        used = self.channels[key]
        answer = used.channel.ask(message)
        if answer is not None:
            if answer.get("gone"):
                self._resync(used.channel)
            return answer
        del self.channels[key]
        used.close()
        self.busy = False
        _, status = os.waitpid(used.pid, 0)
        return crash(f"the engine's process died ({how(status)})", "", gone=True)

    @staticmethod
    def _resync(channel: Channel) -> None:
        """Read and drop old messages. If a child dies between two commands, two messages wait: the
        report of its death, and the answer to the next command."""
        channel.send({"sync": True})
        while (message := channel.receive()) is not None and "sync" not in message:
            pass

    def _ensure(self, key: str, config: dict[str, Any]) -> None:
        if key in self.channels:
            self.channels[key] = self.channels.pop(key)  # The most recently used template is last.
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
        started = self.channels[key] = Template(pid, Channel(ours), Channel(asking))
        ready = started.channel.receive()
        if ready is None or not ready.get("ok"):
            del self.channels[key]
            started.close()
            _, status = os.waitpid(pid, 0)
            text = ready.get("error") if ready else f"its process died ({how(status)})"
            raise UsageError(f"the scheduler can't be built: {text}")


def template(channel: Channel, replays: Channel, config: dict[str, Any]) -> None:
    """Build a scheduler, then fork a process for replays, and a child for every example."""
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
        else:  # The child is dead: a command or an `end` message has come too late.
            channel.send(crash("no engine is running: reset first", "", gone=True))


def child(channel: Channel, engine: Engine, config: dict[str, Any]) -> None:
    """Serve one example on the template's socket until the example ends."""
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
    """Replay turns until the socket ends. An engine that fails in a replay is discarded.

    If the process of a replay dies, a message may be lost. No further turn is then replayed.
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
            text = f"the replay process died ({how(status)})"
            channel.send(crash(text, "", gone=True))
            return


def run(channel: Channel, engine: Engine, script: Iterator[None], doing: str = "") -> None:
    """Run the engine until the script ends. An engine's exception ends the process's work.

    ``doing``: start of the error message. After a failed replay, the next replay gets a new fork.
    """
    try:
        engine.run(script)
    except Exception as error:
        channel.send(crash(doing + one_line(error), traceback.format_exc(), gone=not doing))


def answered(name: str, work: Generator[None, None, Any]) -> Generator[None, None, dict[str, Any]]:
    """Return an answer with the work's result under ``name``, or with a usage error."""
    try:
        return {"ok": True, "result": {name: (yield from work)}}
    except UsageError as error:
        return {"ok": False, "kind": "usage", "error": one_line(error)}
