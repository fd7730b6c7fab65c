"""Identity of an engine's build, read from its files without importing the engine.

The file ``RECORD`` in a release's wheel lists all files with their digests. The fingerprint is one
digest of the listed Python files. A folder with the same Python files has the same fingerprint.
Installing a wheel adds no Python files.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import Distribution, distributions
from pathlib import Path

from slotproof.environments.families import FAMILIES
from slotproof.protocol.build import Build
from slotproof.support import children

DIGITS = 16
"""Hexadecimal digits of a fingerprint."""
_GIT_TIMEOUT = 20.0
"""Time limit in seconds for a git command on a source tree."""


def installed(build: Build, package: Path) -> Build:
    """Return the identity of a build, given the folder of its package."""
    wheel = next(iter(distributions(name=build.name, path=[str(package.parent)])), None)
    seen = fingerprint(package)
    known = FAMILIES[build.name].fingerprints.get(build.version)
    if not known and wheel and not _origin(wheel) and (text := wheel.read_text("RECORD")):
        known = of_record(text, build.name)
    release = build.version if seen == known else ""
    return replace(build, release=release, commit=commit(package, wheel), fingerprint=seen)


def fingerprint(package: Path) -> str:
    """Return the fingerprint of the Python files in a folder."""
    files = ((path.relative_to(package.parent), path) for path in package.rglob("*.py"))
    return _digest(
        (name.as_posix(), base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()))
        for name, path in files
    )


def of_record(text: str, name: str) -> str:
    r"""Return the fingerprint of a package, given the list of files in its wheel.

    >>> of_record("a/x.py,sha256=AA,9\na/x.so,sha256=BB,9\n", "a")
    'b85626b7f5bbf444'
    """
    rows = (row for row in csv.reader(text.splitlines()) if len(row) == 3)
    return _digest(
        (path, digest.partition("=")[2].encode())
        for path, digest, _ in rows
        if path.startswith(f"{name}/") and path.endswith(".py")
    )


def _digest(files: Iterable[tuple[str, bytes]]) -> str:
    lines = sorted(f"{name} {digest.decode().rstrip('=')}" for name, digest in files)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:DIGITS]


def _origin(distribution: Distribution) -> dict[str, dict[str, str]]:
    """Return the origin of a distribution (PEP 610). Empty if it was installed from an index."""
    try:
        data = json.loads(distribution.read_text("direct_url.json") or "{}")
    except ValueError:
        return {"unreadable": {}}
    return data if isinstance(data, dict) else {"unreadable": {}}


def commit(package: Path, distribution: Distribution | None = None) -> str:
    """Return the commit of a package's source tree. Empty if there is no source tree or no git."""
    version = _origin(distribution).get("vcs_info") if distribution else None
    if isinstance(version, dict):
        return str(version.get("commit_id", ""))

    def git(*arguments: str) -> str | None:
        try:
            done = children.run(["git", "-C", package, *arguments], timeout=_GIT_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return None if done.returncode else done.stdout.decode(errors="replace").strip()

    # An environment may lie in another project's source tree: git must track this package.
    if not git("ls-files", "--error-unmatch", "__init__.py"):
        return ""
    head, changes = git("rev-parse", "HEAD"), git("status", "--porcelain", "--", ".")
    return (head or "") + ("+modified" if head and changes else "")
