"""README's pictures, with digests of their sources: pixels differ between machines."""

from __future__ import annotations

import hashlib
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
TRACE = DOCS / "findings" / "sglang-0.5.10.post1-retract-tail.itf.json"
PICTURES = {
    "light": DOCS / "images" / "counterexample.png",
    "dark": DOCS / "images" / "counterexample-dark.png",
}
DRAWN_FROM = DOCS / "images" / "counterexample.sha256"


def digests(page: str) -> str:
    """Return the digests of the page and of the pictures, in the format of ``sha256sum``."""
    named = {"page.html": page.encode(), **{p.name: p.read_bytes() for p in PICTURES.values()}}
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in named.items())
