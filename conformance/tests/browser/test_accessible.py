"""axe-core on pages and site: no serious issue at any width, light, dark, and in print."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slotproof.reports import forms
from slotproof.reports.trace import load_trace
from tests.browser import pages

pytestmark = pytest.mark.browser

FINDINGS = pages.ROOT / "docs" / "findings"
TRACES = {
    "lost": "sglang-0.5.10.post1-retract-tail",
    "two pools": "sglang-0.5.18-swa-deferred-free",
    "stall": "sglang-0.5.23-idle-session-pins",
    "crash": "sglang-0.5.23-two-first-turns",
    "no states": "matrix/traces/sglang-0.5.23-seed0-INV-PROGRESS.stalled@step",
}
LOOKS = (
    (420, "light", "screen"),
    (900, "dark", "screen"),
    (1400, "light", "screen"),
    (900, "light", "print"),
)
SITE = (
    "index",
    "findings/sglang-streaming-sessions",
    "findings/two-first-turns",
    "findings/matrix-vllm/matrix",
    "how-to/review-a-pull-request",
    "how-to/use-from-python",
    "reference/cli",
    "reference/spec/life",
    "reference/spec/review",
)


@pytest.fixture(params=LOOKS, ids=lambda look: "-".join(map(str, look)))
def page(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    width, scheme, media = request.param
    context = browser.new_context(
        offline=True, color_scheme=scheme, viewport={"width": width, "height": 900}
    )
    page = context.new_page()
    page.emulate_media(media=media, color_scheme=scheme)
    yield page
    context.close()


def serious(page: Any, path: Path) -> list[str]:
    """Return axe-core's serious and critical issues of a page."""
    from axe_playwright_python.sync_playwright import Axe

    page.goto(path.as_uri())
    results = Axe().run(page).response
    assert len(results["passes"]) > 5, "it looked at the page"
    return [
        f"{issue['id']}: {node['html']}"
        for issue in results["violations"]
        if issue["impact"] in ("serious", "critical")
        for node in issue["nodes"]
    ]


@pytest.mark.parametrize("name", TRACES)
def test_a_counterexample(name: str, page: Any, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    trace = load_trace(FINDINGS / f"{TRACES[name]}.itf.json")
    path.write_text(forms.form("html", trace, "trace.itf.json"))
    assert serious(page, path) == []


def test_an_index_of_counterexamples(page: Any, tmp_path: Path) -> None:
    path = FINDINGS / f"{TRACES['lost']}.itf.json"
    forms.write_all({str(path): load_trace(path)}, tmp_path)
    assert serious(page, tmp_path / "index.html") == []


def test_the_report_of_long_runs(page: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(pages.report(tmp_path))
    assert serious(page, path) == []


@pytest.mark.parametrize("name", SITE)
def test_the_site(name: str, page: Any, site: Path) -> None:
    assert serious(page, site / f"{name}.html") == []


def test_it_finds_what_is_there(page: Any, tmp_path: Path) -> None:
    """Without it the tests above could pass on an idle checker."""
    path = tmp_path / "page.html"
    path.write_text("<html lang=en><title>x</title><main><p style='color:#999'>grey<img src=x>")
    assert [issue.partition(":")[0] for issue in serious(page, path)] == [
        "color-contrast",
        "image-alt",
    ]
