"""Which slotproof this is: a campaign goes on only where the same examples would be drawn."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("slotproof_model", "slotproof_engine", "slotproof")


def release() -> str:
    """The version that is installed."""
    return version("slotproof")


@cache
def digest() -> str:
    """A digest of the sources, whatever the version says.

    >>> len(digest())
    12
    """
    found = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations
        top = Path(spec.submodule_search_locations[0])
        for path in sorted(top.rglob("*.py")):
            name = path.relative_to(top).as_posix()
            if not name.startswith("tests/"):
                found.update(f"{package}/{name}\0".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:12]
