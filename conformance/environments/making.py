"""Carries a recipe out: a base, and the environment of a release on top of it."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from slotproof.conformance.engines.base import EngineUnusable
from slotproof.conformance.engines.process import ProcessEngine
from slotproof.conformance.environments import pip
from slotproof.conformance.environments.processes import Done, Runner, Tell, clean_environment, run
from slotproof.conformance.environments.recipes import EnvironmentProblem, Recipe
from slotproof.conformance.environments.store import Entry, Store

Check = Callable[[Path, Recipe], None]
"""Starts a build, given its Python; raises :class:`EngineUnusable` where it does not start."""

FIRST_START = 900.0
"""Seconds for the first start of a build: Python compiles all that it imports."""

_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
_GPU_BUILD = (
    "import torch; from importlib.metadata import distributions as d; "
    "print(torch.version.cuda or torch.version.hip or '-', "
    "*[n for x in d() if (n := x.metadata['Name']).lower().startswith(('nvidia-', 'cuda-'))])"
)


def starts(python: Path, recipe: Recipe) -> None:
    """The driver says hello: it imports the build and looks at a scheduler of it."""
    argv = [str(python), str(recipe.driver)]
    ProcessEngine(argv, env=clean_environment(), start_timeout=FIRST_START).close()


@dataclass(frozen=True)
class Maker:
    """Makes environments from one recipe. Every failure is an :class:`EnvironmentProblem`."""

    recipe: Recipe
    store: Store
    tell: Tell
    runner: Runner = run
    check: Check = starts

    def ensure(self, release: str, python: Path | None = None, again: bool = False) -> Entry:
        """The environment of a release; made where there is none, or a damaged one.

        ``python`` is the interpreter that a new base is made with. ``again`` makes the
        environment and its base anew.
        """
        if not again and (there := self._usable(release)):
            return self._of_that_python(there, python)
        with self.store.changing(self.tell) as lock:
            if not again and (there := self._usable(release)):  # made while we waited
                return self._of_that_python(there, python)
            work = _Work(self, lock)
            base = work.base(release, python, again)
            entry = work.release(release, base)
            self.store.sweep({self.recipe.digest})
            return entry

    def _usable(self, release: str) -> Entry | None:
        entry = self.store.find(f"{self.recipe.engine}=={release}")
        if entry is None or not entry.ready or entry.recipe != self.recipe.digest:
            return None
        return None if self.store.damage(entry) else entry

    def _of_that_python(self, entry: Entry, python: Path | None) -> Entry:
        if python is None:
            return entry
        with self.store.changing(self.tell) as lock:
            wanted = _Work(self, lock).version_of(python)
        if wanted != entry.python_version:
            raise EnvironmentProblem(
                f"{entry.name} is there, made with Python {entry.python_version}; to have it with "
                f"{wanted}, first: slotproof env remove {entry.name}"
            )
        return entry


@dataclass(frozen=True)
class _Work:
    """The steps, while the lock is held."""

    maker: Maker
    lock: int

    def base(self, release: str, python: Path | None, again: bool) -> Entry:
        """A base of the recipe; one that is there where possible."""
        recipe, store = self.maker.recipe, self.maker.store
        wanted = self.version_of(python) if python else None
        for entry in store.entries():
            if entry.release or entry.recipe != recipe.digest or not entry.ready or again:
                continue
            if wanted in (None, entry.python_version) and not store.damage(entry):
                return entry
        chosen, version = self._interpreter(python)
        name = f"{recipe.engine}-base-{recipe.digest}-py{version}"
        entry = Entry(name, recipe.engine, "", recipe.digest, version, "", "", store.folder / name)
        self._space(recipe.base_mb + recipe.release_mb)
        return self._make(entry, lambda: self._fill_base(entry, chosen, release))

    def _fill_base(self, entry: Entry, python: str, release: str) -> None:
        recipe = self.maker.recipe
        self._venv([python, "-m", "venv", str(entry.path)])
        dry = pip.install(entry.python, "--dry-run", *pip.only(f"{recipe.package}=={release}"))
        self._installed(self._quick(dry))
        self._cpu_build(entry)
        rest = [line for line in recipe.requirements if line != recipe.first]
        self._pip(
            f"{len(rest)} packages that it needs", pip.install(entry.python, recipe.first, *rest)
        )
        done = self._run("looking at torch", [str(entry.python), "-c", _GPU_BUILD])
        if done.status:
            raise EnvironmentProblem(f"{recipe.first} does not start: {_last(done.text)}")
        gpu, *packages = done.text.split("\n")[0].split()
        if gpu != "-" or packages:
            raise self._gpu(", ".join(packages) or f"it is for {gpu}")

    def _cpu_build(self, entry: Entry) -> None:
        """The package that other indexes may serve for GPUs, in its build for the CPU."""
        recipe = self.maker.recipe
        wheel = pip.only(recipe.first)
        title = f"{recipe.first} for the CPU"
        argv = pip.install(entry.python, *pip.impatient(recipe.cpu_index), *wheel)
        if self._run(title, argv).status == 0:
            return
        report = entry.path / "report.json"
        dry = pip.install(entry.python, "--dry-run", "--report", str(report), *wheel)
        self._pip(f"{title}, from the usual index", dry)
        try:
            needs = json.loads(report.read_text(encoding="utf-8"))["install"][0]["metadata"][
                "requires_dist"
            ]
        except (OSError, ValueError, LookupError):
            needs = []  # it may well need nothing; the build is looked at again when it is there
        finally:
            report.unlink(missing_ok=True)
        if gpu := pip.gpu_packages(needs):
            raise self._gpu(f"needs {gpu[0]}")
        self._pip(f"{title}, from the usual index", pip.install(entry.python, *wheel))

    def release(self, release: str, base: Entry) -> Entry:
        """The environment of a release on top of a base."""
        recipe, store = self.maker.recipe, self.maker.store
        name = f"{recipe.engine}=={release}"
        path = store.folder / f"{recipe.engine}-{release}"
        entry = Entry(
            name,
            recipe.engine,
            release,
            recipe.digest,
            base.python_version,
            base.path.name,
            "",
            path,
        )
        self._space(recipe.release_mb)
        return self._make(entry, lambda: self._fill_release(entry, base))

    def _fill_release(self, entry: Entry, base: Entry) -> None:
        recipe = self.maker.recipe
        self._venv([str(base.python), "-m", "venv", "--without-pip", str(entry.path)])
        wheel = pip.only(f"{recipe.package}=={entry.release}")
        self._pip(
            f"{recipe.package} {entry.release}", pip.install(base.python, *wheel, into=entry.python)
        )
        (entry.site / "slotproof-base.pth").write_text(f"{base.site}\n")
        self.maker.tell("starting it, to see that it does")
        try:
            self.maker.check(entry.python, recipe)
        except EngineUnusable as error:
            raise EnvironmentProblem(f"{entry.name} does not start here: {error}") from None

    # The parts of every step ---------------------------------------------------------

    def _make(self, entry: Entry, fill: Callable[[], None]) -> Entry:
        """Fill an empty folder and mark it ready; nothing stays of what fails."""
        store = self.maker.store
        store.start(entry)
        try:
            fill()
            ready = replace(entry, made=datetime.now(UTC).isoformat(timespec="seconds"))
            ready.save()
        except BaseException as error:
            store.remove(entry)
            if isinstance(error, OSError):
                text = f"{entry.path} can't be made: {error.strerror}"
                raise EnvironmentProblem(text) from None
            raise
        return ready

    def _interpreter(self, given: Path | None) -> tuple[str, str]:
        """A Python that the engine's wheels are for, and its version."""
        recipe = self.maker.recipe
        allowed = [f"{major}.{minor}" for major, minor in recipe.pythons]
        if given is not None:
            version = self.version_of(given)
            if version not in allowed:
                raise EnvironmentProblem(
                    f"--python {given} is Python {version}; {recipe.engine} takes "
                    f"{recipe.versions()}"
                )
            return str(given), version
        for candidate in (sys.executable, *(f"python{each}" for each in allowed)):
            done = self._quick([candidate, "-c", _VERSION])
            if done.status == 0 and (version := done.text.split()[0]) in allowed:
                return candidate, version
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise EnvironmentProblem(
            f"{recipe.engine} takes Python {recipe.versions()}, this is {here}; "
            "`slotproof env create NAME --python PATH` takes another"
        )

    def version_of(self, python: Path) -> str:
        """The version of the interpreter that the user named."""
        if shutil.which(str(python)) is None:
            raise EnvironmentProblem(f"--python {python}: there is no such program")
        done = self._quick([str(python), "-c", _VERSION])
        words = done.text.split()
        if done.status or not words or words[0].count(".") != 1:
            raise EnvironmentProblem(f"--python {python} is no Python that starts")
        return words[0]

    def _run(self, title: str, argv: list[str]) -> Done:
        """A step that takes a while: it is told, and so is what the program prints."""
        self.maker.tell(title)
        return self.maker.runner(
            argv, self.lock, lambda line: self.maker.tell(f"{title}: {line}" if line else title)
        )

    def _quick(self, argv: list[str]) -> Done:
        """A step of some seconds, of which nothing is told."""
        return self.maker.runner(argv, self.lock, lambda _: None)

    def _venv(self, argv: list[str]) -> None:
        done = self._quick(argv)
        if done.status:
            said = [line.strip() for line in done.text.splitlines() if line.strip()] or ["?"]
            raise EnvironmentProblem(f"{' '.join(argv[:3])}: {said[0][:200]}")

    def _pip(self, title: str, argv: list[str]) -> None:
        self._installed(self._run(title, argv))

    def _installed(self, done: Done) -> None:
        if done.status:
            raise EnvironmentProblem(f"{self.maker.recipe.engine}: {pip.problem(done)}")

    def _gpu(self, how: str) -> EnvironmentProblem:
        recipe = self.maker.recipe
        return EnvironmentProblem(
            f"the usual package index has {recipe.first} for GPUs ({how}), and {recipe.cpu_index}, "
            "which has it for the CPU, gave none; no environment was made"
        )

    def _space(self, megabytes: int) -> None:
        free = shutil.disk_usage(self.maker.store.folder).free / 1e6
        if free < megabytes:
            raise EnvironmentProblem(
                f"about {megabytes} MB are needed in {self.maker.store.folder}, {free:.0f} are free"
            )


def _last(text: str) -> str:
    """The last line, which is where a traceback says what it was."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "nothing said"
