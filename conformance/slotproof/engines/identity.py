"""The identity of an engine's build, read from its files; nothing of it is imported.

The package index lists the files of a release with their digests (``RECORD`` in its wheel). The
fingerprint is one digest of the Python files in that list, so a list and a folder can be compared.
Files that an installation writes are not Python, and change nothing.
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
"""Seconds for git to look at a source tree."""


def installed(build: Build, package: Path) -> Build:
    """Return the identity of a build whose package is in that folder."""
    found = next(iter(distributions(name=build.name, path=[str(package.parent)])), None)
    seen = fingerprint(package)
    known = FAMILIES[build.name].fingerprints.get(build.version)
    if not known and found and not _origin(found) and (text := found.read_text("RECORD")):
        known = of_record(text, build.name)
    release = build.version if seen == known else ""
    return replace(build, release=release, commit=commit(package, found), fingerprint=seen)


def fingerprint(package: Path) -> str:
    """Return the fingerprint of the Python files in a folder."""
    files = ((path.relative_to(package.parent), path) for path in package.rglob("*.py"))
    return _digest(
        (name.as_posix(), base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest()))
        for name, path in files
    )


def of_record(text: str, name: str) -> str:
    """Return the fingerprint of a package by the list of files in its wheel.

    >>> of_record("a/x.py,sha256=AA,9\\na/x.so,sha256=BB,9\\n", "a")
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


def _origin(found: Distribution) -> dict[str, dict[str, str]]:
    """Return where a distribution was installed from (PEP 610): nothing if from an index."""
    try:
        data = json.loads(found.read_text("direct_url.json") or "{}")
    except ValueError:
        return {"unreadable": {}}
    return data if isinstance(data, dict) else {"unreadable": {}}


def commit(package: Path, found: Distribution | None = None) -> str:
    """Return the commit of a package's source tree; empty if there is none, or no git."""
    version = _origin(found).get("vcs_info") if found else None
    if isinstance(version, dict):
        return str(version.get("commit_id", ""))

    def git(*arguments: str) -> str | None:
        try:
            done = children.run(["git", "-C", package, *arguments], timeout=_GIT_TIMEOUT)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return None if done.returncode else done.stdout.decode(errors="replace").strip()

    # An environment may lie in the source tree of something else: git must know this package.
    if not git("ls-files", "--error-unmatch", "__init__.py"):
        return ""
    head, changes = git("rev-parse", "HEAD"), git("status", "--porcelain", "--", ".")
    return (head or "") + ("+modified" if head and changes else "")
