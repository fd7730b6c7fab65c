"""Releases of an engine. The environment of a release is made when it is first needed."""

from __future__ import annotations

from pathlib import Path

from slotproof.engines.base import EngineUnusable
from slotproof.engines.process import ProcessEngine
from slotproof.environments.families import EnvironmentProblem, parse
from slotproof.environments.making import environment
from slotproof.environments.store import Entry, Store, default_folder
from slotproof.environments.uv import clean_environment
from slotproof.protocol.family import Family

FIRST_START = 900.0
"""Seconds for the first start of a build. Python compiles all of its modules during that start."""


def starts(python: Path, family: Family) -> str:
    """Return the reason why the build does not start, or an empty string.

    The driver imports the build and reads a scheduler before it answers hello.
    """
    argv = [str(python), str(family.driver)]
    try:
        ProcessEngine(argv, env=clean_environment(), start_timeout=FIRST_START).close()
    except EngineUnusable as error:
        return str(error)
    return ""


def of_release(name: str) -> Entry:
    """Return the environment of ``ENGINE==RELEASE``. Make the environment if it is missing.

    A damaged environment is left for the user to repair. Raises :class:`EngineUnusable`.
    """
    store = Store(default_folder())
    try:
        family, release = parse(name)
        entry = store.find(f"{family.name}=={release}")
        if entry is not None and (damage := store.damage(entry)):
            raise EnvironmentProblem(
                f"the environment of {name} is damaged ({damage}); "
                f"`slotproof env create {name}` makes it again"
            )
        return environment(name, store, starts)
    except EnvironmentProblem as problem:
        raise EngineUnusable(str(problem)) from None
