"""Environment of a release: uv installs the release, whose driver then starts once as a check."""

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
"""Function that starts the engine of an environment. Returns the reason for a failure, or ""."""


def environment(
    name: str, store: Store, check: Check, python: Path | None = None, again: bool = False
) -> Entry:
    """Return the environment named ``ENGINE==RELEASE``. A missing or damaged environment is made.

    ``check`` starts a new environment's engine. ``python`` is the interpreter to use. ``again``
    makes the environment and its shared packages again. Raises :class:`EnvironmentProblem`.
    """
    family, release = parse(name)
    recipe = family.recipe
    this_python = f"{sys.version_info.major}.{sys.version_info.minor}"
    others = f">={recipe.pythons[0]},<={recipe.pythons[-1]}.99"
    program = str(python or (sys.executable if this_python in recipe.pythons else others))
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
            return entry  # Another process made the environment while this one waited.
        shared = recipe.shared(version)
        has_shared = not again and store.find(shared) is not None
        needed = recipe.release_mb + (0 if has_shared else recipe.shared_mb)
        if (free := shutil.disk_usage(store.folder).free / 1e6) < needed:
            text = f"about {needed} MB are needed in {store.folder}, but {free:.0f} MB are free"
            raise EnvironmentProblem(text)
        folder = store.work / f"{family.name}-{release}"
        entry = Entry(family.name, release, version, shared, folder)
        _must(family.name, _uv(store, "venv", "--python", program, str(entry.path)))
        _install_release(entry, recipe, store)
        write_whole(entry.site / "slotproof-shared.pth", f"{store.folder / shared}\n")
        if not has_shared:
            _install_shared(store.work / shared, entry, recipe, store)
            store.publish(Entry("", "", version, "", store.work / shared))
        if why := check(entry.python, family):
            raise EnvironmentProblem(f"{entry.name} does not start here: {why}")
        entry = store.publish(entry)
        store.sweep()
        return entry


def _version(program: str, family: Family) -> str:
    """Return an interpreter's version, such as ``3.11``. Raises if no wheel fits this version."""
    done = uv.run("--no-cache", "python", "find", "--show-version", program)
    if (version := ".".join(done.stdout.decode().split(".")[:2])) not in family.recipe.pythons:
        problem = f"{program} is Python {version}" if version else f"no Python is {program}"
        raise EnvironmentProblem(
            f"{family.name} needs Python {' or '.join(family.recipe.pythons)}; {problem} "
            "(`slotproof env create NAME --python PATH` chooses another Python)"
        )
    return version


def _install_release(entry: Entry, recipe: Recipe, store: Store) -> None:
    """Install the wheel of a release, without the wheel's dependencies."""
    wheel = uv.install("--no-deps", "--python", str(entry.python))
    done = _uv(store, *wheel, "--dry-run", entry.name)
    if b"there is no version of" in done.stderr:
        near = []
        for resolution, side in (("highest", "<"), ("lowest", ">=")):
            other = f"{entry.engine}{side}{entry.release},!={entry.release}"
            plan = _uv(store, *wheel, "--dry-run", "--resolution", resolution, other)
            versions = re.findall(r"^ \+ .*==(\S+)", plan.stderr.decode(), re.MULTILINE)
            near += [f"{entry.engine}=={version}" for version in versions]
        hint = f"try {' or '.join(near)}" if near else "nor any other release"
        text = f"there is no {entry.name} in the package index for this Python and machine"
        raise EnvironmentProblem(f"{text}; {hint}")
    _must(entry.engine, done)
    complain(f"making the environment of {entry.name} in {store.folder}. Later runs reuse it")
    _must(entry.engine, _uv(store, *wheel, entry.name))
    if recipe.keeps:  # Most of a wheel is GPU kernels, which are deleted.
        for path in (entry.site / entry.engine).rglob("*"):
            if not path.is_dir() and not path.name.endswith(recipe.keeps):
                path.unlink()


def _install_shared(folder: Path, entry: Entry, recipe: Recipe, store: Store) -> None:
    """Install the CPU builds of the packages that releases share."""
    into = ("--python", str(entry.python), "--target", str(folder))
    wheels = uv.install(*into, *recipe.requirements)
    # Prefer the index of CPU builds: the default index has torch for GPUs.
    cpu = ["--torch-backend", "cpu"]
    impatient = {"UV_HTTP_RETRIES": "1", "UV_HTTP_CONNECT_TIMEOUT": "15"}
    if _uv(store, *wheels, *cpu, "--dry-run", **impatient).returncode:
        cpu = []
        plan = _uv(store, *wheels, "--dry-run")
        _must(entry.engine, plan)
        if gpu := uv.gpu_package(plan):
            raise EnvironmentProblem(
                f"the default package index has torch only for GPUs (it needs {gpu}), and "
                "PyTorch's CPU index gave no build; no environment was made"
            )
    _must(entry.engine, _uv(store, *wheels, *cpu))


def _uv(store: Store, *arguments: str, **variables: str) -> uv.Done:
    # The download cache is in the store, so that uv can link its files. It is deleted later.
    variables["UV_CACHE_DIR"] = str(store.work / "downloads")
    return uv.run(*arguments, keep_open=store.lock, **variables)


def _must(engine: str, done: uv.Done) -> None:
    if done.returncode:
        raise EnvironmentProblem(f"{engine}: {uv.problem(done)}")
