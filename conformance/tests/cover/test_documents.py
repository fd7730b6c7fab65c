"""What the documents say of the tree: every link resolves, every shipped trace can be read."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from slotproof.conformance.traces import itf
from slotproof.conformance.traces.text import render

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_resolve(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (path.parent / unquote(link)).exists()] == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.itf.json")), ids=lambda p: p.stem)
def test_every_finding_can_be_read(path: Path) -> None:
    """A shipped trace loads, and says what it violated."""
    trace = itf.load(path)
    assert trace.violations and trace.rows
    assert render(trace, path.name)
