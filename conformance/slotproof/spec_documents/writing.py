"""Documents in a folder: written where they differ from what they should be, or found stale."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slotproof.support.files import write_whole


def write_all(documents: Mapping[str, str], folder: Path, mark: str) -> list[str]:
    """Write what differs, remove what was generated once and no longer is; names of both.

    Raises ``OSError``.
    """
    changed = stale(documents, folder, mark)
    for name in changed:
        if name in documents:
            write_whole(folder / name, documents[name])
        else:
            (folder / name).unlink()
    return changed


def stale(documents: Mapping[str, str], folder: Path, mark: str) -> list[str]:
    """Files of the folder that are missing, differ, or carry the mark and should not be there."""
    wrong = [name for name, text in documents.items() if _read(folder / name) != text]
    extra = [
        path.relative_to(folder).as_posix()
        for path in sorted(folder.rglob("*"))
        if mark and path.is_file() and mark in (_read(path) or "")
    ]
    return wrong + [name for name in extra if name not in documents]


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
