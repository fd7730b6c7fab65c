"""Engine families that slotproof supports, and names of releases, such as ``sglang==0.5.18``."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_version
from packaging.version import InvalidVersion, Version

from slotproof.drivers.sglang.family import FAMILY as SGLANG
from slotproof.drivers.vllm.family import FAMILY as VLLM
from slotproof.protocol.family import Family

FAMILIES = {family.name: family for family in (SGLANG, VLLM)}
"""Families by name. Help texts use the first family in their examples."""
FIRST = next(iter(FAMILIES.values()))


class EnvironmentProblem(Exception):
    """A failure to make or use an environment. The message is one line. The exit status is 2."""


def parse(text: str) -> tuple[Family, str]:
    """Return the family and the release that ``ENGINE==RELEASE`` names.

    The returned release number has three parts, because the package index treats ``0.33`` and
    ``0.33.0`` as one release. Raises :class:`EnvironmentProblem`.

    >>> [parse(each)[1] for each in ("sglang==0.5.10-1", "vllm==0.33", "vllm==0.33.0.0")]
    ['0.5.10.post1', '0.33.0', '0.33.0']
    """
    engine, _, release = text.partition("==")
    if engine not in FAMILIES:
        raise EnvironmentProblem(
            f"{text!r}: there is no recipe for {engine!r}; "
            + (near(text) or f"recipes exist for: {', '.join(FAMILIES)}")
        )
    example = FAMILIES[engine].example
    if not release:
        raise EnvironmentProblem(f"{text!r} names no release; try {engine}=={example}")
    try:
        number = Version(release)
    except InvalidVersion:
        text = f"{text!r}: {release!r} is no release number; try a number such as {example}"
        raise EnvironmentProblem(text) from None
    if number < Version(first := FAMILIES[engine].first):
        raise EnvironmentProblem(f"{text}: releases of {engine} are supported from {first} on")
    shortest = canonicalize_version(number)
    digits = re.sub(r"[a-z+].*", "", shortest).rstrip(".")
    return FAMILIES[engine], digits + ".0" * (2 - digits.count(".")) + shortest[len(digits) :]


def near(text: str) -> str:
    """Return "did you mean …?" if the text almost names a release, otherwise "".

    >>> near("sglang=0.5.23"), near("vllm v0.33.0"), near("sglang@main")
    ('did you mean sglang==0.5.23?', 'did you mean vllm==0.33.0?', '')
    """
    match = re.fullmatch(rf"({'|'.join(FAMILIES)})[ =:-]+v?(\d\S*)", text)
    return f"did you mean {match[1]}=={match[2]}?" if match else ""
