"""The folder that the traces of a campaign are written to."""

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
"""What the file of a finding is called: that of the plainest one has number 0."""


def by_mark(stem: str) -> Name:
    """Files that are named by what was found."""
    return lambda _, finding: f"{stem}-{finding.mark.slug}{SUFFIX}"


def by_number(stem: str) -> Name:
    """The plainest finding has the plain name, the others have numbers from 2."""
    return lambda index, _: f"{stem}{f'-{index + 1}' if index else ''}{SUFFIX}"


class Folder:
    """One file per finding, written at once; what can't be written is told, not fatal."""

    def __init__(self, out: Path, name: Name, states: bool = True) -> None:
        self.out, self.name, self.states = out, name, states
        self.stay: list[Finding] = []
        """Findings of a search before this one."""
        self.paths: dict[str, Path] = {}
        """By the identity of the finding; of several with the same one, the first."""
        self._of: dict[int, Path] = {}
        """By the ``id`` of the trace, of those that were kept last."""
        self._there: dict[Path, Trace] = {}
        self._problems: dict[Path, str] = {}
        self._places: dict[Path, Path] = {}

    def keep(self, findings: list[Finding]) -> None:
        """Write what is new or shorter; what is no finding any more goes."""
        self.paths, self._of = {}, {}
        findings = [*self.stay, *findings]
        for index, each in enumerate(findings):
            wanted = self._place(self.out / self.name(index, each), each.trace)
            path = unused(wanted, self._of.values())
            self.paths.setdefault(each.id, path)
            self._of[id(each.trace)] = path
        for path in self._there.keys() - self._of.values():
            del self._there[path]
            with suppress(OSError):
                path.unlink(missing_ok=True)
        for each in findings:
            path = self._of[id(each.trace)]
            if self._there.get(path) is each.trace:
                continue
            self._there[path] = each.trace  # tried once, whatever comes of it
            self._problems.pop(path, None)
            try:
                itf.save(each.trace if self.states else each.trace.without_states(), path)
            except OSError as error:
                self._problems[path] = f"could not be written to {path}: {error.strerror}"

    def _place(self, path: Path, trace: Trace) -> Path:
        """Where it is written: not over the trace of another build, which stands there already."""
        if path not in self._places:
            try:
                other = path.exists() and load_trace(path).identity.title != trace.identity.title
            except (OSError, ValueError):
                other = False  # no trace
            name = path.name.removesuffix(SUFFIX)
            beside = path.with_name(f"{name}-{slug(trace.identity.title, 60)}{SUFFIX}")
            self._places[path] = beside if other else path
        return self._places[path]

    def sweep(self, prefix: str, build: str) -> None:
        """Remove traces of a build that a killed process left and that are no findings any more."""
        for path in self.out.glob(f"{prefix}*{SUFFIX}"):
            with suppress(OSError, ValueError):  # it can't be removed, or is no trace
                if path not in self._there and load_trace(path).identity.title == build:
                    path.unlink()

    def problem(self, finding: Finding) -> str | None:
        """Why its trace is not there, if so."""
        return self._problems.get(self._where(finding))

    def path(self, finding: Finding) -> str | None:
        """Where its trace is; none if it could not be written."""
        return None if self.problem(finding) else str(self._where(finding))

    def _where(self, finding: Finding) -> Path:
        return self._of.get(id(finding.trace)) or self.paths[finding.id]


def unused(path: Path, used: Collection[Path]) -> Path:
    """The path, or with a number, from 2 on, where that is used.

    >>> unused(Path("a.itf.json"), [Path("a.itf.json")]).name
    'a-2.itf.json'
    """
    stem = path.name.removesuffix(SUFFIX)
    numbered = (path.with_name(f"{stem}-{n}{SUFFIX}") for n in range(2, len(used) + 2))
    return next(each for each in (path, *numbered) if each not in used)
