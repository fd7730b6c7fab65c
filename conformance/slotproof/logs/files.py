"""The files of a log: one, or those that a recorder wrote one after the other; packed by gzip or
not, or standard input."""

from __future__ import annotations

import gzip
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

STDIN = Path("-")
"""Standard input, as a name on a command line."""
_PART = re.compile(r"(.+)\.([0-9]{6,12})(?:\.gz)?")
"""What a recorder calls the files of a recording: `log.jsonl.000001`; packed since, perhaps."""
_MAGIC = b"\x1f\x8b"
"""With it a file begins that gzip wrote."""
UNREADABLE = (OSError, ValueError, EOFError, zlib.error)
"""What reading may raise: no such file, a name with a null character, a gzip file that is cut off
or damaged."""


class NoFiles(ValueError):
    """There is no log, or more than one; one line."""


def files_of(named: Iterable[Path]) -> list[Path]:
    """The files that a command line names, in order: files, a folder, or a recording's name.

    Raises :class:`NoFiles`.
    """
    return [file for path in named for file in _files(path)]


def _files(path: Path) -> list[Path]:
    if path == STDIN:
        return [path]
    try:
        if path.is_dir():
            return _in_folder(path)
        if path.exists() or not path.parent.is_dir():
            return [path]
        parts = [each for each in path.parent.iterdir() if _base(each) == path.name]
    except NoFiles:
        raise
    except (OSError, ValueError) as error:  # a name with a null character, a folder of others
        raise NoFiles(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return _in_order(parts) or [path]


def _in_order(parts: Iterable[Path]) -> list[Path]:
    """One of each number: that which is not packed, where a file is there twice."""
    one = {number(each): each for each in sorted(parts, reverse=True)}
    return [one[each] for each in sorted(one)]


def _in_folder(folder: Path) -> list[Path]:
    parts = [each for each in folder.iterdir() if _base(each)]
    bases = sorted({_base(each) or "" for each in parts})
    if len(bases) != 1:
        names = f"the recordings {', '.join(bases[:5])}: name one" if bases else "no recording"
        raise NoFiles(f"{folder}: Is a directory with {names}")
    return _in_order(parts)


def _base(file: Path) -> str | None:
    part = _PART.fullmatch(file.name)
    return part and part[1]


def number(file: Path) -> int:
    """Which file of its recording it is; 0: of none.

    >>> number(Path("log.jsonl.000012")), number(Path("log.jsonl"))
    (12, 0)
    """
    part = _PART.fullmatch(file.name)
    return int(part[2]) if part else 0


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Its bytes, unpacked. Raises what :data:`UNREADABLE` has."""
    if path == STDIN:
        if sys.stdin is None:
            raise ValueError("is closed")
        with _unpacked(sys.stdin.buffer, "") as stream:
            yield stream
        return
    with path.open("rb") as file, _unpacked(file, path.name) as stream:
        yield stream


@contextmanager
def _unpacked(file: BinaryIO, name: str) -> Iterator[BinaryIO]:
    begin = file.peek(len(_MAGIC))  # type: ignore[attr-defined]  # both are buffered readers
    if begin.startswith(_MAGIC):
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield cast("BinaryIO", unpacked)
    elif name.endswith(".gz"):
        raise ValueError("is not gzip, though it is named so")
    else:
        yield file


def why(error: BaseException) -> str:
    """What kept a file from being read, in a few words."""
    if isinstance(error, EOFError):
        return "the gzip file is cut off: copy it again, or give what `zcat` gets out of it to -"
    if isinstance(error, gzip.BadGzipFile | zlib.error):
        return f"the gzip file is damaged: {error}"
    return getattr(error, "strerror", None) or str(error)


def shown(path: Path) -> str:
    """What to call it.

    >>> shown(STDIN), shown(Path("log.jsonl"))
    ('standard input', 'log.jsonl')
    """
    return "standard input" if path == STDIN else str(path)


def is_log(path: Path) -> bool:
    """Whether it is an event log, by its name or its first line; a trace is none, nor is a file
    that is not there."""
    if path == STDIN or path.suffix in (".gz", ".jsonl") or _base(path):
        return True
    try:
        if path.is_dir() or not path.exists():
            return files_of([path]) != [path]
        if not path.is_file():  # what a pipe has can be read once
            return False
        with path.open("rb") as file:
            return b'"slotproof-log"' in file.readline(_BEGINNING)
    except (OSError, ValueError):
        return False


_BEGINNING = 100_000
"""Bytes in which a header says what it is."""
