"""Makes the environment of a release: uv fills it, and the engine's driver starts in it once."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from slotproof.environments import uv
from slotproof.environments.families import EnvironmentProblem, parse
from slotproof.environments.store import Entry, Store
from slotproof.protocol.family import Family, Recipe
from slotproof.support.files import write_whole
from slotproof.support.terminal import complain

Check = Callable[[Path, Family], str]
"""Starts a build, given its Python. Returns why it does not start, or nothing."""


def environment(
    name: str, store: Store, check: Check, python: Path | None = None, again: bool = False
) -> Entry:
    """Return the environment called ``ENGINE==RELEASE``. Make it where it is missing or damaged.

    ``check`` starts it then. ``python`` is the interpreter to make it with. ``again`` makes the
    environment and the packages that it shares anew. Raises :class:`EnvironmentProblem`.
    """
    family, release = parse(name)
    recipe = family.recipe
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    others = f">={recipe.pythons[0]},<={recipe.pythons[-1]}.99"
    program = str(python or (sys.executable if here in recipe.pythons else others))
    version = _version(program, family) if python else ""

    def usable() -> Entry | None:
        entry = None if again else store.find(f"{family.name}=={release}")
        if entry is None or store.damage(entry) or version not in ("", entry.python_version):
            return None
        return entry if entry.shared == recipe.shared(entry.python_version) else None

    if entry := usable():
        return entry
    version = version or _version(program, family)
    with store.changing():
        if entry := usable():
            return entry  # made while we waited
        shared = recipe.shared(version)
        there = not again and store.find(shared) is not None
        needed = recipe.release_mb + (0 if there else recipe.shared_mb)
        if (free := shutil.disk_usage(store.folder).free / 1e6) < needed:
            text = f"about {needed} MB are needed in {store.folder}, {free:.0f} are free"
            raise EnvironmentProblem(text)
        folder = store.work / f"{family.name}-{release}"
        entry = Entry(family.name, release, version, shared, folder)
        _must(family.name, _uv(store, "venv", "--python", program, str(entry.path)))
        _install_release(entry, recipe, store)
        write_whole(entry.site / "slotproof-shared.pth", f"{store.folder / shared}\n")
        if not there:
            _install_shared(store.work / shared, entry, recipe, store)
            store.publish(Entry("", "", version, "", store.work / shared))
        if why := check(entry.python, family):
            raise EnvironmentProblem(f"{entry.name} does not start here: {why}")
        entry = store.publish(entry)
        store.sweep()
        return entry


def _version(program: str, family: Family) -> str:
    """Return the version of a Python that the engine's wheels are for: ``3.11``."""
    done = uv.run("--no-cache", "python", "find", "--show-version", program)
    version = ".".join(done.stdout.decode().split(".")[:2])
    if version not in family.recipe.pythons:
        found = f"{program} is Python {version}" if version else f"no Python is {program}"
        raise EnvironmentProblem(
            f"{family.name} takes Python {' or '.join(family.recipe.pythons)}; {found} "
            "(`slotproof env create NAME --python PATH` names one)"
        )
    return version


def _install_release(entry: Entry, recipe: Recipe, store: Store) -> None:
    """Install the wheel of a release, and nothing that it asks for."""
    wheel = uv.install("--no-deps", "--python", str(entry.python))
    done = _uv(store, *wheel, "--dry-run", entry.name)
    if b"there is no version of" in done.stderr:
        near = []
        for resolution, side in (("highest", "<"), ("lowest", ">=")):
            other = f"{entry.engine}{side}{entry.release},!={entry.release}"
            plan = _uv(store, *wheel, "--dry-run", "--resolution", resolution, other)
            near += re.findall(r"^ \+ .*==(\S+)", plan.stderr.decode(), re.MULTILINE)
        raise EnvironmentProblem(
            f"there is no {entry.engine} {entry.release} (for this Python and machine); "
            f"near it: {', '.join(near) or 'none'}"
        )
    _must(entry.engine, done)
    complain(f"making the environment of {entry.name} in {store.folder}, once")
    _must(entry.engine, _uv(store, *wheel, entry.name))
    if recipe.keeps:  # kernels for GPUs are most of a wheel
        for path in (entry.site / entry.engine).rglob("*"):
            if not path.is_dir() and not path.name.endswith(recipe.keeps):
                path.unlink()


def _install_shared(folder: Path, entry: Entry, recipe: Recipe, store: Store) -> None:
    """Install the packages that releases share. No package for a GPU is among them."""
    into = ("--python", str(entry.python), "--target", str(folder))
    wheels = uv.install(*into, *recipe.requirements)
    # From the index of CPU builds, where it can be reached: the usual one has torch for GPUs.
    cpu = ["--torch-backend", "cpu"]
    impatient = {"UV_HTTP_RETRIES": "1", "UV_HTTP_CONNECT_TIMEOUT": "15"}
    if _uv(store, *wheels, *cpu, "--dry-run", **impatient).returncode:
        cpu = []
        plan = _uv(store, *wheels, "--dry-run")
        _must(entry.engine, plan)
        if gpu := uv.gpu_package(plan):
            raise EnvironmentProblem(
                f"the usual package index has torch for GPUs (it needs {gpu}), and PyTorch's "
                "index for the CPU gave none; no environment was made"
            )
    _must(entry.engine, _uv(store, *wheels, *cpu))


def _uv(store: Store, *arguments: str, **variables: str) -> uv.Done:
    # The cache lies beside what is linked into it, and only while an environment is made.
    variables["UV_CACHE_DIR"] = str(store.work / "downloads")
    return uv.run(*arguments, keep_open=store.lock, **variables)


def _must(engine: str, done: uv.Done) -> None:
    if done.returncode:
        raise EnvironmentProblem(f"{engine}: {uv.problem(done)}")
