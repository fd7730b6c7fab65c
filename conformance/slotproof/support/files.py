"""The only module that writes files. A file is written completely or not at all.

No reader sees half a file, even after a crash or on a full disk. The text goes to a temporary file
with a random name in the same folder, which then replaces the old file. A symbolic link at the
target is replaced and not followed, because other users may be able to write to folders of traces.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path
from typing import TextIO

TEMPORARY = ".slotproof-*.tmp"
"""Pattern of temporary file names. Only a killed process leaves a temporary file."""


def write_whole(path: Path, text: str) -> None:
    r"""Write a whole file in UTF-8, and create its folder if missing. Raises ``OSError``.

    UTF-8 has no form for a lone surrogate, so the file gets the surrogate's JSON escape.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "new" / "a.md"
    >>> write_whole(path, "≠ \ud800\n")
    >>> path.read_bytes().decode(), [each.name for each in path.parent.iterdir()]
    ('≠ \\ud800\n', ['a.md'])
    """
    data = text.encode("utf-8", "backslashreplace")
    if is_special(path):  # A folder is special, too, and the write raises.
        path.write_bytes(data)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Mode x creates a new file, follows no link, and sets the usual permissions.
    temporary = path.parent / TEMPORARY.replace("*", secrets.token_hex(8))
    with temporary.open("xb") as file:
        try:
            file.write(data)
            file.close()  # Some file systems report a full disk only on close.
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


def slug(text: str, most: int | None = None, also: str = "") -> str:
    """Return the text as a part of a file name, at most ``most`` characters long. Letters, digits
    and dots stay. ``also`` lists further characters that stay, as in a regular expression's class.

    >>> slug("reference:22213-double-count"), slug("INV-ALIVE.crash@close:a_b", also="@_")
    ('reference-22213-double-count', 'INV-ALIVE.crash@close-a_b')
    """
    return re.sub(f"[^A-Za-z0-9.{also}]+", "-", text).strip("-")[:most]


def open_stream(path: Path) -> TextIO:
    """Open a new, empty file for writing, with a flush after every line. Raises ``OSError``.

    A symbolic link is refused, because opening it would empty its target.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | (0 if is_special(path) else os.O_NOFOLLOW), 0o666)

    # Path.open takes no opener.
    return open(path, "w", buffering=1, encoding="utf-8", opener=opener)


def append(path: Path, text: str) -> None:
    """Append text to a file that another program reads later. Raises ``OSError``."""
    with path.open("ab") as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def is_special(path: Path) -> bool:
    """Return True for a terminal, pipe or other device. A rename can't replace these.

    >>> is_special(Path("/dev/null")), is_special(Path("nowhere.json"))
    (True, False)
    """
    # /dev/stdout may be a link to a plain file. The link in /dev must stay.
    in_dev = str(path.absolute().parent) in ("/dev", "/dev/fd")
    return path.exists() and (in_dev or not path.is_file())
