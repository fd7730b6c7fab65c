"""The folder of environments, one per user. Only one process at a time changes the folder.

An environment is a folder with a marker file that describes it. A new environment is made inside
``.slotproof-work``, and moved to its place when complete. If slotproof is killed first, the next
process deletes the unfinished folder. slotproof never touches a folder without a marker file.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from packaging.version import Version
from platformdirs import user_cache_path
from pydantic import TypeAdapter

from slotproof.environments.families import EnvironmentProblem
from slotproof.support import bounds, jsontext
from slotproof.support.files import write_whole
from slotproof.support.terminal import complain, json_text

MARKER = "slotproof-environment.json"
VARIABLE = "SLOTPROOF_ENVS"
WORK = ".slotproof-work"


def default_folder() -> Path:
    """Return ``$SLOTPROOF_ENVS``, or by default ``slotproof/envs`` in the user's cache folder."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser().absolute()
    return user_cache_path("slotproof", appauthor=False) / "envs"


@dataclass(frozen=True)
class Entry:
    """The environment of a release, or a folder of packages that releases share."""

    engine: str
    release: str
    """Version of the release. Empty for a shared folder."""
    python_version: str
    shared: str
    """Name of the shared folder that the release uses. Empty for a shared folder."""
    path: Path
    made: str = ""
    """Time at which the environment was completed, in ISO 8601."""

    @property
    def name(self) -> str:
        """Name, such as ``sglang==0.5.18``. For a shared folder, the name of the folder."""
        return f"{self.engine}=={self.release}" if self.release else self.path.name

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def site(self) -> Path:
        return self.path / "lib" / f"python{self.python_version}" / "site-packages"

    def megabytes(self) -> int:
        """Return the environment's size on disk."""
        total = 0
        for folder, _, names in os.walk(self.path):
            for name in names:
                with contextlib.suppress(OSError):  # another process may delete the file now
                    total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118  # thousands of files
        return round(total / 1e6)

    def to_json(self) -> dict[str, Any]:
        shown = {key: str(value) or None for key, value in asdict(self).items()}
        more = {"python": str(self.python), "megabytes": self.megabytes()}
        return {"name": self.name, **shown, **more}


class Store:
    """The environments in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / WORK
        self.lock: Sequence[int] = ()
        """File descriptor of the lock. Valid only inside :meth:`changing`."""

    def entries(self) -> list[Entry]:
        """Return the environments, ordered by engine and release, then the shared folders."""
        entries = [entry for path in self.folder.glob("*") if (entry := _read(path))]
        return sorted(entries, key=lambda e: (not e.release, e.engine, Version(e.release or "0")))

    def find(self, name: str) -> Entry | None:
        return next((entry for entry in self.entries() if entry.name == name), None)

    def damage(self, entry: Entry) -> str | None:
        """Return the damage to an environment, or None. This check starts no engine."""
        if not entry.release:
            return None
        if not os.access(entry.python, os.X_OK):
            return f"{entry.python} does not start"
        for folder in (entry.site / entry.engine, self.folder / entry.shared / MARKER):
            if not folder.exists():
                return f"{folder} is gone"
        return None

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock that keeps other processes from changing the folder.

        Programs that inherit the lock's descriptor hold the lock, too. If this process is killed,
        the next process waits until the last such program ends.
        """
        held: list[int] = []
        lock = FileLock(self.folder / ".lock", on_acquired=held.append)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / ".lock").touch()  # raises in a read-only folder, where the lock hangs
            try:
                holding = lock.acquire(blocking=False)
            except Timeout:
                complain(f"waiting for another slotproof that works in {self.folder}")
                holding = lock.acquire()
            with holding:
                self.lock = held
                shutil.rmtree(self.work, ignore_errors=True)
                self.work.mkdir(exist_ok=True)
                try:
                    yield
                finally:
                    shutil.rmtree(self.work, ignore_errors=True)
        except OSError as error:
            raise EnvironmentProblem(
                f"environments can't be stored in {self.folder}: {error.strerror}; "
                f"set {VARIABLE} to another folder"
            ) from None

    def publish(self, entry: Entry) -> Entry:
        """Move a complete environment from :attr:`work` to its place. The caller holds the lock."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        complete = replace(entry, path=self.folder / entry.path.name, made=now)
        fields = {key: value for key, value in asdict(complete).items() if key != "path"}
        write_whole(entry.path / MARKER, json_text({"format": 1, **fields}))
        if _read(complete.path):
            self.remove(complete)
        try:
            entry.path.rename(complete.path)
        except OSError:
            raise EnvironmentProblem(
                f"{complete.path} is in the way: slotproof did not make it, so move it yourself"
            ) from None
        return complete

    def remove(self, entry: Entry) -> None:
        """Remove a whole environment in one step. The caller holds the lock."""
        try:
            entry.path.rename(self.work / secrets.token_hex(8))
        except OSError as error:
            raise EnvironmentProblem(f"{entry.path} can't be removed: {error.strerror}") from None

    def sweep(self) -> None:
        """Remove the shared folders that no release uses. The caller holds the lock."""
        entries = self.entries()
        used = {entry.shared for entry in entries}
        for entry in entries:
            if not entry.release and entry.path.name not in used:
                self.remove(entry)


def _read(path: Path) -> Entry | None:
    """Return the environment in a folder, or None if slotproof did not make the folder."""
    try:
        fields = jsontext.read(path / MARKER, bounds.MARKER_BYTES)
        fields.pop("format")
        Version(fields["release"] or "0")
        return TypeAdapter(Entry).validate_python(fields | {"path": path})
    except (ValueError, TypeError, LookupError, AttributeError):
        return None
