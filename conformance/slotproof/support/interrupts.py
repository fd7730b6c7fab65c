"""Ctrl-C and SIGTERM: one flag for all that runs, asked before anything is believed.

A command that was interrupted leaves an engine in the middle of something, and perhaps a
driver with an answer nobody has read. What it shows from there on says nothing about it, so
once an interrupt has arrived nothing more is judged; what was found before it stays.

Inside a campaign the interrupt is only noted (:func:`held`), and raised where a referee talks to
its engine (:func:`released`): nowhere else does anything wait for long, and Hypothesis, a list
of findings or a file half written must not be left in the middle. A second one that comes
while the first is on its way out changes nothing.

A command imports this before anything else: it imports nothing that takes time.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _State:
    """Of the process, as its signal handlers are."""

    noting = False
    arrived = False
    held = False
    heard = False


def arrived() -> bool:
    """Whether an interrupt has come since the outermost :func:`noted` began."""
    return _State.arrived


def heard() -> bool:
    """Whether one has come at all, since :func:`heed` or within any :func:`noted`."""
    return _State.heard


def check() -> None:
    """Raise ``KeyboardInterrupt`` if one has arrived: what comes now is not to be believed."""
    if _State.arrived:
        raise KeyboardInterrupt


def heed() -> None:
    """Let SIGTERM end this program as Ctrl-C does: what was found is kept, and the status is 3.

    A shell without job control lets a command in the background ignore SIGINT (``command &``).
    ``kill -INT`` is meant for it all the same.
    """
    for number in _SIGNALS:
        signal.signal(number, _hear)


@contextmanager
def noted() -> Iterator[None]:
    """Note interrupts from here on. May be nested: the outermost counts.

    A signal that is ignored stays ignored, and so does SIGTERM where nobody asked that it be
    heeded (:func:`heed`); in a thread nothing is changed, for no signal is told there.
    """
    if _State.noting or threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [each for each in _SIGNALS if callable(signal.getsignal(each))]
    before = {number: signal.signal(number, _note) for number in numbers}
    _State.noting, _State.held = bool(numbers), False
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _State.noting, _State.arrived, _State.held = False, False, False


def _hear(number: int, frame: FrameType | None) -> None:
    _State.heard = True
    signal.default_int_handler(number, frame)


def _note(number: int, frame: FrameType | None) -> None:
    _State.arrived = _State.heard = True
    on_its_way = isinstance(sys.exception(), KeyboardInterrupt)
    if not (_State.held or on_its_way):
        signal.default_int_handler(number, frame)


class held:  # used as a statement
    """Within it an interrupt is noted, not raised; whoever waits for long asks :func:`check`."""

    _inside = True

    def __enter__(self) -> None:
        self._before = _State.held
        try:
            _State.held = self._inside
            if not self._inside:
                check()
        except KeyboardInterrupt:  # then there is no __exit__
            _State.held = self._before
            raise

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        _State.held = self._before


class released(held):  # used as a statement
    """Within it an interrupt is raised at once, also within :func:`held`.

    ``KeyboardInterrupt`` at its beginning if one has arrived, and at its end: an answer that
    came meanwhile is not given back.
    """

    _inside = False

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        super().__exit__(kind, *error)
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            _State.arrived = _State.noting
        check()
