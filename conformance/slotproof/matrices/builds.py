"""Builds × findings: which builds have a finding, and which builds added or fixed the finding.

Every build gets the same campaign. Each build's findings are then replayed on the other builds. A
trace that conforms on a build is stronger evidence than a search that missed the finding.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from slotproof.engines.base import Engine, EngineUnusable, built
from slotproof.engines.registry import EngineSpec
from slotproof.environments.families import near
from slotproof.matrices.named_findings import NamedFinding, Refused, Seen, again, look
from slotproof.matrices.table import Cell, Row, Table
from slotproof.protocol.config import BadConfig
from slotproof.reports.trace import Trace
from slotproof.search import campaign
from slotproof.search.campaign import Progress
from slotproof.search.findings import Finding, mark
from slotproof.search.folder import Folder, by_mark
from slotproof.search.plan import Plan
from slotproof.search.workers import workers_for
from slotproof.support import interrupts
from slotproof.support.files import slug
from slotproof_model.spec.invariants import INVARIANTS

_NAME = re.compile(r"(?P<name>[\w.-]+)=(?!=)(?P<engine>.+)")


@dataclass
class Build:
    """A build and its results: a column of the table."""

    name: str
    spec: EngineSpec
    folder: Path
    engine: str = ""
    """Title of the build, empty until it has run."""
    problem: str = ""
    """Reason why the build has not run, or empty."""
    ran: str = ""
    """Number of examples and seconds of the build's campaign, as text."""
    broke: str = ""
    """Reason why the build did not start again to replay traces of other builds, or empty."""
    findings: dict[str, Finding] = field(default_factory=dict)
    cells: dict[str, Cell] = field(default_factory=dict)
    """Results of replaying traces of other builds."""
    replayed: dict[str, Seen] = field(default_factory=dict)
    """Results of replaying the traces of named findings, by name."""
    cut: bool = False
    """True if the campaign ended early, by timeout or Ctrl-C."""
    keep: Folder | None = None

    def explains(self, name: str) -> bool:
        """Return True if a campaign would report a named finding on the build as ``name``."""
        return any(name in seen.marks for seen in self.replayed.values())

    def cell(self, name: str) -> Cell:
        """Return the cell of a finding for this build."""
        if (seen := self.replayed.get(name)) is not None:
            return seen.cell
        if (finding := self.findings.get(name)) is not None:
            broken = str(finding.trace.violations[0])
            return Cell(str(len(finding.trace.rows)), "bad", self.link(name), broken)
        return self.cells.get(name, Cell("not run" if self.problem else ""))

    def link(self, name: str) -> str | None:
        """Return the path of a finding's trace, relative to the table."""
        path = self.keep.path(self.findings[name]) if self.keep else None
        return None if path is None else os.path.relpath(path, self.folder)


def parse(text: str, step_timeout: float, out: Path) -> Build:
    """Parse a build, ``[NAME=]ENGINE``. ENGINE is an ``--engine`` argument.

    >>> build = parse("old=sglang@/env/bin/python", 10, Path("out"))
    >>> build.name, build.spec.text, str(build.spec.python)
    ('old', 'sglang', '/env/bin/python')
    >>> parse("sglang==0.5.23", 10, Path("out")).name
    'sglang==0.5.23'
    """
    named = None if near(text) else _NAME.fullmatch(text)
    name, engine = (named["name"], named["engine"]) if named else (text, text)
    return Build(name, EngineSpec.parse(engine, step_timeout), out)


@interrupts.noted()
def run(
    builds: list[Build],
    plan: Plan,
    jobs: int,
    tell: Progress,
    write: Callable[[Table], None],
    named: Sequence[NamedFinding] = (),
) -> bool:
    """Run a campaign on every build, then replay traces across builds. ``write`` gets every table.

    On each build, traces of ``named`` findings are replayed before the campaign. Return False if
    Ctrl-C ended the run early.
    """
    for build in builds:
        try:
            engine = build.spec.open()
        except EngineUnusable as problem:
            build.problem = str(problem)
            continue
        try:
            for finding in named:
                if finding.asked_of(engine.name):
                    build.replayed[finding.name] = look(engine, finding, build.folder)
            interrupted = _campaign(build, engine, plan, jobs, tell)
        except (BadConfig, EngineUnusable) as problem:
            build.problem, interrupted = str(problem), False
        except KeyboardInterrupt:
            interrupted = True
        finally:
            engine.close()
        write(table(builds, plan, named))
        if interrupted:
            return False
    for build in builds:
        try:
            _across(build, builds)
        except EngineUnusable as problem:
            build.broke = str(problem)
        except KeyboardInterrupt:
            return False
        write(table(builds, plan, named))
    return True


def _campaign(build: Build, engine: Engine, plan: Plan, jobs: int, tell: Progress) -> bool:
    identity = built(engine)
    if build.name == build.spec.text and build.spec.argument != identity.argument:
        build.name = identity.title  # the release in this environment was modified later
    build.engine = f"{identity.name} {identity.described}".strip()
    name = by_mark(f"{slug(build.name)}-seed{plan.seed}")
    build.keep = Folder(build.folder / "traces", name, states=False)
    whole = replace(plan.of(engine.capabilities), distinct=None)
    with workers_for(engine, build.spec, jobs) as workers:
        seen = campaign.run(engine, build.spec.text, whole, tell, build.keep.keep, workers)
    build.findings = {finding.id: finding for finding in seen.findings}
    build.cut = seen.interrupted or seen.out_of_time
    build.ran = f"{seen.examples} examples in {round(seen.seconds)} s"
    return seen.interrupted


def _across(build: Build, builds: list[Build]) -> None:
    """Replay the findings of the other builds on ``build``."""
    missing = {id_: one for id_, one in shortest(builds).items() if id_ not in build.findings}
    if not missing or build.problem or not build.engine:
        return
    with closing(build.spec.open()) as engine:
        for name, finding in missing.items():
            owner = next(build_ for build_ in builds if build_.findings.get(name) is finding)
            build.cells[name] = _replayed(engine, name, finding.trace, owner.link(name))


def _replayed(engine: Engine, name: str, trace: Trace, link: str | None) -> Cell:
    try:
        log = again(engine, trace)
    except Refused as reason:
        return Cell("can't run", "odd", title=str(reason))
    if not (broken := log[-1].violations):
        return Cell("no", "good", title="the trace of the other build conforms on this build")
    if name in {mark(log[-1], violation).id for violation in broken}:
        return Cell(str(len(log)), "bad", link, "the trace of another build breaks the clause")
    return Cell("other", "odd", title=f"the trace of the other build shows {broken[0]}")


def shortest(builds: list[Build]) -> dict[str, Finding]:
    """Return every finding with its shortest trace, plainest first."""
    best: dict[str, Finding] = {}
    for build in builds:
        for name, finding in build.findings.items():
            if name not in best or len(finding.trace.rows) < len(best[name].trace.rows):
                best[name] = finding
    return dict(sorted(best.items(), key=lambda item: item[1].plainness))


def table(builds: list[Build], plan: Plan, named: Sequence[NamedFinding] = ()) -> Table:
    """Return the table so far: named findings first, then findings without a name."""
    ran = [build for build in builds if build.engine]
    named = [it for it in named if not ran or any(it.name in build.replayed for build in ran)]
    rows = [_row(builds, at.name, f"{at.clause}: {_sentence(at.clause)}", at.page) for at in named]
    rows += [
        _row(builds, name, _sentence(finding.mark.clause))
        for name, finding in shortest(builds).items()
        if not all(build.explains(name) for build in builds if name in build.findings)
    ]
    could_not = "could not be started to replay the traces of other builds"
    notes = [
        "A number is the length of the finding's shortest trace, in commands.",
        "“no”: another build's trace conforms here. “other”: it breaks another clause first.",
        f"Seed {plan.seed}, {plan.examples} examples planned for each build.",
        *([f"Ignored: {', '.join(plan.ignored)}."] if plan.ignored else []),
        *(["The traces of named findings were replayed on every build."] if named else []),
        *(f"{build.name} has not run: {build.problem}" for build in builds if build.problem),
        *(f"{it.name}: {it.ran}{', ended early' * it.cut}." for it in builds if it.ran),
        *(f"{build.name} is {build.engine}." for build in ran if build.name != build.engine),
        *(f"{build.name} {could_not}: {build.broke}" for build in builds if build.broke),
    ]
    columns = [build.name for build in reversed(builds)]
    return Table("Builds × findings", "finding", [*columns, "first seen", "gone in"], rows, notes)


def _sentence(clause: str) -> str:
    return INVARIANTS[clause.partition(".")[0]].sentence


def _row(builds: list[Build], name: str, note: str, page: Path | None = None) -> Row:
    """Return the row of a finding, newest build first, with the builds that added and fixed it. "or
    before" in a cell means that the result of the preceding build is unknown."""
    cells = [build.cell(name) for build in builds]
    kinds = [cell.kind for cell in cells]
    came = went = ""
    if "bad" in kinds:
        first, last = kinds.index("bad"), len(kinds) - 1 - kinds[::-1].index("bad")
        known = first == 0 or kinds[first - 1] == "good"
        came = builds[first].name + ("" if known else " or before")
        if "good" in kinds[last:]:
            clean = kinds.index("good", last)
            went = builds[clean].name + ("" if clean == last + 1 else " or before")
    link = None if page is None else os.path.relpath(page, builds[0].folder)
    return Row(name, note, [*reversed(cells), Cell(came), Cell(went)], link)
