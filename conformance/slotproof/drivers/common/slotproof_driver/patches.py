"""Patch known bugs of a build in this process, so that a search finds what lies behind them.

A patch is a file of a driver's folder `patches/`. It has a sentence on what it does, then a unified
diff of the build's source, as `patch -p1` takes it. Where releases differ there are several,
`NAME.LAYOUT.diff`; the first that fits is taken. A hunk fits where its text is in the file exactly
once, whatever its line numbers. Nothing is written: modules are compiled from the changed text as
they are imported.
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
"""Those that fit."""

Hunks = list[tuple[str, str, str]]
"""(file, text before, text after)."""


def names(folder: Path) -> list[str]:
    """Return the names of all patches of a folder."""
    return sorted({path.name.partition(".")[0] for path in folder.glob("*.diff")})


def hunks(diff: str) -> Hunks:
    """The hunks of a unified diff; what stands before its first file is words."""
    found: Hunks = []
    file = ""
    for line in diff.splitlines(keepends=True):
        if line.startswith("--- a/"):
            file = line.removeprefix("--- a/").strip()
        elif line.startswith("@@") and file:
            found.append((file, "", ""))
        elif found and not line.startswith("+++ "):
            _, was, is_ = found[-1]
            sign, text = (line[0], line[1:]) if line.strip() else (" ", "\n")
            found[-1] = file, was + text * (sign in " -"), is_ + text * (sign in " +")
    return found


class Source:
    """The source of the build: as it is, or changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changed: dict[str, str] = {}

    def text(self, file: str) -> str | None:
        """A file of the build as it is by now; none where there is no such file."""
        path = self.root / file
        if file not in self.changed and not path.is_file():
            return None
        return self.changed.get(file) or path.read_text(encoding="utf-8")

    def patch(self, folder: Path, name: str) -> str | None:
        """Apply a patch, or return the reason why it does not fit."""
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
                lost = "is no file" if text is None else f"has its place {count} times"
                return f"{file} {lost}"
            self.changed[file] = text.replace(was, is_)
        return None


def apply(asked: Iterable[str], folder: Path, package: str) -> list[str]:
    """Patch the build before its import, and return the names of the patches.

    Raises `UsageError`, one line, for one that does not exist or fit.
    """
    asked, known = set(asked), names(folder)
    if unknown := sorted(asked - {ALL, *known}):
        raise UsageError(f"there is no patch {unknown[0]!r}; there are: {', '.join(known)}")
    if not asked:
        return []
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise UsageError(f"there is no {package} to patch")
    source = Source(Path(spec.origin).parents[1])
    done = []
    for name in known:
        if name in asked or ALL in asked:
            reason = source.patch(folder, name)
            if reason is None:
                done.append(name)
            elif name in asked:
                raise UsageError(f"the patch {name!r} does not fit this build: {reason}")
    # Behind the recorder's finder (sitecustomize.py), which asks those that come after it.
    sys.meta_path.insert(sys.meta_path.index(importlib.machinery.PathFinder), Patched(source))
    return done


class Patched(importlib.machinery.PathFinder):
    """Finds the modules whose source was changed."""

    def __init__(self, source: Source) -> None:
        self.files = {str(source.root / file): text for file, text in source.changed.items()}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:  # type: ignore[override]
        spec = super().find_spec(name, path, target)
        if spec is None or spec.origin not in self.files:
            return None
        spec.loader = Loader(name, spec.origin, self.files[spec.origin])
        return spec


class Loader(importlib.machinery.SourceFileLoader):
    """Compiles a module from another text than is in its file, and shows that in tracebacks."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.source = text
        linecache.cache[path] = len(text), None, text.splitlines(keepends=True), path

    def get_code(self, fullname: str) -> CodeType:
        del fullname
        return compile(self.source, self.path, "exec", dont_inherit=True)
