"""What tests in a browser look at, beside traces."""

from __future__ import annotations

from pathlib import Path

from slotproof.campaigns import page
from slotproof.campaigns.lines import Head
from slotproof.campaigns.state import CampaignState, Place, Point
from slotproof.engines.reference import InProcessEngine
from slotproof.protocol.config import CONFIGS
from slotproof.reports.trace import load_trace
from slotproof.search.findings import Finding, Mark

ROOT = Path(__file__).parents[3]


def state() -> CampaignState:
    """After an hour, with the findings that are in the documents."""
    offered = InProcessEngine().capabilities.to_json()
    told = ("sglang 0.5.23", "sglang==0.5.23", "", "sglang", offered, dict(CONFIGS), 0, "1", "a")
    made = CampaignState(Head(*told, 40, 2000, (), None, "", 32, 1))
    for number in range(200):
        made.points.append(
            Point(18.0 * number, 450 * number, int(9000 * (1 - 0.98**number)), 30, number // 40)
        )
    made.places["p1"] = Place(examples=90_000, seen={"x"})
    for path in sorted((ROOT / "docs" / "findings").glob("sglang-0.5.23-*.itf.json")):
        trace = load_trace(path)
        mark = Mark(trace.violations[0].clause, (path.name,), "step")
        made.findings.add(Finding(mark, trace, 7))
    first, *_ = made.findings.all()
    made.judged[first.id] = "idle: it stops with the same words"
    return made


def status(folder: Path) -> str:
    """The page of that campaign."""
    return page.render(state(), where=lambda each: f"{folder}/{each.mark.slug}")
