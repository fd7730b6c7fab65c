"""Patches that repair known bugs of a build in this process, so that a search can find other bugs.

A patch is a file in a driver's folder `patches/`. The file starts with a sentence about the
repaired bug. Below the sentence is a unified diff of the build's source, in the format of `patch
-p1`. A patch can have several files `NAME.LAYOUT.diff` for different releases. The driver applies
the first file that fits. A hunk fits if its old text occurs exactly once in the source file, at any
line. No file is changed: Python compiles the modules from the patched text during import.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import linecache
import sys
from collections.abc import Iterable
from pathlib import Path
from types import CodeType
from typing import Any

from .usage import UsageError

ALL = "all"
"""Name for all patches that fit the build."""

Hunks = list[tuple[str, str, str]]
"""Hunks of a diff: (file, text before, text after)."""


def names(folder: Path) -> list[str]:
    """Return the names of all patches in a folder."""
    return sorted({path.name.partition(".")[0] for path in folder.glob("*.diff")})


def hunks(diff: str) -> Hunks:
    """Return the hunks of a unified diff. Lines above the diff's first file are ignored."""
    parsed: Hunks = []
    file = ""
    for line in diff.splitlines(keepends=True):
        if line.startswith("--- a/"):
            file = line.removeprefix("--- a/").strip()
        elif line.startswith("@@") and file:
            parsed.append((file, "", ""))
        elif parsed and not line.startswith("+++ "):
            _, was, is_ = parsed[-1]
            sign, text = (line[0], line[1:]) if line.strip() else (" ", "\n")
            parsed[-1] = file, was + text * (sign in " -"), is_ + text * (sign in " +")
    return parsed


class Source:
    """Source of the build, including the changes made by patches."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changed: dict[str, str] = {}

    def text(self, file: str) -> str | None:
        """Return the patched text of a file of the build, or None if the file does not exist."""
        path = self.root / file
        if file not in self.changed and not path.is_file():
            return None
        return self.changed.get(file) or path.read_text(encoding="utf-8")

    def patch(self, folder: Path, name: str) -> str | None:
        """Apply a patch. Return None, or the reason why the patch does not fit."""
        files = sorted(folder.glob(f"{name}.diff")) + sorted(folder.glob(f"{name}.*.diff"))
        reasons = [self._apply(hunks(path.read_text("utf-8"))) for path in files]
        if None in reasons:
            return None
        return "; ".join(dict.fromkeys(filter(None, reasons)))

    def _apply(self, wanted: Hunks) -> str | None:
        kept = dict(self.changed)
        for file, was, is_ in wanted:
            text = self.text(file)
            count = 0 if text is None else text.count(was)
            if text is None or count != 1:
                self.changed = kept
                lost = "does not exist" if text is None else f"has the patched text {count} times"
                return f"{file} {lost}"
            self.changed[file] = text.replace(was, is_)
        return None


def apply(asked: Iterable[str], folder: Path, package: str) -> list[str]:
    """Patch the build before its import. Return the names of the applied patches.

    Raises `UsageError`, in one line, if a requested patch does not exist or does not fit.
    """
    asked, known = set(asked), names(folder)
    if unknown := sorted(asked - {ALL, *known}):
        raise UsageError(f"there is no patch {unknown[0]!r}; there are: {', '.join(known)}")
    if not asked:
        return []
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise UsageError(f"{package} is not installed, so it can't be patched")
    source = Source(Path(spec.origin).parents[1])
    done = []
    for name in known:
        if name in asked or ALL in asked:
            reason = source.patch(folder, name)
            if reason is None:
                done.append(name)
            elif name in asked:
                raise UsageError(f"the patch {name!r} does not fit this build: {reason}")
    # The recorder's finder (sitecustomize.py) asks only the finders after it, so this comes after.
    sys.meta_path.insert(sys.meta_path.index(importlib.machinery.PathFinder), Patched(source))
    return done


class Patched(importlib.machinery.PathFinder):
    """Import finder for modules whose source was patched."""

    def __init__(self, source: Source) -> None:
        self.files = {str(source.root / file): text for file, text in source.changed.items()}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # type: ignore[override]
        spec = super().find_spec(name, path, target)
        if spec is None or spec.origin not in self.files:
            return None
        spec.loader = Loader(name, spec.origin, self.files[spec.origin])
        return spec


class Loader(importlib.machinery.SourceFileLoader):
    """Loader that compiles a module from its patched text. Tracebacks show that text, too."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.source = text
        linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return compile(self.source, self.path, "exec", dont_inherit=True)
