"""README's picture is a counterexample page as it is now, light and dark.

``SLOTPROOF_UPDATE_SNAPSHOTS=1 pytest -m browser conformance/tests/browser/test_picture.py``
draws it anew.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from slotproof.reports import forms
from slotproof.reports.trace import load_trace

pytestmark = pytest.mark.browser

DOCS = Path(__file__).parents[3] / "docs"
TRACE = DOCS / "findings" / "sglang-0.5.10.post1-retract-tail.itf.json"
PICTURES = {
    "light": DOCS / "images" / "counterexample.png",
    "dark": DOCS / "images" / "counterexample-dark.png",
}
DRAWN_FROM = DOCS / "images" / "counterexample.sha256"
"""The digest of the page that the pictures show: pixels differ from machine to machine."""


def test_it_shows_the_page_as_it_is(browser: Any, tmp_path: Path) -> None:
    page = forms.form("html", load_trace(TRACE), TRACE.name)
    digest = hashlib.sha256(page.encode()).hexdigest() + "\n"
    if os.environ.get("SLOTPROOF_UPDATE_SNAPSHOTS") == "1":
        draw(browser, page, tmp_path / "page.html")
        DRAWN_FROM.write_text(digest)
    assert DRAWN_FROM.read_text() == digest
    readme = (DOCS.parent / "README.md").read_text()
    for path in PICTURES.values():
        assert f"docs/images/{path.name}" in readme


def draw(browser: Any, page: str, path: Path) -> None:
    path.write_text(page)
    for scheme, picture in PICTURES.items():
        context = browser.new_context(
            offline=True, color_scheme=scheme, viewport={"width": 1500, "height": 1020}
        )
        shown = context.new_page()
        shown.goto(path.as_uri())
        shown.screenshot(path=picture)
        context.close()
