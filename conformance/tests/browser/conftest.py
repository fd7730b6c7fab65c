"""A headless Chromium of the system, driven by Playwright's Python package.

``SLOTPROOF_CHROMIUM`` names a program not called chromium or google-chrome.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, started once. A missing Chromium is a failure, not a skip."""
    program = os.environ.get("SLOTPROOF_CHROMIUM") or next(
        filter(None, map(shutil.which, NAMES)), None
    )
    if program is None:
        pytest.fail(f"no browser: install {' or '.join(NAMES)}, or set SLOTPROOF_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield started
        started.close()
