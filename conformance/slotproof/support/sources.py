"""Version and source digest of slotproof. A campaign resumes only if the digest is the same."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("slotproof_model", "slotproof_engine", "slotproof")


def release() -> str:
    """Return the version of the installed package."""
    return version("slotproof")


@cache
def digest() -> str:
    """Return a digest of the source files. The version number is not part of the digest.

    >>> len(digest())
    12
    """
    total = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        assert spec is not None and spec.submodule_search_locations
        top = Path(spec.submodule_search_locations[0])
        for path in sorted(top.rglob("*.py")):
            name = path.relative_to(top).as_posix()
            if not name.startswith("tests/"):
                total.update(f"{package}/{name}\0".encode())
                total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:12]
