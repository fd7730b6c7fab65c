"""``slotproof env``: environments of real engine builds, made once and kept."""

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

NAMES_HELP = "As `env list` calls them."
NAME_HELP = f"ENGINE==RELEASE, such as {FIRST.name}=={FIRST.example}."

env = typer.Typer(
    help="Make, list and remove environments of real engine builds.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@env.command(epilog=epilog("env create"))
def create(
    name: str = typer.Argument(metavar="RELEASE", help=NAME_HELP),
    python: Path | None = option("--python FILE", "Engine", "Make it with this Python."),
    again: bool = option("--again", "Engine", "Make it again, with the packages it shares.", False),
    as_json: bool = JSON,
) -> int:
    """Make the environment of a release, or find it made."""
    began = time.monotonic()
    entry = environment(name, Store(default_folder()), starts, python, again)
    seconds = time.monotonic() - began
    line = f"{entry.name}  {entry.megabytes()} MB  {entry.path}  ({seconds:.0f} s)"
    return answer({**entry.to_json(), "seconds": round(seconds, 1)}, [line], as_json)


@env.command("list", epilog=epilog("env list"))
def list_environments(as_json: bool = JSON) -> int:
    """List the environments there are, with their size and where they are."""
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
    everything: bool = option("--all", "Engine", "Remove all of them.", False),
    as_json: bool = JSON,
) -> int:
    """Remove environments, and shared packages with the last one that uses them."""
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
        given = Build("", entry.engine, entry.release, "")
        build = installed(given, entry.site / entry.engine)
        damage = None if build.release else f"it is {build.title}"
    return f"damaged: {damage}" if damage else f"made {entry.made}"


def _chosen(store: Store, names: list[str] | None) -> list[Entry]:
    """The environments with those names; all of them without names."""
    entries = store.entries()
    if not names:
        return entries
    removable = {entry.name: entry for entry in entries if entry.release}
    wanted = {}
    for text in names:
        name = text
        with suppress(EnvironmentProblem):  # else it is the name of no release
            family, release = parse(text)
            name = f"{family.name}=={release}"
        if name not in removable:
            there = f"there are: {', '.join(removable)}" if removable else "there are none"
            raise UsageProblem(f"there is no environment {name!r} in {store.folder}; {there}")
        wanted[name] = removable[name]
    return list(wanted.values())
