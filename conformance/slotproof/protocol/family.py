"""Engine families. A family records what slotproof knows of an engine, except the driver's code.

The record is stored beside the driver: data in ``family.toml``, functions in ``family.py``.
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
from slotproof.protocol.flags import Table, load


class Played(Protocol):
    """A trace, as a harness reads it. Each row has a command, the requests, and frames. A frame has
    the messages to clients."""

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
    """Recipe for environments of one engine.

    Environments with the same requirements share one folder of packages. The environment of a
    release holds only the release. Sizes are in megabytes, rounded up.
    """

    requirements: tuple[str, ...]
    """Requirements, as lines of pip's requirements format."""
    pythons: tuple[str, ...]
    shared_mb: int
    release_mb: int
    keeps: tuple[str, ...] = ()
    """Endings of files that a CPU run needs. All other files are removed. Empty: keep all."""

    def shared(self, version: str) -> str:
        """Return the name of the shared packages' folder for a version of Python.

        >>> Recipe(("torch==2",), (), 1, 1).shared("3.11")
        'shared-ca942656-py3.11'
        """
        digest = hashlib.sha256("\n".join(self.requirements).encode()).hexdigest()[:8]
        return f"shared-{digest}-py{version}"


@dataclass(frozen=True)
class Harness:
    """Parts of a script that runs an engine's scheduler alone, as in a report to maintainers."""

    parts: tuple[Path, ...]
    """Files that make up the script, in order."""
    arguments: Mapping[str, str]
    """Name of the configuration field for each argument of the script's engine."""
    unlike: Callable[[Played], str | None]
    """Function that returns why the harness can't use a trace's configuration, or None."""
    lacks: Callable[[Played, int], str | None]
    """Function that returns why the harness can't run the trace's command at an index, or None."""
    refuses: Callable[[Played, Command], str | None]
    """Function that returns why the engine's front end refuses a request that fits, or None."""
    words: Mapping[str, str]
    """Names that the engine's source uses for ``max_new`` and for the harness's commands."""
    also: Callable[[Played], dict[str, Any]] = lambda _: {}
    """Function that returns further arguments of the script's engine, by name."""
    sent: Callable[[Played, int], Command | None] = lambda trace, index: trace.rows[index].command
    """Function that returns the command to send for the trace's command at this index, or None."""

    def made_with(self, trace: Played) -> dict[str, Any]:
        """Return the arguments of the script's engine, except zero and empty values."""
        given = {name: getattr(trace.config, field) for name, field in self.arguments.items()}
        return {name: value for name, value in (given | self.also(trace)).items() if value}


@dataclass(frozen=True)
class Family:
    """An engine with all of its releases."""

    name: str
    """Name of the engine in slotproof, in the package index, and as a Python module."""
    driver: Path
    """Program that runs in the environment of a build. Its folder contains the whole driver."""
    recipe: Recipe
    title: str = ""
    """Name of the engine as its makers spell it."""
    example: str = "1.0"
    """A release that messages use as an example."""
    first: str = "0"
    """Oldest release that the driver supports."""
    repository: str = ""
    """Owner and name of the GitHub repository."""
    profiles: tuple[str, ...] = ()
    """Profiles that the driver reports for builds of this engine."""
    discards: bool = True
    """True if the engine may discard an idle session's slot, as T-DISCARD does."""
    harness: Harness | None = None

    @property
    def patches(self) -> dict[str, str]:
        """Effect of each patch in one line, by name. Patches repair known bugs of builds."""
        files = sorted((self.driver.parent / "patches").glob("*.diff"))
        texts = ((path.name.partition(".")[0], path.read_text(encoding="utf-8")) for path in files)
        return {name: text.partition("\n")[0] for name, text in texts}

    @property
    def fingerprints(self) -> dict[str, str]:
        """Fingerprint of each known release's Python files, by release."""
        path = self.driver.with_name("fingerprints.toml")
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    @property
    def flags(self) -> Table | None:
        """Flags of the engine's server. None if the family has no table of flags."""
        path = self.driver.with_name("flags.toml")
        return load(path) if path.exists() else None

    @property
    def methods(self) -> Path:
        """Path of the table of the engine's methods, by release and transition."""
        return self.driver.with_name("methods.toml")


def family(folder: Path, **functions: Callable[..., Any]) -> Family:
    """Return the family recorded in a driver's folder. Its harness calls ``functions``."""
    data = tomllib.loads((folder / "family.toml").read_text(encoding="utf-8"))
    recipe, harness = data["recipe"], data["harness"]
    lines = (folder / recipe["requirements"]).read_text(encoding="utf-8")
    recipe["requirements"] = requirements(lines)
    harness |= {**functions, "parts": [_script(part) for part in harness["parts"]]}
    return TypeAdapter(Family).validate_python({**data, "driver": folder / "__main__.py"})


def requirements(text: str) -> tuple[str, ...]:
    r"""Return the lines of a requirements file. Comments and empty lines are left out.

    >>> requirements("# torch first\ntorch==2.13.0\n\nnumpy  # and this\n")
    ('torch==2.13.0', 'numpy')
    """
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def _script(part: str) -> Path:
    """Return the path of a harness file. In a checkout, it is beside the findings' scripts."""
    package = Path(__file__).parents[1]
    inside = package / part.replace("-", "_")
    return inside if inside.is_file() else package.parents[1] / "docs" / "findings" / part
