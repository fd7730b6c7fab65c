"""Findings with a name, whose traces are replayed on every build: one row for each name.

A trace of ``sglang 0.5.18`` in the file ``sglang-0.5.18-one-token-history.itf.json`` is about
``one-token-history``; traces of several builds with the same name are one finding. Traces that were
found with patches say nothing of a build as it is, and are left out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from slotproof.engines.base import Engine
from slotproof.environments.families import FAMILIES
from slotproof.lockstep.referee import Iteration, play
from slotproof.matrices.table import Cell
from slotproof.reports.trace import Trace, load_trace
from slotproof.search.findings import lead, mark
from slotproof.support.files import slug
from slotproof.traces import itf

SUFFIX = ".itf.json"


@dataclass(frozen=True)
class NamedFinding:
    """A finding that has a name, and the traces that show it."""

    name: str
    traces: tuple[tuple[Path, Trace], ...]

    @property
    def clause(self) -> str:
        return self.traces[0][1].violations[0].clause

    @property
    def page(self) -> Path | None:
        """What is written about it, where that lies beside its traces."""
        pages = (path.with_name(f"{self.name}.md") for path, _ in self.traces)
        return next(filter(Path.is_file, pages), None)

    def asked_of(self, engine: str) -> bool:
        """Whether that engine may have it: what a build of another family did says nothing."""
        families = {trace.engine.partition(" ")[0] for _, trace in self.traces} & FAMILIES.keys()
        return engine not in FAMILIES or not families or engine in families


@dataclass(frozen=True)
class Seen:
    """Result of a build on the traces of a named finding."""

    cell: Cell
    marks: frozenset[str] = frozenset()
    """Under which identities a campaign would have found it."""


class Refused(Exception):
    """The build offers less than the trace needs."""


def again(engine: Engine, trace: Trace) -> list[Iteration]:
    """What a fresh engine does on the commands of a trace. Raises :class:`Refused`."""
    if (reason := engine.capabilities.lacks(trace.config, trace.commands)) is not None:
        raise Refused(reason)
    return play(engine, trace.setup, trace.commands, trace.passes).log


def load(folder: Path) -> list[NamedFinding]:
    """All traces of a folder, by name. Raises :class:`itf.BadTrace`, ``OSError``."""
    found: dict[str, list[tuple[Path, Trace]]] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        trace = load_trace(path)
        if not trace.violations:
            raise itf.BadTrace(f"{path} violates nothing: it is the trace of no finding")
        if trace.patches:
            continue
        found.setdefault(name_of(path, trace.engine), []).append((path, trace))
    return [NamedFinding(name, tuple(traces)) for name, traces in found.items()]


def name_of(path: Path, engine: str) -> str:
    """The finding's name, without the build that showed it.

    >>> name_of(Path("sglang-0.5.18-one-token.itf.json"), "sglang 0.5.18")
    'one-token'
    """
    return path.name.removesuffix(SUFFIX).removeprefix(f"{slug(engine)}-")


def look(engine: Engine, finding: NamedFinding, out: Path) -> Seen:
    """Replay its traces: found if one of them still breaks the clause it was saved for."""
    odd: Seen | None = None
    clean = False
    for path, trace in finding.traces:
        try:
            log = again(engine, trace)
        except Refused as reason:
            odd = odd or Seen(Cell("can't run", "odd", title=str(reason)))
            continue
        if not (broken := log[-1].violations):
            clean = True
            continue
        wanted = trace.violations[0].clause
        if (here := next((each for each in broken if each.clause == wanted), None)) is not None:
            link = os.path.relpath(path, out)
            ids = frozenset([mark(log[-1], here).id, mark(log[-1], lead(broken)).id])
            return Seen(Cell(str(len(log)), "bad", link, str(here)), ids)
        odd = Seen(Cell("other", "odd", title=f"breaks something else: {broken[0]}"))
    if odd is not None and not (clean and odd.cell.text == "can't run"):
        return odd
    return Seen(Cell("no", "good", title="the trace conforms here"))
