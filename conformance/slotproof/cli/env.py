"""``slotproof env``: environments of real engine builds, created once and stored."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import typer

from slotproof.cli.epilogs import epilog
from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import JSON, answer, option
from slotproof.engines.identity import installed
from slotproof.engines.releases import starts
from slotproof.environments.families import FIRST, EnvironmentProblem, parse
from slotproof.environments.making import environment
from slotproof.environments.store import Entry, Store, default_folder
from slotproof.protocol.build import Build

NAMES_HELP = "Names from `env list`."
NAME_HELP = f"Release to install, for example {FIRST.name}=={FIRST.example}."

env = typer.Typer(
    help="Create, list and remove environments of real engine builds.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@env.command(epilog=epilog("env create"))
def create(
    name: str = typer.Argument(metavar="RELEASE", help=NAME_HELP),
    python: Path | None = option("--python FILE", "Engine", "Python to use. Default: any fitting."),
    again: bool = option("--again", "Engine", "Recreate the environment and its packages.", False),
    as_json: bool = JSON,
) -> int:
    """Create the environment of a release, unless it exists."""
    began = time.monotonic()
    entry = environment(name, Store(default_folder()), starts, python, again)
    seconds = time.monotonic() - began
    line = f"{entry.name}  {entry.megabytes()} MB  {entry.path}  ({seconds:.0f} s)"
    return answer({**entry.to_json(), "seconds": round(seconds, 1)}, [line], as_json)


@env.command("list", epilog=epilog("env list"))
def list_environments(as_json: bool = JSON) -> int:
    """List the environments, with size, state and folder."""
    store = Store(default_folder())
    rows = [{**entry.to_json(), "state": _state(store, entry)} for entry in store.entries()]
    width = max((len(row["name"]) for row in rows), default=0)
    lines = [
        f"{row['name']:<{width}}  {row['megabytes']:>5} MB  {row['state']}  {row['path']}"
        for row in rows
    ] or [f"no environments in {store.folder}"]
    return answer({"folder": str(store.folder), "environments": rows}, lines, as_json)


@env.command(epilog=epilog("env remove"))
def remove(
    names: list[str] | None = typer.Argument(None, metavar="RELEASE...", help=NAMES_HELP),
    everything: bool = option("--all", "Engine", "Remove all environments.", False),
    as_json: bool = JSON,
) -> int:
    """Remove environments, and shared packages that no other environment uses."""
    if everything == bool(names):
        raise UsageProblem("name the environments to remove, or give --all")
    store = Store(default_folder())
    with store.changing():
        removed = _chosen(store, names)
        for entry in removed:
            store.remove(entry)
        store.sweep()
    gone = [entry.name for entry in removed]
    return answer({"removed": gone}, [f"removed {', '.join(gone) or 'nothing'}"], as_json)


def _state(store: Store, entry: Entry) -> str:
    damage = store.damage(entry)
    if entry.release and not damage:
        build = installed(Build("", entry.engine, entry.release, ""), entry.site / entry.engine)
        damage = None if build.release else f"it is {build.title}"
    return f"damaged: {damage}" if damage else f"made {entry.made}"


def _chosen(store: Store, names: list[str] | None) -> list[Entry]:
    """Return the named environments, or all if no name is given."""
    entries = store.entries()
    if not names:
        return entries
    removable = {entry.name: entry for entry in entries if entry.release}
    wanted = {}
    for text in names:
        name = text
        with suppress(EnvironmentProblem):  # a text that names no release is looked up unchanged
            family, release = parse(text)
            name = f"{family.name}=={release}"
        if name not in removable:
            hint = f"there are: {', '.join(removable)}" if removable else "there are none"
            raise UsageProblem(f"there is no environment {name!r} in {store.folder}; {hint}")
        wanted[name] = removable[name]
    return list(wanted.values())
