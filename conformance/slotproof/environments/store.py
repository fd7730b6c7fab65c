"""The folder that environments are kept in, per user; one process at a time changes it.

An environment is a folder with a marker file in it, which says what it is. The marker
says `ready` only once everything else is there, so one whose making was cut short is
recognised, and made again. A folder without a marker is somebody else's: never touched.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from packaging.version import InvalidVersion, Version
from platformdirs import user_cache_path
from pydantic import TypeAdapter

from slotproof.environments.families import EnvironmentProblem
from slotproof.support import bounds, jsontext
from slotproof.support.files import TEMPORARY, write_whole
from slotproof.support.terminal import json_text

Tell = Callable[[str], None]
"""Is told, in a few words, what is being done right now."""
MARKER = "slotproof-environment.json"
VARIABLE = "SLOTPROOF_ENVS"
_REMOVED = ".removed-"
"""Folders that were environments begin so: they are on their way out."""


def default_folder() -> Path:
    """``$SLOTPROOF_ENVS``, or ``slotproof/envs`` in the user's cache folder."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return Path(chosen).expanduser().absolute()
    return user_cache_path("slotproof", appauthor=False) / "envs"


@dataclass(frozen=True)
class Entry:
    """The environment of a release, or, where ``release`` is empty, packages that releases share."""

    name: str
    """``sglang==0.5.18``. A shared folder has its own name."""
    engine: str
    release: str
    recipe: str
    """The digest of the recipe it was made from."""
    python_version: str
    shared: str
    """The name of the shared folder that a release sees."""
    made: str
    """When it was ready, ISO 8601; empty while it is not."""
    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def site(self) -> Path:
        return self.path / "lib" / f"python{self.python_version}" / "site-packages"

    @property
    def ready(self) -> bool:
        return bool(self.made)

    def save(self) -> None:
        """Write the marker, whole or not at all."""
        fields = {key: value for key, value in asdict(self).items() if key != "path"}
        beside = self.path.parent  # a marker cut short must not lie in a folder without one
        write_whole(self.path / MARKER, json_text({"format": 1, **fields}), beside)

    def megabytes(self) -> int:
        """What it takes on disk."""
        total = 0
        for folder, _, names in os.walk(self.path):
            for name in names:
                with contextlib.suppress(OSError):  # it may be going away right now
                    total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118  # thousands of files
        return round(total / 1e6)

    def to_json(self) -> dict[str, Any]:
        shown = {key: str(value) or None for key, value in asdict(self).items() if key != "recipe"}
        return shown | {"python": str(self.python), "megabytes": self.megabytes()}


_ENTRY = TypeAdapter(Entry)


class Store:
    """The environments in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock: Sequence[int] = ()
        """The lock's file descriptor, while :meth:`changing`."""

    def entries(self) -> list[Entry]:
        """Everything slotproof made here, finished or not, shared folders last."""
        with contextlib.suppress(OSError):
            paths = [p for p in self.folder.iterdir() if not p.name.startswith(_REMOVED)]
            return sorted((entry for path in paths if (entry := _read(path))), key=_order)
        return []

    def find(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries() if entry.name == name), None)

    def damage(self, entry: Entry) -> str | None:
        """What is missing, as far as it can be seen without starting it."""
        if not entry.ready:
            return "it is unfinished"
        if not entry.release:
            return None
        if not os.access(entry.python, os.X_OK):
            return f"{entry.python} does not start"
        if not (module := entry.site / entry.engine).is_dir():
            return f"{module} is gone"
        shared = _read(self.folder / entry.shared)
        return None if shared and shared.ready else f"{self.folder / entry.shared} is gone"

    @contextlib.contextmanager
    def changing(self, tell: Tell) -> Iterator[None]:
        """Nobody else changes the folder meanwhile.

        Programs that inherit the lock's descriptor hold it too: where this process is
        killed, the next one waits until the last of them is gone.
        """
        held: list[int] = []
        lock = FileLock(self.folder / ".lock", on_acquired=held.append)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                holding = lock.acquire(blocking=False)
            except Timeout:
                tell(f"waiting for another slotproof that works in {self.folder}")
                holding = lock.acquire()
        except OSError as error:
            raise EnvironmentProblem(
                f"environments can't be kept in {self.folder}: {error.strerror}; "
                f"{VARIABLE} names another folder"
            ) from None
        with holding:
            self.lock = held
            for left in self.folder.glob(f"{_REMOVED}*"):
                _delete(left)
            for left in self.folder.glob(TEMPORARY):
                with contextlib.suppress(OSError):
                    left.unlink()
            yield

    def start(self, entry: Entry) -> None:
        """An empty folder for an environment, marked as not ready. Needs the lock."""
        if _read(entry.path) is not None:
            self.remove(entry)
        try:
            entry.path.mkdir(exist_ok=True)
            if any(entry.path.iterdir()):
                raise EnvironmentProblem(
                    f"{entry.path} is in the way: slotproof did not make it, so move it yourself"
                )
            entry.save()
        except OSError as error:
            raise EnvironmentProblem(f"{entry.path} can't be made: {error.strerror}") from None

    def remove(self, entry: Entry) -> None:
        """Take an environment away at once, whole. Needs the lock."""
        away = self.folder / f"{_REMOVED}{entry.path.name}-{secrets.token_hex(4)}"
        try:
            entry.path.rename(away)
        except OSError as error:
            raise EnvironmentProblem(f"{entry.path} can't be removed: {error.strerror}") from None
        _delete(away)

    def sweep(self) -> None:
        """Remove shared folders that no release uses. Needs the lock."""
        entries = self.entries()
        used = {entry.shared for entry in entries}
        for entry in entries:
            if not entry.release and entry.path.name not in used:
                self.remove(entry)


def _delete(path: Path) -> None:
    """Delete a folder that slotproof made, the marker last: one that is cut short goes on later.

    Never raises: what stays is tried again by the next one that holds the lock.
    """
    with contextlib.suppress(OSError):
        if _read(path) is None:
            return
        if path.is_symlink():  # somebody keeps it elsewhere: the link goes
            path.unlink()
            return
        for each in path.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            elif each.name != MARKER:
                each.unlink()
        (path / MARKER).unlink()
        path.rmdir()


def _read(path: Path) -> Entry | None:
    """The environment in a folder, or none if slotproof did not make the folder."""
    try:
        fields = jsontext.read(path / MARKER, bounds.MARKER_BYTES)
        fields.pop("format")
        return _ENTRY.validate_python(fields | {"path": path})
    except (ValueError, TypeError, LookupError, AttributeError):
        return None


def _order(entry: Entry) -> tuple[bool, str, Version, str]:
    """By engine and release, shared folders last. A marker may say anything."""
    try:
        version = Version(entry.release)
    except InvalidVersion:
        version = Version("0")
    return not entry.release, entry.engine, version, entry.name
