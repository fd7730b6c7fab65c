"""The documents agree with the tree: every link resolves, every shipped trace can be read."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from slotproof.reports.text import render
from slotproof.reports.trace import load_trace

ROOT = Path(__file__).parents[3]
DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))
each_document = pytest.mark.parametrize(
    "path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix()
)


@each_document
def test_links_resolve(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (path.parent / unquote(link)).exists()] == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.itf.json")), ids=lambda p: p.stem)
def test_every_finding_can_be_read(path: Path) -> None:
    """A shipped trace loads, and names the violated clause."""
    trace = load_trace(path)
    assert trace.violations and trace.rows
    assert render(trace, path.name)


def test_findings_have_states_and_the_matrix_has_none() -> None:
    """Only traces of findings store their states. A replay recreates the states of the others."""
    findings = ROOT / "docs" / "findings"
    assert all(load_trace(path).states for path in findings.glob("*.itf.json"))
    of_matrix = list(findings.glob("matrix*/traces/*.itf.json"))
    assert of_matrix and not any(load_trace(path).states for path in of_matrix)


@each_document
def test_no_wrapped_line_is_a_heading(path: Path) -> None:
    """The site turns a line that begins with `#123` into a heading."""
    assert re.findall(r"^ {0,3}#+\d.*", path.read_text(), re.MULTILINE) == []
