"""README's picture is the current counterexample page, light and dark.

``SLOTPROOF_UPDATE_SNAPSHOTS=1 pytest -m browser conformance/tests/browser/test_picture.py`` redraws
it. Without a browser, `test_pages.py` checks that it is current.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from slotproof.reports import forms
from slotproof.reports.trace import load_trace
from tests.pictures import DRAWN_FROM, PICTURES, TRACE, digests

pytestmark = pytest.mark.browser


def test_it_can_be_drawn(browser: Any, tmp_path: Path) -> None:
    page = forms.form("html", load_trace(TRACE), TRACE.name)
    update = os.environ.get("SLOTPROOF_UPDATE_SNAPSHOTS") == "1"
    for scheme, picture in PICTURES.items():
        drawn = draw(browser, page, tmp_path / "page.html", scheme)
        assert drawn.startswith(b"\x89PNG")
        if update:
            picture.write_bytes(drawn)
    if update:
        DRAWN_FROM.write_text(digests(page))


def draw(browser: Any, page: str, path: Path, scheme: str) -> bytes:
    path.write_text(page)
    context = browser.new_context(
        offline=True, color_scheme=scheme, viewport={"width": 1500, "height": 1140}
    )
    shown = context.new_page()
    shown.goto(path.as_uri())
    drawn: bytes = shown.screenshot()
    context.close()
    return drawn
