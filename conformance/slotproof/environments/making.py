"""Makes environments from a recipe: a base, and the environment of a release on top of it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from slotproof.environments import pip
from slotproof.environments.families import EnvironmentProblem
from slotproof.environments.processes import Done, Runner, Tell, run
from slotproof.environments.store import Entry, Store
from slotproof.protocol.family import Family, Recipe
from slotproof.support import bounds, jsontext
from slotproof.support.files import write_whole

Check = Callable[[Path, Family], str]
"""Starts a build, given its Python; says why it does not start, or nothing."""

_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
_GPU_BUILD = (
    "import torch; from importlib.metadata import distributions as d; "
    "print(torch.version.cuda or torch.version.hip or '-', "
    "*[n for x in d() if (n := x.metadata['Name']).lower().startswith(('nvidia-', 'cuda-'))])"
)


@dataclass(frozen=True)
class Maker:
    """Makes environments of one family. Every failure is an :class:`EnvironmentProblem`."""

    family: Family
    store: Store
    check: Check
    tell: Tell
    runner: Runner = run

    @property
    def recipe(self) -> Recipe:
        return self.family.recipe

    def ensure(self, release: str, python: Path | None = None, again: bool = False) -> Entry:
        """The environment of a release; made where there is none, or a damaged one.

        ``python`` is the interpreter that a new base is made with. ``again`` makes the
        environment and its base anew.
        """
        version = self._allowed(python) if python else ""
        if not again and (there := self._there(release, version)):
            return there
        with self.store.changing(self.tell):
            if not again and (there := self._there(release, version)):
                return there  # made while we waited
            entry = self._release(release, self._base(release, python, version, again))
            self.store.sweep(self.recipe.digest)
            return entry

    def _there(self, release: str, version: str) -> Entry | None:
        """The environment, if it can be used as it is."""
        entry = self.store.find(f"{self.family.name}=={release}")
        if entry is None or not entry.ready or entry.recipe != self.recipe.digest:
            return None
        if self.store.damage(entry):
            return None
        if version not in ("", entry.python_version):
            raise EnvironmentProblem(
                f"{entry.name} is there, made with Python {entry.python_version}; to have it with "
                f"{version}, first: slotproof env remove {entry.name}"
            )
        return entry

    # The base, and a release on top of it ----------------------------------------------

    def _base(self, release: str, python: Path | None, version: str, again: bool) -> Entry:
        """A base of the recipe; one that is there where possible."""
        recipe, store = self.recipe, self.store
        for entry in () if again else store.entries():
            fits = not entry.release and entry.ready and entry.recipe == recipe.digest
            if fits and version in ("", entry.python_version) and not store.damage(entry):
                return entry
        program, version = (str(python), version) if python else self._interpreter()
        name = f"{recipe.base}-base-{recipe.digest}-py{version}"
        entry = Entry(name, recipe.base, "", recipe.digest, version, "", "", store.folder / name)
        megabytes = recipe.base_mb + recipe.release_mb
        return self._make(entry, megabytes, lambda: self._fill_base(entry, program, release))

    def _fill_base(self, entry: Entry, program: str, release: str) -> None:
        recipe = self.recipe
        self._venv([program, "-m", "venv", str(entry.path)])
        wheel = pip.only(f"{self.family.name}=={release}")
        self._pip("", pip.install(entry.python, "--dry-run", *wheel))  # is there such a release?
        self._cpu_build(entry)
        rest = [line for line in recipe.requirements if line != recipe.first]
        title = f"{len(rest)} packages that it needs"
        self._pip(title, pip.install(entry.python, recipe.first, *rest))
        done = self._run("looking at torch", [str(entry.python), "-c", _GPU_BUILD])
        if done.status:
            why = (done.lines or ["nothing said"])[-1]  # where a traceback says what it was
            raise EnvironmentProblem(f"{recipe.first} does not start: {why[:200]}")
        gpu, *packages = done.lines[0].split()
        if gpu != "-" or packages:
            raise self._gpu(", ".join(packages) or f"it is for {gpu}")

    def _cpu_build(self, entry: Entry) -> None:
        """The package that other indexes may serve for GPUs, in its build for the CPU."""
        recipe, wheel = self.recipe, pip.only(self.recipe.first)
        title = f"{recipe.first} for the CPU"
        argv = pip.install(entry.python, *pip.impatient(recipe.cpu_index), *wheel)
        if self._run(title, argv).status == 0:
            return
        title += ", from the usual index"
        report = entry.path / "report.json"
        self._pip(title, pip.install(entry.python, "--dry-run", "--report", str(report), *wheel))
        try:
            found = jsontext.read(report, bounds.INSTALLER_REPORT)
            needs = found["install"][0]["metadata"]["requires_dist"]
        except (ValueError, LookupError):
            needs = []  # it may well need nothing; the build is looked at again when it is there
        finally:
            report.unlink(missing_ok=True)
        if gpu := pip.gpu_packages(needs):
            raise self._gpu(f"needs {gpu[0]}")
        self._pip(title, pip.install(entry.python, *wheel))

    def _release(self, release: str, base: Entry) -> Entry:
        """The environment of a release on top of a base."""
        engine = self.family.name
        entry = replace(
            base,
            name=f"{engine}=={release}",
            engine=engine,
            release=release,
            base=base.path.name,
            made="",
            path=self.store.folder / f"{engine}-{release}",
        )
        return self._make(entry, self.recipe.release_mb, lambda: self._fill_release(entry, base))

    def _fill_release(self, entry: Entry, base: Entry) -> None:
        self._venv([str(base.python), "-m", "venv", "--without-pip", str(entry.path)])
        wheel = pip.only(f"{entry.engine}=={entry.release}")
        title = f"{entry.engine} {entry.release}"
        self._pip(title, pip.install(base.python, *wheel, into=entry.python))
        if self.recipe.keeps:
            _thin(entry.site / entry.engine, self.recipe.keeps)
        write_whole(entry.site / "slotproof-base.pth", f"{base.site}\n")
        self.tell("starting it, to see that it does")
        if why := self.check(entry.python, self.family):
            raise EnvironmentProblem(f"{entry.name} does not start here: {why}")

    def _make(self, entry: Entry, megabytes: int, fill: Callable[[], None]) -> Entry:
        """Fill an empty folder and mark it ready; nothing stays of what fails."""
        store = self.store
        free = shutil.disk_usage(store.folder).free / 1e6
        if free < megabytes:
            raise EnvironmentProblem(
                f"about {megabytes} MB are needed in {store.folder}, {free:.0f} are free"
            )
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

    # Interpreters ------------------------------------------------------------------------

    def _allowed(self, python: Path) -> str:
        """The version of the interpreter that the user named."""
        if shutil.which(str(python)) is None:
            raise EnvironmentProblem(f"--python {python}: there is no such program")
        version = self._version(str(python))
        if not version:
            raise EnvironmentProblem(f"--python {python} is no Python that starts")
        if version not in self.recipe.pythons:
            raise EnvironmentProblem(
                f"--python {python} is Python {version}; {self.family.name} takes "
                f"{' or '.join(self.recipe.pythons)}"
            )
        return version

    def _interpreter(self) -> tuple[str, str]:
        """A Python that the engine's wheels are for, and its version."""
        recipe = self.recipe
        for program in (sys.executable, *(f"python{each}" for each in recipe.pythons)):
            version = self._version(program)
            if version in recipe.pythons:
                return program, version
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise EnvironmentProblem(
            f"{self.family.name} takes Python {' or '.join(recipe.pythons)}, this is {here}; "
            "`slotproof env create NAME --python PATH` takes another"
        )

    def _version(self, program: str) -> str:
        """``3.11``; empty where it is no Python that starts."""
        done = self._run("", [program, "-c", _VERSION])
        word = (done.lines or [""])[0]
        return word if done.status == 0 and word.count(".") == 1 else ""

    # Programs ----------------------------------------------------------------------------

    def _run(self, title: str, argv: list[str]) -> Done:
        """Run a program. With a title it takes a while: that is told, and what it prints."""
        if not title:
            return self.runner(argv, self.store.lock, lambda _: None)
        self.tell(title)
        return self.runner(
            argv, self.store.lock, lambda line: self.tell(f"{title}: {line}" if line else title)
        )

    def _venv(self, argv: list[str]) -> None:
        done = self._run("", argv)
        if done.status:
            said = (done.lines or ["?"])[0]
            raise EnvironmentProblem(f"{' '.join(argv[:3])}: {said[:200]}")

    def _pip(self, title: str, argv: list[str]) -> None:
        done = self._run(title, argv)
        if done.status:
            raise EnvironmentProblem(f"{self.family.name}: {pip.problem(done)}")

    def _gpu(self, how: str) -> EnvironmentProblem:
        recipe = self.recipe
        return EnvironmentProblem(
            f"the usual package index has {recipe.first} for GPUs ({how}), and {recipe.cpu_index}, "
            "which has it for the CPU, gave none; no environment was made"
        )


def _thin(module: Path, keeps: tuple[str, ...]) -> None:
    """Take the files away that end otherwise: kernels for GPUs are most of a wheel."""
    for path in module.rglob("*"):
        if not path.is_dir() and not path.name.endswith(keeps):
            path.unlink()
