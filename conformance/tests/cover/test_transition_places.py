"""One place per fact: the modules that name transitions, and the protocol that lists them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotproof.search import report
from slotproof_model.spec.transitions import TRANSITIONS

ROOT = Path(__file__).parents[3]
MAY_NAME = {
    "model/slotproof_model/spec/transitions.py": "the spec",
    "model/slotproof_model/bugs/museum.py": "known bugs, each a transition with something wrong",
    "model/slotproof_model/proofs/progress.py": "the step that helps each kind of actor",
    "model/slotproof_model/proofs/stuck.py": "looks for who waits where one of them is missing",
    "model/slotproof_model/exports/tla.py": "a move of pages, a second time on purpose",
    "conformance/slotproof/cli/prove_progress.py": "which of them may be left out",
    "conformance/slotproof/cli/epilogs.py": "examples to copy",
    "conformance/slotproof/reports/wording.py": "a conjunct that means another thing there",
    "impl": "an engine says what it does where it does it",
    "conformance/slotproof/drivers": "so does a driver, which imports nothing of slotproof",
}
_NAME = re.compile(r"\bT[-_][A-Z]+([-_][A-Z]+)*")
_IDS = {*TRANSITIONS, *(id_.replace("-", "_") for id_ in TRANSITIONS)}


def named(source: str) -> Iterator[str]:
    """Yield the transitions named by a module's code. Comments and docstrings do not count."""
    tree = ast.parse(source)
    by_the_way = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value if node not in by_the_way else ""
        elif isinstance(node, ast.Name):
            text = node.id
        elif isinstance(node, ast.Attribute):
            text = node.attr
        yield from (match[0] for match in _NAME.finditer(text) if match[0] in _IDS)


def modules() -> Iterator[Path]:
    for package in ("model", "impl", "conformance", "bench", "docs"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "tests" not in path.parts:
                yield path


def test_transitions_are_named_in_few_places() -> None:
    """A new transition is one edit in the spec and one in each engine that makes it. Other modules
    select transitions by attributes from the spec."""
    naming = {path for path in modules() if any(named(path.read_text()))}
    for place in MAY_NAME:
        allowed = {path for path in naming if path.is_relative_to(ROOT / place)}
        assert allowed, f"{place} names none: it needs no exception"
        naming -= allowed
    assert {str(path.relative_to(ROOT)) for path in naming} == set()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('LIST = ["T-OPEN"]', ["T-OPEN"]),
        ("t.T_OPEN", ["T_OPEN"]),
        ('f"{x} of T-OPEN"', ["T-OPEN"]),
        ('"""T-OPEN"""  # T-OPEN', []),
        ('def f():\n    """T-OPEN"""', []),
        ('"T-UNHEARD-OF"', []),
        ('"CLIENT-ABORT"', []),
    ],
)
def test_what_counts_as_naming(source: str, names: list[str]) -> None:
    assert list(named(source)) == names


def test_the_protocol_lists_every_transition_with_its_parameters() -> None:
    """Once, in the table of events in docs/reference/protocol.md."""
    text = (ROOT / "docs" / "reference" / "protocol.md").read_text()
    rows = re.findall(r"^\| (\[T-[^|]*) \| ([^|]*) \|$", text, re.MULTILINE)
    told = [
        (id_, set(re.findall(r"`(\w+)`", says)))
        for ids, says in rows
        for id_ in re.findall(r"\[(T-[A-Z-]+)\]\(spec/transitions/\1\.md\)", ids)
    ]
    assert sorted(id_ for id_, _ in told) == sorted(TRANSITIONS)
    for id_, parameters in told:
        assert parameters == set(TRANSITIONS[id_].names), id_


def test_what_a_transition_needs_is_known() -> None:
    """Otherwise a run without it is inconclusive for no stated reason."""
    needs = {transition.needs for transition in TRANSITIONS.values()} - {""}
    assert needs <= set(report._NEEDS)
