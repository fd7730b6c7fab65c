"""Recipes: what an engine's build needs to run on a CPU, and names such as ``sglang==0.5.18``."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from packaging.version import InvalidVersion, Version


class EnvironmentProblem(Exception):
    """An environment can't be made or used. One line; exit status 2."""


@dataclass(frozen=True)
class Recipe:
    """How to make environments of one engine.

    A *base* holds the requirements and is shared; the environment of a release holds
    nothing but that release and sees the base. Sizes are in megabytes, rounded up.
    """

    engine: str
    """Its name here, in the package index, and of the module it is imported as."""
    requirements: tuple[str, ...]
    """What the base holds, as lines of pip's requirements format."""
    from_cpu_index: str
    """The requirement that other indexes may serve as a build for GPUs."""
    cpu_index: str
    pythons: tuple[str, ...]
    base_mb: int
    release_mb: int
    driver: Path
    title: str = ""
    """As its makers write it."""
    example: str = "1.0"
    """A release, for what says how one is named."""
    base: str = ""
    """The engine whose base it shares: the requirements are the same. Empty: its own."""
    keeps: tuple[str, ...] = ()
    """Endings of the files of a release that a CPU run needs; others are removed. Empty: all."""

    @property
    def digest(self) -> str:
        """Another recipe, another base: eight hexadecimal digits.

        >>> SGLANG.digest == SGLANG.digest and len(SGLANG.digest)
        8
        """
        text = "\n".join((self.family, *self.requirements))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def family(self) -> str:
        """The engine that bases of this recipe are called after.

        >>> SGLANG.family, VLLM.family
        ('sglang', 'sglang')
        """
        return self.base or self.engine

    @property
    def mends(self) -> dict[str, str]:
        """Known bugs of its builds that the driver can repair, and what each mend does.

        >>> "stub-clears-inflight" in SGLANG.mends, VLLM.mends
        (True, {})
        """
        found = sorted((self.driver.parent / "mends").glob("*.diff"))
        texts = ((path.name.partition(".")[0], path.read_text(encoding="utf-8")) for path in found)
        return {name: text.partition("\n")[0] for name, text in texts}

    @property
    def first(self) -> str:
        """The line of the requirements that comes from the index of CPU builds."""
        name = f"{self.from_cpu_index}=="
        return next(line for line in self.requirements if line.startswith(name))


def requirements(text: str) -> tuple[str, ...]:
    """The lines of a requirements file that ask for something.

    >>> requirements("# torch first\\ntorch==2.13.0\\n\\nnumpy  # and this\\n")
    ('torch==2.13.0', 'numpy')
    """
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


_SGLANG = files("slotproof.drivers.sglang")
_VLLM = files("slotproof.drivers.vllm")

SGLANG = Recipe(
    engine="sglang",
    title="SGLang",
    requirements=requirements(_SGLANG.joinpath("requirements.txt").read_text(encoding="utf-8")),
    from_cpu_index="torch",
    cpu_index="https://download.pytorch.org/whl/cpu",
    pythons=("3.11", "3.12"),
    base_mb=1500,  # while it is made; about 1100 afterwards
    release_mb=300,
    driver=Path(str(_SGLANG.joinpath("__main__.py"))),
    example="0.5.23",
)

VLLM = replace(
    SGLANG,
    engine="vllm",
    title="vLLM",
    release_mb=1300,  # the wheel and what is in it; about 60 afterwards
    driver=Path(str(_VLLM.joinpath("__main__.py"))),
    example="0.33.0",
    base="sglang",
    keeps=(".py", ".json"),
)

RECIPES = {recipe.engine: recipe for recipe in (SGLANG, VLLM)}


def parse(text: str) -> tuple[Recipe, str]:
    """The recipe and the release that ``ENGINE==RELEASE`` names.

    Raises :class:`EnvironmentProblem`.

    >>> recipe, release = parse("sglang==0.5.10-1")
    >>> recipe.engine, release
    ('sglang', '0.5.10.post1')
    """
    engine, _, release = text.partition("==")
    if engine not in RECIPES:
        raise EnvironmentProblem(
            f"{text!r}: there is no recipe for {engine!r}; there are: {', '.join(RECIPES)}"
        )
    if not release:
        raise EnvironmentProblem(
            f"{text!r} names no release; try {engine}=={RECIPES[engine].example}"
        )
    try:
        return RECIPES[engine], str(Version(release))
    except InvalidVersion:
        text = f"{text!r}: {release!r} is no release number, such as {RECIPES[engine].example}"
        raise EnvironmentProblem(text) from None
