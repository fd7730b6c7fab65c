"""An engine family: everything that slotproof knows of an engine beside what its driver does.

The record of a family lies beside its driver: data in ``family.toml``, functions in ``family.py``.
``environments/families.py`` lists the families.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter

from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig


class Played(Protocol):
    """A trace, as a harness looks at it. A row has its command, its requests, and frames with what
    clients were told."""

    @property
    def engine(self) -> str: ...
    @property
    def config(self) -> EngineConfig: ...
    @property
    def rows(self) -> Sequence[Any]: ...
    @property
    def states(self) -> bool: ...


@dataclass(frozen=True)
class Recipe:
    """How to make environments of one engine.

    Environments with the same requirements share one folder that holds them. The environment
    of a release holds nothing but that release. Sizes are in megabytes, rounded up.
    """

    requirements: tuple[str, ...]
    """Lines of pip's requirements format."""
    pythons: tuple[str, ...]
    shared_mb: int
    release_mb: int
    keeps: tuple[str, ...] = ()
    """Endings of the files of a release that a CPU run needs; others are removed. Empty: all."""

    def shared(self, version: str) -> str:
        """Return the name of the folder that holds the requirements for a version of Python.

        >>> Recipe(("torch==2",), (), 1, 1).shared("3.11")
        'shared-ca942656-py3.11'
        """
        digest = hashlib.sha256("\n".join(self.requirements).encode()).hexdigest()[:8]
        return f"shared-{digest}-py{version}"


@dataclass(frozen=True)
class Harness:
    """An engine's scheduler alone: what a script, or a report for maintainers, is made of."""

    parts: tuple[Path, ...]
    """Files that make up a script, in the order of their use."""
    arguments: Mapping[str, str]
    """By argument of the script's engine, the field of a configuration that it is."""
    unlike: Callable[[Played], str | None]
    """Why the harness can't have a trace's configuration."""
    lacks: Callable[[Played, int], str | None]
    """Why the harness can't do what a command, by its index, does."""
    refuses: Callable[[Played, Command], str | None]
    """Why the engine's front end, before its scheduler, refuses a request that fits its context."""
    words: Mapping[str, str]
    """By command that the harness has a call for, its name in the engine's source; of ``max_new``,
    too."""
    also: Callable[[Played], dict[str, Any]] = lambda _: {}
    """More arguments, by name."""
    sent: Callable[[Played, int], Command | None] = lambda trace, index: trace.rows[index].command
    """The command, by its index, as the engine is told it; ``None`` where it is told nothing."""

    def made_with(self, trace: Played) -> dict[str, Any]:
        """The arguments of the script's engine. Those that are 0 are left out."""
        given = {name: getattr(trace.config, field) for name, field in self.arguments.items()}
        return {name: value for name, value in (given | self.also(trace)).items() if value}


@dataclass(frozen=True)
class Family:
    """One engine in all its releases."""

    name: str
    """Its name here, in the package index, and of the module it is imported as."""
    driver: Path
    """The program that runs in the environment of a build; its folder has all of the driver."""
    recipe: Recipe
    title: str = ""
    """As its makers write it."""
    example: str = "1.0"
    """A release, for what says how one is named."""
    first: str = "0"
    """The oldest release that its driver supports."""
    repository: str = ""
    """Owner and name, on GitHub."""
    profiles: tuple[str, ...] = ()
    """Profiles that its driver says a build has."""
    discards: bool = True
    """Something in the engine drops idle sessions, as T-DISCARD does."""
    harness: Harness | None = None

    @property
    def patches(self) -> dict[str, str]:
        """Known bugs of its builds that the driver can patch, and what each patch does."""
        found = sorted((self.driver.parent / "patches").glob("*.diff"))
        texts = ((path.name.partition(".")[0], path.read_text(encoding="utf-8")) for path in found)
        return {name: text.partition("\n")[0] for name, text in texts}

    @property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprints of releases, as far as they are known: of their Python files."""
        path = self.driver.with_name("fingerprints.toml")
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    @property
    def methods(self) -> Path:
        """The table of methods, by releases and transitions."""
        return self.driver.with_name("methods.toml")


def family(folder: Path, **functions: Callable[..., Any]) -> Family:
    """The record in a driver's folder; ``functions`` are those of its harness."""
    data = tomllib.loads((folder / "family.toml").read_text(encoding="utf-8"))
    recipe, harness = data["recipe"], data["harness"]
    lines = (folder / recipe["requirements"]).read_text(encoding="utf-8")
    recipe["requirements"] = requirements(lines)
    harness |= {**functions, "parts": [_script(part) for part in harness["parts"]]}
    return TypeAdapter(Family).validate_python({**data, "driver": folder / "__main__.py"})


def requirements(text: str) -> tuple[str, ...]:
    """The lines of a requirements file that ask for something.

    >>> requirements("# torch first\\ntorch==2.13.0\\n\\nnumpy  # and this\\n")
    ('torch==2.13.0', 'numpy')
    """
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def _script(part: str) -> Path:
    """A file of a harness: in a checkout it lies beside the scripts of the findings."""
    package = Path(__file__).parents[1]
    inside = package / part.replace("-", "_")
    return inside if inside.is_file() else package.parents[1] / "docs" / "findings" / part
