"""Folder of a campaign's traces."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from slotproof.reports.trace import Trace, load_trace
from slotproof.search.findings import Finding
from slotproof.support.files import slug
from slotproof.traces import itf

SUFFIX = ".itf.json"
Name = Callable[[int, Finding], str]
"""Function from a finding and its rank to a file name. The plainest finding has rank 0."""


def by_mark(stem: str) -> Name:
    """Return a function that names files after the identities of findings."""
    return lambda _, finding: f"{stem}-{finding.mark.slug}{SUFFIX}"


def by_number(stem: str) -> Name:
    """Return a function that numbers files from 2 on. The plainest finding's file has no number."""
    return lambda index, _: f"{stem}{f'-{index + 1}' if index else ''}{SUFFIX}"


class Folder:
    """Folder of traces, one file per finding, written immediately. A failed write is reported."""

    def __init__(self, out: Path, name: Name, states: bool = True) -> None:
        self.out, self.name, self.states = out, name, states
        self.stay: list[Finding] = []
        """Findings of an earlier search, whose files stay."""
        self.paths: dict[str, Path] = {}
        """Path of the first finding of each identity."""
        self._of: dict[int, Path] = {}
        """Path of each trace of the last :meth:`keep`, by the ``id`` of the trace."""
        self._there: dict[Path, Trace] = {}
        self._problems: dict[Path, str] = {}
        self._places: dict[Path, Path] = {}

    def keep(self, findings: list[Finding]) -> None:
        """Write new and shorter findings, and delete the files of findings no longer listed."""
        self.paths, self._of = {}, {}
        findings = [*self.stay, *findings]
        for index, finding in enumerate(findings):
            wanted = self._place(self.out / self.name(index, finding), finding.trace)
            path = unused(wanted, self._of.values())
            self.paths.setdefault(finding.id, path)
            self._of[id(finding.trace)] = path
        for path in self._there.keys() - self._of.values():
            del self._there[path]
            with suppress(OSError):
                path.unlink(missing_ok=True)
        for finding in findings:
            path = self._of[id(finding.trace)]
            if self._there.get(path) is finding.trace:
                continue
            self._there[path] = finding.trace  # Try once, even if the write fails.
            self._problems.pop(path, None)
            try:
                itf.save(finding.trace if self.states else finding.trace.without_states(), path)
            except OSError as error:
                self._problems[path] = f"could not be written to {path}: {error.strerror}"

    def _place(self, path: Path, trace: Trace) -> Path:
        """Return the path for a trace, never the path of a different build's trace."""
        if path not in self._places:
            try:
                other = path.exists() and load_trace(path).identity.title != trace.identity.title
            except (OSError, ValueError):
                other = False  # The file is not a trace.
            name = path.name.removesuffix(SUFFIX)
            beside = path.with_name(f"{name}-{slug(trace.identity.title, 60)}{SUFFIX}")
            self._places[path] = beside if other else path
        return self._places[path]

    def sweep(self, prefix: str, build: str) -> None:
        """Remove a build's traces that a killed process left, except those of current findings."""
        for path in self.out.glob(f"{prefix}*{SUFFIX}"):
            with suppress(OSError, ValueError):  # The file can't be removed, or is no trace.
                if path not in self._there and load_trace(path).identity.title == build:
                    path.unlink()

    def problem(self, finding: Finding) -> str | None:
        """Return the reason why a finding's trace is missing, or None."""
        return self._problems.get(self._where(finding))

    def path(self, finding: Finding) -> str | None:
        """Return the path of a finding's trace, or None if the write failed."""
        return None if self.problem(finding) else str(self._where(finding))

    def _where(self, finding: Finding) -> Path:
        return self._of.get(id(finding.trace)) or self.paths[finding.id]


def unused(path: Path, used: Collection[Path]) -> Path:
    """Return the path. If the path is used, add a number from 2 on to its name.

    >>> unused(Path("a.itf.json"), [Path("a.itf.json")]).name
    'a-2.itf.json'
    """
    stem = path.name.removesuffix(SUFFIX)
    numbered = (path.with_name(f"{stem}-{n}{SUFFIX}") for n in range(2, len(used) + 2))
    return next(candidate for candidate in (path, *numbered) if candidate not in used)
