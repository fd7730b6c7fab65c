"""``--engine sglang==0.5.18``: the Python of that environment."""

from __future__ import annotations

from pathlib import Path

from slotproof.conformance.environments.making import Maker
from slotproof.conformance.environments.recipes import EnvironmentProblem, parse
from slotproof.conformance.environments.store import Entry, Store, default_folder
from slotproof.conformance.environments.telling import telling


def environment(
    name: str, folder: Path | None = None, python: Path | None = None, again: bool = False
) -> Entry:
    """The environment called ``ENGINE==RELEASE``, made first where it is missing.

    Raises :class:`EnvironmentProblem`.
    """
    recipe, release = parse(name)
    store = Store(folder or default_folder())
    title = f"making the environment of {name} in {store.folder}, once"
    with telling(title) as tell:
        return Maker(recipe, store, tell).ensure(release, python, again)


def for_engine(name: str) -> Entry:
    """The environment an engine is to be started in; a damaged one is the user's to mend."""
    parse(name)
    store = Store(default_folder())
    entry = store.find(name)
    if entry is not None and entry.ready and (damage := store.damage(entry)):
        raise EnvironmentProblem(
            f"the environment of {name} is damaged ({damage}); "
            f"`slotproof env create {name}` makes it again"
        )
    return environment(name)
