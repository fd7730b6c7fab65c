"""Ctrl-C and SIGTERM: a flag for the whole process, checked before any result is trusted.

An interrupted command may leave the engine in the middle of a step, or the driver with an unread
answer. The engine's state is then no evidence. After an interrupt, slotproof judges nothing more,
and preserves the earlier findings.

Inside a campaign an interrupt only sets the flag (:func:`held`). ``KeyboardInterrupt`` is raised
only where a referee waits for its engine (:func:`released`), the only long wait. Elsewhere, the
exception could leave Hypothesis, findings or a file half done. A second interrupt changes nothing.

Every command imports this module first, so the module has no slow imports.
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
    """Flags of the process. Signal handlers, too, belong to the process."""

    noting = False
    arrived = False
    held = False
    heard = False


def arrived() -> bool:
    """Return True if an interrupt has arrived since the outermost :func:`noted` was entered."""
    return _State.arrived


def heard() -> bool:
    """Return True if an interrupt has arrived since :func:`heed`, or inside any :func:`noted`."""
    return _State.heard


def check() -> None:
    """Raise ``KeyboardInterrupt`` if an interrupt has arrived. Later results can't be trusted."""
    if _State.arrived:
        raise KeyboardInterrupt


def heed() -> None:
    """Make SIGTERM end this program as Ctrl-C does: with its findings preserved and with status 3.

    A shell without job control starts background commands (``command &``) with SIGINT ignored. This
    function also makes ``kill -INT`` reach such commands.
    """
    for number in _SIGNALS:
        signal.signal(number, _hear)


@contextmanager
def noted() -> Iterator[None]:
    """Note interrupts inside this context. In nested contexts, only the outermost has an effect.

    An ignored signal stays ignored. SIGTERM is noted only after :func:`heed`. In other threads the
    context does nothing, because signals reach only the main thread.
    """
    if _State.noting or threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [number for number in _SIGNALS if callable(signal.getsignal(number))]
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
    if not (_State.held or isinstance(sys.exception(), KeyboardInterrupt)):
        signal.default_int_handler(number, frame)


class held:  # lower case, because `with held():` reads as a statement
    """Context in which an interrupt is noted, not raised. A long wait must call :func:`check`."""

    _inside = True

    def __enter__(self) -> None:
        self._before = _State.held
        try:
            _State.held = self._inside
            if not self._inside:
                check()
        except KeyboardInterrupt:  # __exit__ does not run if __enter__ raises.
            _State.held = self._before
            raise

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        _State.held = self._before


class released(held):  # lower case, as above
    """Context in which an interrupt is raised at once, even inside :func:`held`.

    Entering and leaving the context raise ``KeyboardInterrupt`` if an interrupt has arrived. An
    answer that came meanwhile is dropped.
    """

    _inside = False

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        super().__exit__(kind, *error)
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            _State.arrived = _State.noting
        check()
