"""Templates and children: a clean scheduler per example at the price of a fork.

    driver  --socket-->  template (a built scheduler, never stepped)
                             |  fork per example
                             +-- child: serves the same socket until the next reset

Only one of template and child reads the socket at a time: the template waits while its
child lives. A child that ends otherwise than asked is a crash, told by the template.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import socket
import sys
import traceback
from typing import Any

import boot
from boot import UsageError

#: Built schedulers kept at a time; each costs about half a gigabyte, most of it shared.
KEPT = 8
_PR_SET_PDEATHSIG = 1


class Channel:
    """JSON lines over a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.reader = sock.makefile("rb")

    def send(self, message: dict[str, Any]) -> None:
        """One message, whole."""
        self.sock.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """The next message; None when the other side is gone."""
        line = self.reader.readline()
        if not line:
            return None
        message: dict[str, Any] = json.loads(line)
        return message


class Templates:
    """The driver's side: one template per shape of configuration, one of them in use."""

    def __init__(self) -> None:
        self.channels: dict[str, tuple[int, Channel]] = {}
        self.current: str | None = None
        self.busy = False

    def reset(self, config: dict[str, Any]) -> None:
        """End the running example and start one of this configuration."""
        self._finish()
        key = boot.shape_key(config)
        self._ensure(key, config)
        self.current = key
        answer = self._exchange(key, {"fork": config})
        self.busy = bool(answer.get("ok"))
        if not answer.get("ok"):
            raise UsageError(str(answer.get("error")))

    def probe(self, config: dict[str, Any]) -> dict[str, Any]:
        """The capabilities that a scheduler of this build shows."""
        key = boot.shape_key(config)
        self._ensure(key, config)
        answer = self._exchange(key, {"capabilities": True})
        if not answer.get("ok"):
            raise UsageError(str(answer.get("error")))
        found: dict[str, Any] = answer["result"]
        return found

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        """Pass a command to the running example."""
        if self.current is None or not self.busy:
            raise UsageError("do: reset first")
        answer = self._exchange(self.current, message)
        if answer.get("kind") == "crash":
            self.busy = not answer.get("gone", False)
            answer.pop("gone", None)
        return answer

    def end(self) -> None:
        """Let every template go."""
        for pid, channel in self.channels.values():
            channel.sock.close()
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        self.channels.clear()

    def _finish(self) -> None:
        if self.busy and self.current is not None:
            self._exchange(self.current, {"end": True})
            self.busy = False

    def _exchange(self, key: str, message: dict[str, Any]) -> dict[str, Any]:
        pid, channel = self.channels[key]
        try:
            channel.send(message)
            answer = channel.receive()
        except OSError:
            answer = None
        if answer is not None:
            if answer.get("gone"):
                self._resync(channel)
            return answer
        del self.channels[key]
        self.busy = False
        _, status = os.waitpid(pid, 0)
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
            pid, channel = self.channels.pop(next(iter(self.channels)))
            channel.sock.close()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        ours, theirs = socket.socketpair()
        gc.collect()
        pid = os.fork()
        if pid == 0:
            ours.close()
            for _, other in self.channels.values():
                other.sock.close()
            become(lambda: template(Channel(theirs), config))
        theirs.close()
        channel = Channel(ours)
        self.channels[key] = (pid, channel)
        ready = channel.receive()
        if ready is None or not ready.get("ok"):
            del self.channels[key]
            _, status = os.waitpid(pid, 0)
            text = ready.get("error") if ready else f"its process died ({how(status)})"
            raise UsageError(f"the scheduler can't be built: {text}")


def template(channel: Channel, config: dict[str, Any]) -> None:
    """Build a scheduler, then fork a child from it for every example."""
    import dialects
    from engine import Engine, capabilities

    try:
        scheduler = boot.build_scheduler(config)
        engine = Engine(scheduler, dialects.choose(scheduler))
    except BaseException as error:
        traceback.print_exc()
        channel.send({"ok": False, "error": one_line(error)})
        return
    gc.collect()
    gc.freeze()
    channel.send({"ok": True})
    while (message := channel.receive()) is not None:
        if "capabilities" in message:
            dialect = engine.dialect
            shown = capabilities(dialect.profile, dialect.has_lent, boot.LIMITS["page_size"])
            channel.send({"ok": True, "result": shown})
        elif "sync" in message:
            channel.send({"sync": True})
        elif "fork" in message:
            pid = os.fork()
            if pid == 0:
                become(lambda: child(channel, engine, message["fork"]))
            _, status = os.waitpid(pid, 0)
            if status != 0:
                channel.send(crash(f"the engine's process died ({how(status)})", "", gone=True))
        else:  # a command or an end after the child was gone
            channel.send(crash("there is no engine: reset first", "", gone=True))


def child(channel: Channel, engine: Any, config: dict[str, Any]) -> None:
    """Serve one example on the template's socket, until it ends."""
    try:
        engine.configure(config)
        channel.send({"ok": True})
    except UsageError as error:
        channel.send({"ok": False, "error": one_line(error)})
        return
    while (message := channel.receive()) is not None:
        if "end" in message:
            channel.send({"ok": True})
            return
        try:
            answer = {"ok": True, "result": {"snapshots": engine.do(message["command"])}}
        except UsageError as error:
            answer = {"ok": False, "kind": "usage", "error": one_line(error)}
        except Exception as error:
            answer = crash(one_line(error), traceback.format_exc())
        channel.send(answer)


def become(work: Any) -> None:
    """Be another process: die with the parent, do the work, and never return."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        devnull = os.open(os.devnull, os.O_RDONLY)
        os.dup2(devnull, 0)
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def crash(error: str, trace: str, gone: bool = False) -> dict[str, Any]:
    """The engine raised, or its process is no more."""
    answer = {"ok": False, "kind": "crash", "error": error, "trace": trace}
    return {**answer, "gone": True} if gone else answer


def one_line(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return text if isinstance(error, UsageError) else f"{type(error).__name__}: {text}"


def how(status: int) -> str:
    """How a process ended."""
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return f"exit status {os.WEXITSTATUS(status)}"
