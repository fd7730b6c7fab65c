"""The log's files: whole lines, one write for each iteration, at most so many bytes in all.

`log.jsonl` is written as `log.jsonl.000001`, `log.jsonl.000002`, …; each of them can be judged
alone, and the oldest goes when a new one would be more than there is room for.
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
"""Bytes of a line: a longer one is not read (docs/reference/log.md)."""


class TooMuch(Exception):
    """A line that doesn't fit; one line that says why."""


class Files:
    """Files that take lines. Raises `OSError` where one can't be made or written.

    A name that is taken gets the process id: nothing that was recorded is overwritten.
    """

    def __init__(self, path: str, most: int, files: int) -> None:
        if next(iglob(escape(path) + ".[0-9]*"), None) or os.path.lexists(path):  # noqa: PTH207
            root, ending = os.path.splitext(path)  # noqa: PTH122  # text in, text out
            path = f"{root}.{os.getpid()}{ending}"
        self.path, self.most, self.share = path, most, most // files
        self.number = self.lines = 0
        #: Name and bytes of each file that is there.
        self.there: deque[tuple[str, int]] = deque()
        self.file = -1
        self.size = self.first = 0

    @property
    def full(self) -> bool:
        """Whether it is time for the next file: at most half of one is its beginning."""
        return self.size > max(self.share, 2 * self.first)

    def begin(self, *lines: dict[str, Any]) -> None:
        """The next file, with what it begins with."""
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
        """Append lines. `TooMuch`: no such line fits, however much is deleted."""
        if not lines:
            return
        texts = [encode(line).encode() + b"\n" for line in lines]
        data = b"".join(texts)
        if max(map(len, texts)) > LONGEST:
            raise TooMuch(f"a line of {max(map(len, texts))} bytes, and {LONGEST} are read at most")
        self._make_room(len(data))
        self.size += len(data)
        self.lines += len(texts)
        self.there[-1] = (self.there[-1][0], self.size)
        left = data
        try:
            while left:
                left = left[os.write(self.file, left) :]
        except OSError:
            with contextlib.suppress(OSError):  # a part of a line would be taken for garbage
                os.ftruncate(self.file, self.size - len(data))
            raise

    def _make_room(self, wanted: int) -> None:
        while sum(size for _, size in self.there) + wanted > self.most:
            if len(self.there) == 1:
                raise TooMuch("the log is as large as it may get (SLOTPROOF_RECORD_MEGABYTES)")
            with contextlib.suppress(FileNotFoundError):  # somebody else made room
                os.unlink(self.there.popleft()[0])  # noqa: PTH108

    def end(self, why: str) -> None:
        """The last line."""
        if self.file >= 0:
            os.write(self.file, encode({"end": why[:900]}).encode() + b"\n")
