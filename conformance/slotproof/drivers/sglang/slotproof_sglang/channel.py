"""JSON lines between the processes of the driver, and how they are forked."""

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
        """Close this end; the reader holds the socket open as well."""
        self.reader.close()
        self.sock.close()

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

    def asked(self) -> bool:
        """Wait for a message, and leave it there; false when the other side is gone."""
        return bool(self.sock.recv(1, socket.MSG_PEEK))

    def ask(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """Send, and wait for the answer; None when the other side is gone."""
        try:
            self.send(message)
            return self.receive()
        except OSError:
            return None


def fork(work: Callable[[], None]) -> int:
    """Another process that does the work, and ends with this one; its number."""
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(parent, work)
    return pid


def _become(parent: int, work: Callable[[], None]) -> None:
    """Be another process: die with the parent, do the work, and never return.

    Where there is no parent-death signal the end of the socket serves, once it is read, and
    slotproof, which ends the driver's whole process group with itself.
    """
    status = 1
    try:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it died before we had asked for the signal
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
    """The engine raised, or its process is no more."""
    answer = {"ok": False, "kind": "crash", "error": error, "trace": trace}
    return {**answer, "gone": True} if gone else answer


def frames(trace: str) -> list[str]:
    """The files of a traceback, innermost last."""
    return re.findall(r'^  File "([^"]+)"', trace, re.MULTILINE)


def how(status: int) -> str:
    """How a process ended: ``SIGSEGV``, ``exit status 3``."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return {int(each): each.name for each in signal.Signals}.get(number, f"signal {number}")
    return f"exit status {os.WEXITSTATUS(status)}"
