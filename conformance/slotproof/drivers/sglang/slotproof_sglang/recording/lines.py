"""Files of the log. Only whole lines are written, and the total number of bytes is limited.

`log.jsonl` is written as `log.jsonl.000001`, `log.jsonl.000002`, …. Each file can be validated
without the others. The oldest file is deleted when a new line would exceed the limit.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import deque
from glob import escape, iglob
from typing import Any

encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
LONGEST = 8 << 20
"""Largest number of bytes in a line. Readers refuse longer lines (docs/reference/log.md)."""


class TooMuch(Exception):
    """A line that exceeds a limit. The message is one line with the reason."""


class Files:
    """Files of a log. Raises `OSError` if a file can't be created or written.

    If the name is taken, the process ID is added to it. No recording is overwritten.
    """

    def __init__(self, path: str, most: int, files: int) -> None:
        if next(iglob(escape(path) + ".[0-9]*"), None) or os.path.lexists(path):  # noqa: PTH207
            root, ending = os.path.splitext(path)  # noqa: PTH122  # text in, text out
            path = f"{root}.{os.getpid()}{ending}"
        self.path, self.most, self.share = path, most, most // files
        self.number = self.lines = 0
        #: Name and size in bytes of each file that still exists.
        self.there: deque[tuple[str, int]] = deque()
        self.file = -1
        self.size = self.first = 0

    @property
    def full(self) -> bool:
        """True if the next file is due. A file's first lines take at most half of its size."""
        return self.size > max(self.share, 2 * self.first)

    def begin(self, *lines: dict[str, Any]) -> None:
        """Start the next file with the given lines."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        name = f"{self.path}.{self.number + 1:06}"
        file = os.open(name, flags, 0o600)
        if self.file >= 0:
            os.close(self.file)
        self.file, self.number, self.size = file, self.number + 1, 0
        self.there.append((name, 0))
        self.write(*lines)
        self.first = self.size

    def write(self, *lines: dict[str, Any]) -> None:
        """Append lines. Raise `TooMuch` if a line exceeds a limit even in a new file."""
        if not lines:
            return
        texts = [encode(line).encode() + b"\n" for line in lines]
        data = b"".join(texts)
        if max(map(len, texts)) > LONGEST:
            raise TooMuch(f"a line of {max(map(len, texts))} bytes is over the limit of {LONGEST}")
        self._make_room(len(data))
        self.size += len(data)
        self.lines += len(texts)
        self.there[-1] = (self.there[-1][0], self.size)
        left = data
        try:
            while left:
                left = left[os.write(self.file, left) :]
        except OSError:
            with contextlib.suppress(OSError):  # A reader would treat a part of a line as garbage.
                os.ftruncate(self.file, self.size - len(data))
            raise

    def _make_room(self, wanted: int) -> None:
        while sum(size for _, size in self.there) + wanted > self.most:
            if len(self.there) == 1:
                raise TooMuch("the log has reached its limit (SLOTPROOF_RECORD_MEGABYTES)")
            with contextlib.suppress(FileNotFoundError):  # deleted by another process
                os.unlink(self.there.popleft()[0])  # noqa: PTH108

    def end(self, why: str) -> None:
        """Write the last line."""
        if self.file >= 0:
            os.write(self.file, encode({"end": why[:900]}).encode() + b"\n")
