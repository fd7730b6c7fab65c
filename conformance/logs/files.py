"""The files of a log: one, or those that a recorder wrote one after the other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

_PART = re.compile(r"(.+)\.([0-9]{6,12})")
"""What a recorder calls the files of a recording: `log.jsonl.000001`."""


class NoFiles(ValueError):
    """There is no log, or more than one; one line."""


def files_of(named: Iterable[Path]) -> list[Path]:
    """The files that a command line names, in order: files, a folder, or a recording's name.

    Raises :class:`NoFiles`.
    """
    return [file for path in named for file in _files(path)]


def _files(path: Path) -> list[Path]:
    try:
        if path.is_dir():
            return _in_folder(path)
        if path.exists() or not path.parent.is_dir():
            return [path]
        parts = [each for each in path.parent.iterdir() if _base(each) == path.name]
    except (OSError, ValueError) as error:  # a name with a null character, a folder of others
        raise NoFiles(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    return sorted(parts, key=number) or [path]


def _in_folder(folder: Path) -> list[Path]:
    parts = [each for each in folder.iterdir() if _base(each)]
    bases = sorted({_base(each) or "" for each in parts})
    if len(bases) != 1:
        names = f"the recordings {', '.join(bases[:5])}: name one" if bases else "no recording"
        raise NoFiles(f"{folder}: Is a directory with {names}")
    return sorted(parts, key=number)


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
