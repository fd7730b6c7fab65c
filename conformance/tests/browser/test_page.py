"""The counterexample page in a browser: it works by keyboard, and runs nothing from a trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slotproof.reports import forms
from slotproof.reports.trace import Trace, load_trace

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[3]
FINDINGS = sorted((ROOT / "docs" / "findings").glob("*.itf.json"))
TRACE = ROOT / "conformance" / "tests" / "snapshots" / "double-count.itf.json"

Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """``opened(trace)``: its page, from disk, without a network. No console error is allowed."""
    contexts: list[Any] = []
    said: list[str] = []

    def open_page(trace: Trace, **options: Any) -> Any:
        path = tmp_path / f"page-{len(contexts)}.html"
        path.write_text(forms.form("html", trace, "trace.itf.json"))
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: (
                said.append(f"asks for {request.url}")
                if not request.url.startswith(path.as_uri())
                else None
            ),
        )
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def shown(page: Any) -> str:
    """Return the ID of the visible panel."""
    visible = page.locator("[data-panel]:visible")
    assert visible.count() == 1
    return str(visible.get_attribute("id"))


def steps(page: Any) -> list[str]:
    """Return the IDs of all panels: step-3, or step-3.2 for one of several iterations."""
    panels = page.locator("[data-panel]")
    return [panels.nth(index).get_attribute("id") for index in range(panels.count())]


@pytest.mark.parametrize("path", [*FINDINGS, TRACE], ids=lambda path: path.stem)
def test_the_marked_step_is_the_violating_one(path: Path, opened: Open) -> None:
    """The page opens on the violating step, and marks no other. No console error."""
    trace = load_trace(path)
    page = opened(trace)
    last = page.locator("[data-panel]").count()
    assert shown(page) == steps(page)[-1]
    bad = page.locator("tbody.bad")
    assert {bad.nth(index).get_attribute("data-beat") for index in range(bad.count())} == {
        str(last - 1)
    }
    current = page.locator("tbody.here")
    assert [current.nth(index).get_attribute("data-beat") for index in range(current.count())] == [
        str(last - 1)
    ] * 2
    assert "✗" in page.locator("tbody.bad th").first.inner_text()
    assert trace.violations[0].clause in page.locator("header").inner_text()


def test_arrows_step_through(opened: Open) -> None:
    page = opened(load_trace(FINDINGS[0]))
    ids = steps(page)
    last = len(ids)
    for key, wanted in (
        ("ArrowRight", last),
        ("ArrowLeft", last - 1),
        ("ArrowLeft", last - 2),
        ("Home", 1),
        ("ArrowLeft", 1),
        ("ArrowRight", 2),
        ("End", last),
    ):
        page.keyboard.press(key)
        assert shown(page) == ids[wanted - 1]
        assert page.locator("tbody.here").first.get_attribute("data-beat") == str(wanted - 1)
        assert page.locator("[aria-current=step]").count() == 2
    assert page.url.endswith(f"#{ids[-1]}")


def test_buttons_rows_and_links_step_too(opened: Open) -> None:
    page = opened(load_trace(FINDINGS[0]))
    page.click("#back")
    assert shown(page) == steps(page)[-2]
    page.click("#on")
    assert page.locator("#on").is_disabled()
    page.locator("tbody[data-beat='0']").first.click()
    assert shown(page) == "step-1"
    assert page.locator("#back").is_disabled()
    page.evaluate("location.hash = '#step-2'")
    page.wait_for_function("document.querySelector('#step-2:not([hidden])')")
    assert shown(page) == "step-2"


def test_the_picture_moves_with_the_step(opened: Open) -> None:
    """A page lost at the last step belongs to its slot in the step before."""
    path = ROOT / "docs" / "findings" / "sglang-0.5.10.post1-hidden-leak.itf.json"
    page = opened(load_trace(path))
    lost = page.locator("[data-panel]:visible .pages .lost")
    assert lost.count() == 1
    assert "?" in lost.inner_text()
    assert "belongs to nobody" in str(lost.get_attribute("title"))
    page.keyboard.press("ArrowLeft")
    assert page.locator("[data-panel]:visible .pages .lost").count() == 0
    assert page.locator("[data-panel]:visible .pages .held").inner_text().split() == ["s1", "1"]


def test_without_a_script_everything_is_there(opened: Open) -> None:
    page = opened(load_trace(FINDINGS[0]), java_script_enabled=False)
    panels = page.locator("[data-panel]")
    assert panels.count() == page.locator("[data-panel]:visible").count() > 1


def test_on_paper_every_iteration_is_there(opened: Open) -> None:
    """Chromium notifies the page before it prints. Waiting commands get no paper."""
    page = opened(load_trace(FINDINGS[0]))
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    ran = page.locator("[data-panel]:not(.waits, .repeats)").count()
    assert page.locator("[data-panel]:visible").count() == ran >= 1
    assert not page.locator(".stepper").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    shown(page)


@pytest.mark.parametrize("width", [360, 420, 900, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_window(width: int, scheme: str, opened: Open) -> None:
    """Nothing makes the page itself scroll sideways."""
    size = {"width": width, "height": 800}
    page = opened(load_trace(FINDINGS[0]), viewport=size, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")


@pytest.mark.parametrize("width", [420, 900, 1400])
@pytest.mark.parametrize("name", ["0.5.10.post1-retract-tail", "0.5.18-swa-deferred-free"])
def test_the_sum_is_seen_without_scrolling(width: int, name: str, opened: Open) -> None:
    """Checked for the visible step and for every row of the table."""
    path = ROOT / "docs" / "findings" / f"sglang-{name}.itf.json"
    page = opened(load_trace(path), viewport={"width": width, "height": 900})
    sums = page.locator("[data-panel]:visible .eq .sum, .steps .sum:visible")
    boxes = [sums.nth(index).bounding_box() for index in range(sums.count())]
    assert len(boxes) >= 3 and all(box["x"] + box["width"] <= width for box in boxes)
    for scroller in (".panel:visible .scroll-x:has(.eq)", ".scrolls:has(.steps)"):
        fits = "box => box.scrollWidth <= box.clientWidth"
        assert page.locator(scroller).first.evaluate(fits), scroller


def test_a_stall_on_paper_is_told_once(opened: Open) -> None:
    """The print has the changing iterations and the last of 17."""
    path = ROOT / "docs" / "findings" / "sglang-0.5.23-idle-session-pins.itf.json"
    page = opened(load_trace(path))
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    printed = page.locator("[data-panel]:visible")
    shown = [printed.nth(index).get_attribute("id") for index in range(printed.count())]
    assert shown == ["step-4.1", "step-4.2", "step-4.17"]
    assert "And 14 more like it" in printed.nth(1).inner_text()
    sheets = len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4")))
    assert sheets <= 8, "there were 16"


def test_who_has_it_in_a_frame_says_light_or_dark(browser: Any, tmp_path: Path) -> None:
    """The page around the frame overrides the system's scheme, as the site does."""
    (tmp_path / "page.html").write_text(forms.form("html", load_trace(TRACE), "x"))
    (tmp_path / "site.html").write_text("<iframe src=page.html></iframe>")
    context = browser.new_context(offline=True, color_scheme="light")
    page = context.new_page()
    page.goto((tmp_path / "site.html").as_uri())
    background = "getComputedStyle(document.body).backgroundColor"
    seen = [page.frames[1].evaluate(background)]
    for said in ("dark", "purple", "light"):
        page.evaluate(f"frames[0].postMessage('{said}', '*')")
        page.wait_for_timeout(100)
        seen.append(page.frames[1].evaluate(background))
    context.close()
    light, dark = "rgb(255, 255, 255)", "rgb(15, 19, 24)"
    assert seen == [light, dark, dark, light]


def test_nothing_of_a_hostile_trace_is_run(opened: Open, hostile: Trace) -> None:
    """Neither a script nor a handler runs. Strings of the trace are shown as text."""
    page = opened(hostile)
    for key in ("Home", "ArrowRight", "End"):
        page.keyboard.press(key)
    assert page.evaluate("typeof window.owned") == "undefined"
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 0
    assert "<script>window.owned=1</script>" in page.locator("header").inner_text()


def test_the_policy_forbids_other_scripts(browser: Any, tmp_path: Path) -> None:
    """The policy blocks a script even if it passes the escaping."""
    path = tmp_path / "page.html"
    path.write_text(forms.form("html", load_trace(FINDINGS[0]), "x"))
    page = browser.new_page()
    page.goto(path.as_uri())
    blocked = page.evaluate(
        """() => new Promise((done) => {
            document.addEventListener("securitypolicyviolation",
                (event) => done(event.effectiveDirective));
            const script = document.createElement("script");
            script.textContent = "window.owned = 1";
            document.body.append(script);
        })"""
    )
    assert blocked.startswith("script-src")
    assert page.evaluate("typeof window.owned") == "undefined"
    page.close()


def test_the_page_works_in_the_frame_of_a_notebook(browser: Any, tmp_path: Path) -> None:
    """Only its own script runs, steps work by keyboard, and it can't reach the notebook."""
    wrong: list[str] = []
    cell = tmp_path / "cell.html"
    cell.write_text(f"<p>before</p>{load_trace(TRACE)._repr_html_()}<p>after</p>")
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(cell.as_uri())
    frame = page.frames[1]
    last = shown(frame)
    frame.locator("h1").click()
    page.keyboard.press("ArrowLeft")
    assert shown(frame) != last
    page.keyboard.press("ArrowRight")
    assert shown(frame) == last
    reaches = "() => { try { return !!parent.document } catch { return false } }"
    assert not frame.evaluate(reaches)
    context.close()
    assert wrong == []
