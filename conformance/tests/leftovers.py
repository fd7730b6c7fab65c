"""A plugin for pytest, on in ``pyproject.toml``: what tests start ends with it, however it ends.

Programs are found by a mark in their environment, which whatever they start inherits. A watcher
reads from a pipe of which pytest alone has the other end: when that closes, the run is over.
"""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from pathlib import Path

import pytest

MARK = "SLOTPROOF_TEST_RUN"
_WATCHER = """
trap '' HUP INT QUIT TERM
read line
for each in /proc/[0-9]*; do
  grep -qsz "^$0$" "$each/environ" && kill -KILL "${each#/proc/}" 2>/dev/null
done
"""
_running: list[subprocess.Popen[bytes]] = []


def pytest_configure(config: pytest.Config) -> None:
    """Once for a run: pytest's own workers, and a pytest that a test starts, have the mark.

    What is ignored stays so in whatever tests start (``nohup``, ``make test &``), and tests that
    send signals would wait for ever: all are heard.
    """
    for each in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
        if signal.getsignal(each) is signal.SIG_IGN:
            default = signal.default_int_handler if each is signal.SIGINT else signal.SIG_DFL
            signal.signal(each, default)
    if MARK not in os.environ and Path("/proc/self/environ").exists():
        mark = uuid.uuid4().hex
        argv = ["/bin/sh", "-c", _WATCHER, f"{MARK}={mark}"]
        _running.append(subprocess.Popen(argv, stdin=subprocess.PIPE, process_group=0))
        os.environ[MARK] = mark


def pytest_unconfigure(config: pytest.Config) -> None:
    if _running:
        _running.pop().communicate()
        del os.environ[MARK]
