"""The status page of a campaign in a browser: nothing loaded, nothing cut off, light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from slotproof.conformance.campaigns import page
from slotproof.conformance.campaigns.lines import Head, offers
from slotproof.conformance.campaigns.state import Place, Point, State
from slotproof.conformance.engines.reference import InProcessEngine
from slotproof.conformance.protocol.config import CONFIGS
from slotproof.conformance.search.findings import Finding, Mark
from slotproof.conformance.traces import itf

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[3]


def state() -> State:
    """After an hour, with the findings that are in the documents."""
    offered = offers(InProcessEngine().capabilities)
    told = ("sglang 0.5.23", "sglang==0.5.23", "", "sglang", offered, dict(CONFIGS), 0, "1", "a")
    made = State(Head(*told, 40, 2000, (), None, "", 32, 1))
    for number in range(200):
        made.points.append(
            Point(18.0 * number, 450 * number, int(9000 * (1 - 0.98**number)), 30, number // 40)
        )
    made.places["p1"] = Place(examples=90_000, seen={"x"})
    for path in sorted((ROOT / "docs" / "findings").glob("sglang-0.5.23-*.itf.json")):
        trace = itf.load(path)
        mark = Mark(trace.violations[0].clause, (path.name,), "step")
        made.findings.add(Finding(mark, trace, 7))
    return made


@pytest.mark.parametrize("width", [420, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits(
    width: int, scheme: Literal["light", "dark"], browser: Any, tmp_path: Path
) -> None:
    path = tmp_path / "status.html"
    made = state()
    path.write_text(page.render(made, where=lambda each: f"{tmp_path}/{each.mark.slug}"))
    said: list[str] = []
    context = browser.new_context(
        offline=True, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    shown = context.new_page()
    shown.on("console", lambda message: said.append(message.text))
    shown.on("request", lambda asked: said.append(asked.url) if asked.url != path.as_uri() else 0)
    shown.goto(path.as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.locator("svg polyline").count() == 3
    assert shown.locator(".finding").count() == len(made.findings.all()) > 5
    back, text = (
        shown.evaluate(f"getComputedStyle(document.body).{name}")
        for name in ("backgroundColor", "color")
    )
    assert (brightness(back) > brightness(text)) == (scheme == "light")
    context.close()
    assert said == []


def brightness(rgb: str) -> int:
    return sum(int(each) for each in rgb.removeprefix("rgb(").removesuffix(")").split(","))
