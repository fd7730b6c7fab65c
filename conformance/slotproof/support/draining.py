"""Output of a program, read in a thread; the first and the last bytes of it are kept."""

from __future__ import annotations

import os
import select
import threading
from typing import IO

_PIPE_BYTES = 1 << 20
"""What a pipe holds at most, unless the administrator allowed more (pipe(7))."""
_CHUNK = 1 << 16


class Ends:
    """The first and the last bytes of what may be endless.

    >>> ends = Ends(3, 4)
    >>> ends.add(b"abcdefg")
    >>> ends.text()
    'abcdefg'
    >>> ends.add(b"hijk")
    >>> ends.text()
    'abc\\n… 4 bytes left out …\\nhijk'
    """

    def __init__(self, first: int, last: int) -> None:
        self._room, self._last = first, last
        self._head, self._tail = bytearray(), bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        """What came next."""
        fits = self._room - len(self._head)
        self._head += chunk[:fits]
        self._tail += chunk[fits:]
        over = max(0, len(self._tail) - self._last)
        del self._tail[:over]
        self._dropped += over

    def text(self) -> str:
        """What is kept; where something is missing, how much."""
        gap = f"\n… {self._dropped} bytes left out …\n" if self._dropped else ""
        return (self._head + gap.encode() + self._tail).decode(errors="replace")


class Drain:
    """Takes a pipe over and reads it in a thread: its writer never waits for us."""

    def __init__(self, stream: IO[bytes], first: int, last: int) -> None:
        self._from = os.dup(stream.fileno())
        stream.close()
        os.set_blocking(self._from, False)
        self._ends = Ends(first, last)
        self._lock = threading.Lock()
        self._over = False
        self._woken, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()

    def _go(self) -> None:
        poll = select.poll()  # `select.select` is for numbers below 1024
        poll.register(self._from, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while not self._over and self._woken not in dict(poll.poll()):
            with self._lock:
                self._take()

    def _take(self) -> bool:
        """Take a piece; whether there was one. Needs the lock."""
        if self._over:
            return False
        try:
            chunk = os.read(self._from, _CHUNK)
        except BlockingIOError:
            return False
        self._over = not chunk
        self._ends.add(chunk)
        return bool(chunk)

    def text(self) -> str:
        """What was written up to now. The last words of a program that is no more are in it.

        Of a program that goes on writing, a full pipe is taken at most.
        """
        with self._lock:
            taken = 0
            while taken < _PIPE_BYTES and self._take():
                taken += _CHUNK
            return self._ends.text()

    def close(self) -> None:
        """Take what is left, and leave off reading. May be called again."""
        if self._wake < 0:
            return
        self.text()
        wake, self._wake = self._wake, -1
        os.close(wake)
        self._thread.join()
        self._over = True
        os.close(self._woken)
        os.close(self._from)
