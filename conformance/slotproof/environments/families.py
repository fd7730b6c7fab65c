"""The engine families that slotproof knows, and names of their releases: ``sglang==0.5.18``."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from slotproof.drivers.sglang.family import FAMILY as SGLANG
from slotproof.drivers.vllm.family import FAMILY as VLLM
from slotproof.protocol.family import Family

FAMILIES = {family.name: family for family in (SGLANG, VLLM)}
"""By name. Texts that need an example take the first."""
FIRST = next(iter(FAMILIES.values()))


class EnvironmentProblem(Exception):
    """An environment can't be made or used. One line; exit status 2."""


def parse(text: str) -> tuple[Family, str]:
    """The family and the release that ``ENGINE==RELEASE`` names.

    Raises :class:`EnvironmentProblem`.

    >>> family, release = parse("sglang==0.5.10-1")
    >>> family.name, release
    ('sglang', '0.5.10.post1')
    """
    engine, _, release = text.partition("==")
    if engine not in FAMILIES:
        raise EnvironmentProblem(
            f"{text!r}: there is no recipe for {engine!r}; there are: {', '.join(FAMILIES)}"
        )
    example = FAMILIES[engine].example
    if not release:
        raise EnvironmentProblem(f"{text!r} names no release; try {engine}=={example}")
    try:
        return FAMILIES[engine], str(Version(release))
    except InvalidVersion:
        text = f"{text!r}: {release!r} is no release number, such as {example}"
        raise EnvironmentProblem(text) from None
