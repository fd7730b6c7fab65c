"""The engine families that slotproof knows, and names of their releases: ``sglang==0.5.18``."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_version
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

    A release has one number, of three parts: the package index takes ``0.33`` for ``0.33.0``.
    Raises :class:`EnvironmentProblem`.

    >>> [parse(each)[1] for each in ("sglang==0.5.10-1", "vllm==0.33", "vllm==0.33.0.0")]
    ['0.5.10.post1', '0.33.0', '0.33.0']
    """
    engine, _, release = text.partition("==")
    if engine not in FAMILIES:
        raise EnvironmentProblem(
            f"{text!r}: there is no recipe for {engine!r}; "
            + (near(text) or f"there are: {', '.join(FAMILIES)}")
        )
    example = FAMILIES[engine].example
    if not release:
        raise EnvironmentProblem(f"{text!r} names no release; try {engine}=={example}")
    try:
        number = Version(release)
    except InvalidVersion:
        text = f"{text!r}: {release!r} is no release number, such as {example}"
        raise EnvironmentProblem(text) from None
    if number < Version(first := FAMILIES[engine].first):
        raise EnvironmentProblem(f"{text}: releases of {engine} are supported from {first} on")
    shortest = canonicalize_version(number)
    digits = re.sub(r"[a-z+].*", "", shortest).rstrip(".")
    return FAMILIES[engine], digits + ".0" * (2 - digits.count(".")) + shortest[len(digits) :]


def near(text: str) -> str:
    """Return a question if the text almost names a release, or nothing.

    >>> near("sglang=0.5.23"), near("vllm v0.33.0"), near("sglang@main")
    ('did you mean sglang==0.5.23?', 'did you mean vllm==0.33.0?', '')
    """
    found = re.fullmatch(rf"({'|'.join(FAMILIES)})[ =:-]+v?(\d\S*)", text)
    return f"did you mean {found[1]}=={found[2]}?" if found else ""
