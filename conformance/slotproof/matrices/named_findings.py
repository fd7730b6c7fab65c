"""Named findings, replayed on every build: one row per name.

A trace of ``sglang 0.5.18`` in the file ``sglang-0.5.18-one-token-history.itf.json`` belongs to
``one-token-history``. Traces with the same name, from several builds, form one finding. Traces
found with patches are left out, because they are no evidence about an unpatched build.
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
from slotproof.search.folder import SUFFIX
from slotproof.support.files import slug
from slotproof.traces import itf


@dataclass(frozen=True)
class NamedFinding:
    """A named finding and its traces."""

    name: str
    traces: tuple[tuple[Path, Trace], ...]

    @property
    def clause(self) -> str:
        return self.traces[0][1].violations[0].clause

    @property
    def page(self) -> Path | None:
        """Markdown page about the finding, beside the traces, or None."""
        pages = (path.with_name(f"{self.name}.md") for path, _ in self.traces)
        return next(filter(Path.is_file, pages), None)

    def asked_of(self, engine: str) -> bool:
        """Return True if the finding applies to the engine's family."""
        families = {trace.engine.partition(" ")[0] for _, trace in self.traces} & FAMILIES.keys()
        return engine not in FAMILIES or not families or engine in families


@dataclass(frozen=True)
class Seen:
    """Result of replaying a named finding's traces on a build."""

    cell: Cell
    marks: frozenset[str] = frozenset()
    """Identities that a campaign would give the finding."""


class Refused(Exception):
    """Error for a build without a feature that the trace needs."""


def again(engine: Engine, trace: Trace) -> list[Iteration]:
    """Replay a trace on a fresh engine and return the log. Raises :class:`Refused`."""
    if (reason := engine.capabilities.lacks(trace.config, trace.commands)) is not None:
        raise Refused(reason)
    return play(engine, trace.setup, trace.commands, trace.passes).log


def load(folder: Path) -> list[NamedFinding]:
    """Return the findings of a folder of traces. Raises :class:`itf.BadTrace`, ``OSError``."""
    traces_by_name: dict[str, list[tuple[Path, Trace]]] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        trace = load_trace(path)
        if not trace.violations:
            raise itf.BadTrace(f"{path} has no violation: it is no trace of a finding")
        if trace.patches:
            continue
        traces_by_name.setdefault(name_of(path, trace.engine), []).append((path, trace))
    return [NamedFinding(name, tuple(traces)) for name, traces in traces_by_name.items()]


def name_of(path: Path, engine: str) -> str:
    """Return the finding's name: the file name without the leading build and without the suffix.

    >>> name_of(Path("sglang-0.5.18-one-token.itf.json"), "sglang 0.5.18")
    'one-token'
    """
    return path.name.removesuffix(SUFFIX).removeprefix(f"{slug(engine)}-")


def look(engine: Engine, finding: NamedFinding, out: Path) -> Seen:
    """Replay a finding's traces. The build has the finding if one trace breaks its clause again."""
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
        if (same := next((bad for bad in broken if bad.clause == wanted), None)) is not None:
            link = os.path.relpath(path, out)
            ids = frozenset([mark(log[-1], same).id, mark(log[-1], lead(broken)).id])
            return Seen(Cell(str(len(log)), "bad", link, str(same)), ids)
        odd = Seen(Cell("other", "odd", title=f"the trace breaks another clause: {broken[0]}"))
    if odd is not None and not (clean and odd.cell.text == "can't run"):
        return odd
    return Seen(Cell("no", "good", title="the trace conforms on this build"))
