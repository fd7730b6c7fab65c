"""The one writer of files: whole or not at all, under no name that can be foreseen.

A reader, a crash or a full disk never sees half a file: the text goes to a temporary file in the
same folder, which then takes the place of the old one. A symbolic link where a file is to be
written is replaced, not followed: folders of traces lie in places that others may write to.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path
from typing import TextIO

TEMPORARY = ".slotproof-*.tmp"
"""What temporary files are called, as a pattern: only a kill leaves one."""


def write_whole(path: Path, text: str) -> None:
    """Write a file at once, in UTF-8; its folder is made if it is missing. Raises ``OSError``.

    A lone surrogate, which has no UTF-8, is written as its escape: in JSON that is the same string.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "new" / "a.md"
    >>> write_whole(path, "≠ \\ud800\\n")
    >>> path.read_bytes().decode(), [each.name for each in path.parent.iterdir()]
    ('≠ \\\\ud800\\n', ['a.md'])
    """
    data = text.encode("utf-8", "backslashreplace")
    if is_special(path):  # or a folder, which says so itself
        path.write_bytes(data)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # Mode x: made anew or not at all, through no link; with the permissions of any new file.
    temporary = path.parent / TEMPORARY.replace("*", secrets.token_hex(8))
    with temporary.open("xb") as file:
        try:
            file.write(data)
            file.close()  # a full disk may show only now
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


def slug(text: str, most: int | None = None, also: str = "") -> str:
    """Text as part of a file's name: ``most`` characters; ``also`` what stays beside letters,
    digits and dots, as in a regular expression.

    >>> slug("reference:22213-double-count"), slug("INV-ALIVE.crash@close:a_b", also="@_")
    ('reference-22213-double-count', 'INV-ALIVE.crash@close-a_b')
    """
    return re.sub(f"[^A-Za-z0-9.{also}]+", "-", text).strip("-")[:most]


def open_stream(path: Path) -> TextIO:
    """A new, empty file for lines that are written as they come. Raises ``OSError``.

    A symbolic link is refused: the file it leads to would lose what is in it.
    """

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | (0 if is_special(path) else os.O_NOFOLLOW), 0o666)

    # (Path.open takes no opener)
    return open(path, "w", buffering=1, encoding="utf-8", opener=opener)


def append(path: Path, text: str) -> None:
    """Add to a file that another program reads when this one is done. Raises ``OSError``."""
    with path.open("ab") as file:
        file.write(text.encode("utf-8", "backslashreplace"))


def is_special(path: Path) -> bool:
    """Whether it is a terminal, a pipe or another device: nothing that can be replaced.

    >>> is_special(Path("/dev/null")), is_special(Path("nowhere.json"))
    (True, False)
    """
    # /dev/stdout may lead to a plain file; the link in /dev is to stay all the same.
    in_dev = str(path.absolute().parent) in ("/dev", "/dev/fd")
    return path.exists() and (in_dev or not path.is_file())
