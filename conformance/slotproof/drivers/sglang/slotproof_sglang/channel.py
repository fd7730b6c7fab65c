"""JSON lines between the driver's processes, and the forking of these processes."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

_PR_SET_PDEATHSIG = 1


class Channel:
    """JSON lines over a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.reader = sock.makefile("rb")

    def close(self) -> None:
        """Close this end of the channel, including the reader, which holds the socket open."""
        self.reader.close()
        self.sock.close()

    def send(self, message: dict[str, Any]) -> None:
        """Send one complete message."""
        self.sock.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """Return the next message, or None if the other process is gone."""
        line = self.reader.readline()
        if not line:
            return None
        message: dict[str, Any] = json.loads(line)
        return message

    def asked(self) -> bool:
        """Wait for a message and return True. Return False if the other process is gone."""
        return bool(self.sock.recv(1, socket.MSG_PEEK))

    def ask(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Send a message and return its answer, or None if the other process is gone."""
        try:
            self.send(message)
            return self.receive()
        except OSError:
            return None


def fork(work: Callable[[], None]) -> int:
    """Fork a process that does the work and dies with this process. Return its process ID."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(parent, work)
    return pid


def _become(parent: int, work: Callable[[], None]) -> None:
    """Do the work in the child and never return. The child dies with its parent.

    On a system where a parent's death sends no signal, the child ends when its socket closes, or
    when slotproof kills the driver's process group.
    """
    status = 1
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # The parent died before the request for the signal.
                os._exit(1)
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
    """Return the answer for an exception of the engine, or for a process that died (``gone``)."""
    answer = {"ok": False, "kind": "crash", "error": error, "trace": trace}
    return {**answer, "gone": True} if gone else answer


def frames(trace: str) -> list[str]:
    """Return the files named in a traceback. The innermost call's file is last."""
    return re.findall(r'^  File "([^"]+)"', trace, re.MULTILINE)


def how(status: int) -> str:
    """Return how a process ended: ``SIGSEGV``, ``exit status 3``."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return {int(item): item.name for item in signal.Signals}.get(number, f"signal {number}")
    return f"exit status {os.WEXITSTATUS(status)}"
