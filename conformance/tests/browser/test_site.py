"""The documentation site in a browser, opened from disk: nothing fails, nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

pytestmark = pytest.mark.browser

PAGES = (
    "index",
    "tutorial/first-bug",
    "reference/cli",
    "reference/api/slotproof",
    "how-to/use-from-python",
    "reference/api/conformance",
    "systems/22862-free-tail",
    "findings/sglang-streaming-sessions",
    "findings/vllm-streaming-input",
    "findings/two-first-turns",
    "findings/matrix/matrix",
    "findings/matrix-vllm/matrix",
    "how-to/review-a-pull-request",
    "project/model/slotproof_model/spec/memory.py",
    "404",
)


@pytest.fixture(params=[(1400, "light"), (900, "light"), (420, "dark")])
def page(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page with a log of its errors and its requests to the network."""
    width, scheme = request.param
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    page.wrong = []
    page.on("console", lambda said: said.type == "error" and page.wrong.append(said.text))
    page.on("pageerror", lambda error: page.wrong.append(str(error)))
    page.on(
        "request",
        lambda asked: asked.url.startswith(("http:", "https:")) and page.wrong.append(asked.url),
    )
    yield page
    context.close()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_from_disk(page: Any, site: Path, name: str) -> None:
    page.goto(f"file://{site}/{name}.html")
    assert page.locator("h1").count() == 1
    wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert not page.evaluate(wide), "it scrolls sideways"
    assert page.wrong == []


def test_search_from_disk(page: Any, site: Path) -> None:
    page.goto(f"file://{site}/index.html")
    page.keyboard.press("/")
    page.keyboard.type("double count")
    page.wait_for_selector(".md-search-result__item")
    assert "22213" in page.locator(".md-search-result__list").inner_text()
    assert page.wrong == []


def test_the_copy_button_takes_commands(page: Any, site: Path) -> None:
    """From a session it copies only the commands, from a file everything."""
    page.goto(f"file://{site}/tutorial/first-bug.html")
    page.evaluate("document.addEventListener('copy', e => { window.copied = e.target.value })")
    copied = []
    for block in page.locator(".highlight:has(.gp)").all():
        block.hover()
        block.locator("[data-clipboard-target]").click()
        copied.append(page.evaluate("window.copied"))
    assert "slotproof run --examples 300" in copied
    trace = "slotproof-traces/reference-22862-no-free-tail-seed0.itf.json"
    again = (
        f"slotproof replay {trace}\necho $?\nslotproof replay {trace} --engine reference\necho $?"
    )
    assert again in copied
    file = page.locator(".highlight:has-text('class Forgetful')")
    file.hover()
    file.locator("[data-clipboard-target]").click()
    assert "\n\n\nclass Forgetful(SessionSlot):\n    def " in page.evaluate("window.copied")
    assert page.wrong == []


def test_the_counterexample_on_the_home_page_follows_the_button(browser: Any, site: Path) -> None:
    context = browser.new_context(color_scheme="light", viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.goto(f"file://{site}/index.html")
    frame = page.frames[1]
    assert "is lost" in frame.locator("h1").inner_text()
    background = "getComputedStyle(document.body).backgroundColor"
    seen = [frame.evaluate(background)]
    for name in ("Dark", "Light"):
        page.locator(f"label[title={name}]:visible").click()
        page.wait_for_timeout(100)
        seen.append(frame.evaluate(background))
    context.close()
    assert seen == ["rgb(255, 255, 255)", "rgb(15, 19, 24)", "rgb(255, 255, 255)"]


@pytest.mark.parametrize("width", [420, 900, 1400])
def test_the_frame_on_the_home_page_shows_all_pages(width: int, browser: Any, site: Path) -> None:
    context = browser.new_context(viewport={"width": width, "height": 700})
    page = context.new_page()
    page.goto(f"file://{site}/index.html")
    page.wait_for_function("document.querySelector('iframe.counterexample').style.height")
    last = page.frames[1].locator("[data-panel]:visible .pages li").last.bounding_box()
    frame = page.locator("iframe.counterexample").bounding_box()
    context.close()
    assert last["y"] + last["height"] <= frame["y"] + frame["height"]


@pytest.mark.parametrize("name", ["findings/matrix/matrix", "findings/matrix-vllm/matrix"])
def test_a_table_of_releases_fits_its_column(name: str, browser: Any, site: Path) -> None:
    """The table does not scroll if the window has room. Each link leads to a page."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    page.goto(f"file://{site}/{name}.html")
    wrap = page.locator(".md-typeset__scrollwrap").first
    assert wrap.evaluate("box => box.scrollWidth <= box.clientWidth")
    numbers = page.locator("tbody td:not(:first-child) a")
    targets = {numbers.nth(i).evaluate("a => a.href") for i in range(numbers.count())}
    context.close()
    files = [Path(unquote(target.removeprefix("file://"))) for target in targets]
    assert len(files) > 10 and all(file.suffix == ".html" and file.is_file() for file in files)


@pytest.mark.parametrize("name", ["findings/matrix/matrix", "reference/cli"])
def test_a_table_is_whole_on_paper(name: str, browser: Any, site: Path) -> None:
    """Where nothing scrolls: within the text column of an A4 page."""
    context = browser.new_context(viewport={"width": 700, "height": 900})
    page = context.new_page()
    page.emulate_media(media="print")
    page.goto(f"file://{site}/{name}.html")
    ends = page.locator(".md-typeset table:not([class])").evaluate_all(
        "tables => tables.map(each => each.getBoundingClientRect().right)"
    )
    context.close()
    assert ends and max(ends) <= 700
