"""Makes the environment of a release: uv fills it, and the engine's driver starts in it once."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from slotproof.environments import uv
from slotproof.environments.families import EnvironmentProblem, parse
from slotproof.environments.store import Entry, Store, Tell
from slotproof.protocol.family import Family
from slotproof.support.files import write_whole
from slotproof.support.terminal import complain, plain

Check = Callable[[Path, Family], str]
"""Starts a build, given its Python; says why it does not start, or nothing."""

_IMPATIENT = {"UV_HTTP_RETRIES": "1", "UV_HTTP_CONNECT_TIMEOUT": "15"}
"""Variables for an index that has a stand-in: it is not waited for."""


@contextmanager
def telling(title: str) -> Iterator[Tell]:
    """Yield a function that reports each step: a line that moves on a terminal, else one line.

    Nothing is written before the first report.
    """
    if not sys.stderr.isatty():
        once = cache(complain)
        yield lambda _: once(title)
        return
    console = Console(stderr=True)

    def fitting(text: str) -> str:
        return escape(plain(text)[: max(20, console.width - 4)])

    with console.status(fitting(title)) as line:
        yield lambda step: line.update(fitting(f"{title}: {step}"))


def environment(
    name: str, store: Store, check: Check, python: Path | None = None, again: bool = False
) -> Entry:
    """Return the environment called ``ENGINE==RELEASE``. Make it first where it is missing.

    ``check`` starts it then. Raises :class:`EnvironmentProblem`.
    """
    family, release = parse(name)
    with telling(f"making the environment of {name} in {store.folder}, once") as tell:
        return Maker(family, store, check, tell).ensure(release, python, again)


@dataclass(frozen=True)
class Maker:
    """Makes environments of one family. Every failure is an :class:`EnvironmentProblem`."""

    family: Family
    store: Store
    check: Check
    tell: Tell

    def ensure(self, release: str, python: Path | None = None, again: bool = False) -> Entry:
        """Return the environment of a release. Make it where there is none, or a damaged one.

        ``python`` is the interpreter to make it with. ``again`` makes the environment and the
        packages that it shares anew.
        """
        program, version = self._interpreter(python) if python else ("", "")
        if not again and (entry := self._usable(release, version)):
            return entry
        with self.store.changing(self.tell):
            if not again and (entry := self._usable(release, version)):
                return entry  # made while we waited
            if not python:
                program, version = self._interpreter(None)
            entry = self._make(release, program, version, again)
            self.store.sweep()
            return entry

    def _usable(self, release: str, version: str) -> Entry | None:
        """The environment, if it can be used as it is."""
        entry = self.store.find(f"{self.family.name}=={release}")
        if entry is None or entry.recipe != self.family.recipe.digest or self.store.damage(entry):
            return None
        if version not in ("", entry.python_version):
            raise EnvironmentProblem(
                f"{entry.name} is there, made with Python {entry.python_version}; to have it with "
                f"{version}, first: slotproof env remove {entry.name}"
            )
        return entry

    def _interpreter(self, python: Path | None) -> tuple[str, str]:
        """A Python that the engine's wheels are for, and its version: ``3.11``."""
        name, pythons = self.family.name, self.family.recipe.pythons
        takes = f"{name} takes Python {' or '.join(pythons)}"
        for program in [str(python)] if python else [sys.executable, *pythons]:
            done = uv.run("python", "find", "--show-version", program)
            version = ".".join(done.stdout.decode().split(".")[:2])
            if version in pythons:
                return program, version
            if python and version:
                raise EnvironmentProblem(f"--python {python} is Python {version}; {takes}")
        if python:
            raise EnvironmentProblem(f"--python {python} is no Python that starts")
        raise EnvironmentProblem(
            f"{takes}, this is {sys.version_info.major}.{sys.version_info.minor}; "
            f"`slotproof env create NAME --python PATH` takes another"
        )

    def _make(self, release: str, program: str, version: str, again: bool) -> Entry:
        recipe, store, engine = self.family.recipe, self.store, self.family.name
        name = f"shared-{recipe.digest}-py{version}"
        shared = Entry(name, "", "", recipe.digest, version, "", "", store.folder / name)
        entry = replace(
            shared,
            name=f"{engine}=={release}",
            engine=engine,
            release=release,
            shared=name,
            path=store.folder / f"{engine}-{release}",
        )
        there = None if again else store.find(name)
        needed = recipe.release_mb + (0 if there else recipe.shared_mb)
        if (free := shutil.disk_usage(store.folder).free / 1e6) < needed:
            raise EnvironmentProblem(
                f"about {needed} MB are needed in {store.folder}, {free:.0f} are free"
            )
        with self._filling(entry) as ready:
            # Beside what it is linked into, and no longer there than this folder is unfinished.
            downloads = entry.path / "downloads"
            self._install_release(entry, program, downloads)
            if there is None or not there.ready:
                with self._filling(shared):
                    self._install_shared(shared, entry.python, downloads)
            shutil.rmtree(downloads)
            self.tell("starting it, to see that it does")
            if why := self.check(entry.python, self.family):
                raise EnvironmentProblem(f"{entry.name} does not start here: {why}")
        return ready

    @contextmanager
    def _filling(self, entry: Entry) -> Iterator[Entry]:
        """Fill an empty folder and mark it ready. Remove the folder if that fails."""
        self.store.start(entry)
        ready = replace(entry, made=datetime.now(UTC).isoformat(timespec="seconds"))
        try:
            yield ready
            ready.save()
        except BaseException as error:
            self.store.remove(entry)
            if isinstance(error, OSError):
                text = f"{entry.path} can't be made: {error.strerror}"
                raise EnvironmentProblem(text) from None
            raise

    def _install_release(self, entry: Entry, program: str, downloads: Path) -> None:
        """Install the wheel of a release, and nothing that it asks for."""
        # (the marker is in that folder already)
        self._must(self._uv("venv", "--allow-existing", "--python", program, str(entry.path)))
        wheel = uv.install("--no-deps", "--python", str(entry.python), "--cache-dir")
        self.tell(f"{entry.engine} {entry.release}")
        done = self._uv(*wheel, str(downloads), entry.name)
        if b"there is no version of" in done.stderr:
            near = []
            for resolution, side in (("highest", "<"), ("lowest", ">=")):
                other = f"{entry.engine}{side}{entry.release},!={entry.release}"
                dry = ("--dry-run", "--resolution", resolution)
                found = self._uv(*wheel, str(downloads), *dry, other).stderr.decode()
                near += re.findall(r"^ \+ .*==(\S+)", found, re.MULTILINE)
            raise EnvironmentProblem(
                f"{entry.engine}: there is no {entry.engine} {entry.release} (for this Python and "
                f"machine); near it: {', '.join(near) or 'none'}"
            )
        self._must(done)
        if keeps := self.family.recipe.keeps:  # kernels for GPUs are most of a wheel
            for path in (entry.site / entry.engine).rglob("*"):
                if not path.is_dir() and not path.name.endswith(keeps):
                    path.unlink()
        write_whole(entry.site / "slotproof-shared.pth", f"{self.store.folder / entry.shared}\n")

    def _install_shared(self, shared: Entry, python: Path, downloads: Path) -> None:
        """Install the packages that releases share. No package for a GPU is among them."""
        requirements = self.family.recipe.requirements
        into = ("--python", str(python), "--target", str(shared.path))
        command = uv.install(*into, "--cache-dir", str(downloads), *requirements)
        # The index of CPU builds, where it can be reached: the usual one has torch for GPUs.
        cpu = ("--torch-backend", "cpu")
        self.tell(f"{len(requirements)} packages that it needs")
        if self._uv(*command, *cpu, "--dry-run", variables=_IMPATIENT).returncode:
            cpu = ()
            plan = self._uv(*command, "--dry-run")
            self._must(plan)
            if gpu := uv.gpu_package(plan):
                raise EnvironmentProblem(
                    f"the usual package index has torch for GPUs (it needs {gpu}), and PyTorch's "
                    "index for the CPU gave none; no environment was made"
                )
        self._must(self._uv(*command, *cpu))

    def _uv(self, *arguments: str, variables: dict[str, str] | None = None) -> uv.Done:
        return uv.run(*arguments, keep_open=self.store.lock, variables=variables or {})

    def _must(self, done: uv.Done) -> None:
        if done.returncode:
            raise EnvironmentProblem(f"{self.family.name}: {uv.problem(done)}")
