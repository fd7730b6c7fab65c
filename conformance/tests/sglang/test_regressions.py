"""Regressions: diffs that fit the release, and the program that runs the gate on patched copies."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from slotproof_driver.patches import hunks

from slotproof.engines.releases import of_release
from tests.processes import finished
from tests.sglang.regress import DIFFS, RELEASE, patched, row

pytestmark = pytest.mark.sglang

LIST = Path(__file__).with_name("regressions") / "README.md"
LISTED = re.findall(r"^\| `(\d\d-[\w-]+)` \| `([\w.]+)` \|", LIST.read_text("utf-8"), re.MULTILINE)


def bodies(tree: ast.AST, inside: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the code of every function outside other functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield inside + node.name, ast.dump(node)
        elif isinstance(node, ast.ClassDef):
            yield from bodies(node, f"{node.name}.")


def test_ten_methods_are_listed() -> None:
    assert [name for name, _ in LISTED] == [path.stem for path in DIFFS]
    assert len({method for _, method in LISTED}) == 10


@pytest.mark.parametrize(("name", "method"), LISTED)
def test_a_regression_changes_the_method_that_the_list_names(name: str, method: str) -> None:
    changes = hunks(LIST.with_name(f"{name}.diff").read_text("utf-8"))
    before = after = (of_release(f"sglang=={RELEASE}").site / changes[0][0]).read_text("utf-8")
    for _, was, is_ in changes:
        assert after.count(was) == 1
        after = after.replace(was, is_)
    changed = dict(set(bodies(ast.parse(after))) - set(bodies(ast.parse(before))))
    assert [*changed] == [method]


@pytest.mark.slow
def test_a_copy_is_patched_and_the_release_is_not(tmp_path: Path) -> None:
    entry = of_release(f"sglang=={RELEASE}")
    python = patched(DIFFS[0], tmp_path)
    site = python.parents[1] / entry.site.relative_to(entry.path)
    told = finished([python, "-c", "import sys; print(sys.path)"]).stdout
    assert str(site) in told and str(entry.path) not in told
    ((file, was, is_),) = hunks(DIFFS[0].read_text("utf-8"))
    assert is_ in (site / file).read_text("utf-8")
    assert was in (entry.site / file).read_text("utf-8")


def test_a_line_counts_causes_and_findings() -> None:
    one, two = {"id": "INV-ONCE"}, {"id": "INV-ALIVE"}
    cause = {"name": "x", "findings": [one, two]}
    assert row("01", {"new": []}, 0, 2.4) == ["01", 0, 0, 0, "2", "-"]
    assert row("01", {"new": [one, two]}, 1, 2.4) == ["01", 2, 2, 1, "2", "INV-ONCE"]
    assert row("01", {"new": [cause]}, 1, 2.4) == ["01", 1, 2, 1, "2", "x: INV-ONCE, INV-ALIVE"]
