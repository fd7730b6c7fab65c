"""The log file: whole lines, one write for each iteration."""

from __future__ import annotations

import json
import os
from typing import Any


class Lines:
    """A file that takes lines until it has enough of them.

    A name that is taken gets the process id: nothing that was recorded is overwritten.
    Raises `OSError` where the file can't be made or written.
    """

    def __init__(self, path: str, most: int) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        try:
            self.file = os.open(path, flags, 0o600)
        except FileExistsError:
            root, ending = os.path.splitext(path)  # noqa: PTH122  # text in, text out
            path = f"{root}.{os.getpid()}{ending}"
            self.file = os.open(path, flags, 0o600)
        self.path = path
        self.left = most << 20

    def write(self, *lines: dict[str, Any]) -> bool:
        """Append lines; false if that was the last of them, for there is no more room."""
        data = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
        if len(data) > self.left:
            self.end("the log is as large as it may get (SLOTPROOF_RECORD_MEGABYTES)")
            return False
        self.left -= len(data)
        while data:
            data = data[os.write(self.file, data) :]
        return True

    def end(self, why: str) -> None:
        """The last line."""
        os.write(self.file, json.dumps({"end": why[:900]}).encode() + b"\n")
