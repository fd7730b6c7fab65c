"""Pages for tests in a browser, other than counterexample pages."""

from __future__ import annotations

from pathlib import Path

from slotproof.engines.base import Subject
from slotproof.engines.reference import InProcessEngine
from slotproof.protocol.config import CONFIGS
from slotproof.reports.trace import load_trace
from slotproof.search import page, report as summaries
from slotproof.search.campaign import Outcome, Point
from slotproof.search.causes import Cause, causes
from slotproof.search.findings import Finding, Mark
from slotproof.search.journal import Head, Run
from slotproof.search.plan import Plan

ROOT = Path(__file__).parents[3]


def found() -> list[Cause]:
    """Return the causes of the documented findings."""
    paths = sorted((ROOT / "docs" / "findings").glob("sglang-0.5.23-*.itf.json"))
    traces = {path: load_trace(path) for path in paths}
    marks = {path: Mark(traces[path].violations[0].clause, (path.name,), "step") for path in paths}
    return causes([Finding(marks[path], traces[path], 7) for path in paths])


def report(folder: Path) -> str:
    """The page after an hour on two machines."""
    engine, plan = InProcessEngine(), Plan(dict(CONFIGS), examples=90_000)
    subject = Subject.of(engine, "reference")
    runs = [Run(Head.of(subject, "", plan)), Run(Head.of(subject, "", Plan(dict(CONFIGS), seed=1)))]
    outcome = Outcome(subject.build.title, "reference", subject.build, seconds=7200.0)
    outcome.configs = list(CONFIGS)
    outcome.findings = [finding for cause in found() for finding in cause.findings]
    outcome.run["p1"], outcome.shown["INV-OWNER.lost@T-EXTEND"] = 90_000, 3
    points = [
        [Point(18.0 * n, 450 * n, int(400 * (1 - fast**n)), n // 40, n < 90) for n in range(200)]
        for fast in (0.98, 0.95)
    ]
    summary = summaries.summary(outcome, plan, engine.capabilities)
    known = {found()[0].name: "idle: the finding stops with the same message"}
    links = lambda finding: f"{folder}/{finding.mark.slug}"  # noqa: E731
    return page.render(runs, outcome, points, found(), known, summary, links, folder)
