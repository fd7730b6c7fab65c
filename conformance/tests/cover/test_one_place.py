"""One place assembles a referee, plays, names a finding, writes files."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CODE = [
    path
    for folder in ("conformance", "bench")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not {"tests", "drivers"} & set(path.relative_to(ROOT).parts)
]


def named(node: ast.expr) -> str:
    """The last name of ``a.b.c``, or of ``c``."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def assembles(node: ast.AST) -> bool:
    """Return True for ``Referee(…)`` under any name in the module, but not for a subclass."""
    return isinstance(node, ast.Call) and named(node.func) == "Referee"


def plays(node: ast.AST) -> bool:
    """Return True for a loop in which a referee carries out commands."""
    return isinstance(node, ast.For) and any(
        isinstance(child, ast.Call)
        and isinstance(child.func, ast.Attribute)
        and child.func.attr == "do"
        and named(child.func.value) == "referee"
        for child in ast.walk(node)
    )


def names(node: ast.AST) -> bool:
    """Return True for a call that makes the identity of a finding."""
    return isinstance(node, ast.Call) and named(node.func) == "Mark"


def draws(node: ast.AST) -> bool:
    """Return True for a call that enters Hypothesis, by a state machine or by ``given``."""
    entries = ("run_state_machine_as_test", "given")
    return isinstance(node, ast.Call) and named(node.func) in entries


def found(node: ast.AST) -> bool:
    """Return True for the class of a finding: it has an identity and a trace."""
    fields = {named(field.target) for field in ast.walk(node) if isinstance(field, ast.AnnAssign)}
    return isinstance(node, ast.ClassDef) and {"mark", "trace"} <= fields


def options(node: ast.AST) -> Iterator[str]:
    """Yield the names of an option, of a command or of pytest, without dashes."""
    if isinstance(node, ast.Call) and named(node.func) in ("option", "addoption", "add"):
        for first in node.args[:1]:
            if isinstance(first, ast.Constant):
                yield str(first.value).split()[0].lstrip("-")


def writes(node: ast.AST) -> bool:
    """Return True for a write to a file, by a method of its path or by ``open``."""
    if not isinstance(node, ast.Call):
        return False
    modes = [argument.value for argument in node.args[1:] if isinstance(argument, ast.Constant)]
    opens = isinstance(node.func, ast.Name) and node.func.id == "open"
    return named(node.func) in ("write_text", "write_bytes") or (opens and "w" in modes)


def places(what: Callable[[ast.AST], bool]) -> Iterator[str]:
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text())):
            if what(node):
                yield str(path.relative_to(ROOT))


@pytest.mark.parametrize(
    ("what", "where"),
    [
        (assembles, ["conformance/slotproof/lockstep/referee.py"]),
        (plays, ["conformance/slotproof/lockstep/referee.py"]),
        (
            names,
            ["conformance/slotproof/search/findings.py"] * 2,
        ),  # faults of the driver, and violations
        (draws, ["conformance/slotproof/search/examples.py"]),
        (found, ["conformance/slotproof/search/findings.py"]),
    ],
)
def test_there_is_one_place(what: Callable[[ast.AST], bool], where: list[str]) -> None:
    """A second place would soon become a second rule."""
    assert sorted(places(what)) == where


def test_one_option_takes_a_baseline() -> None:
    """The option has the same name in each command, and after pytest's prefix."""
    nodes = (node for path in CODE for node in ast.walk(ast.parse(path.read_text())))
    every = {name for node in nodes for name in options(node)}
    assert {name for name in every if "baseline" in name or "known" in name} == {"baseline"}


def test_files_are_written_in_one_place() -> None:
    """Files are written whole or line by line. Only a benchmark's results may be incomplete."""
    ours = [path for path in places(writes) if path.startswith("conformance/")]
    assert ours == ["conformance/slotproof/support/files.py"] * 2
