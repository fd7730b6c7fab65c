"""The report of long runs in a browser: nothing loaded, nothing cut off, light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest

from tests.browser import pages

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("width", [420, 900, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits(
    width: int, scheme: Literal["light", "dark"], browser: Any, tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    path.write_text(pages.report(tmp_path))
    said: list[str] = []
    context = browser.new_context(
        offline=True, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    shown = context.new_page()
    shown.on("console", lambda message: said.append(message.text))
    shown.on(
        "request",
        lambda asked: said.append(asked.url) if asked.url.partition("#")[0] != path.as_uri() else 0,
    )
    shown.goto(path.as_uri())
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.locator("svg polyline").count() == 4
    assert shown.locator(".finding").count() == len(pages.found()) > 5
    assert shown.locator("h2:text('Known causes') ~ .finding").all_inner_texts() == [
        finding.inner_text() for finding in shown.locator(".known").all()
    ], "new ones stand before"
    assert shown.locator(".known").count() == 1
    back, text = (
        shown.evaluate(f"getComputedStyle(document.body).{name}")
        for name in ("backgroundColor", "color")
    )
    assert (brightness(back) > brightness(text)) == (scheme == "light")
    context.close()
    assert said == []


def brightness(rgb: str) -> int:
    return sum(int(channel) for channel in rgb.removeprefix("rgb(").removesuffix(")").split(","))
