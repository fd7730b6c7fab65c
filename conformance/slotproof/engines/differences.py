"""The method in which two builds of an engine differ, read from their Python files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path


def changed_method(old: Path, new: Path) -> str:
    """Return the one method in which the Python files of two packages differ, and its file.

    Empty where they differ in several methods, or in a line outside of all methods.
    """
    found = set[str]()
    for file in {path.relative_to(each) for each in (old, new) for path in each.rglob("*.py")}:
        before, after = (_bytes(each / file) for each in (old, new))
        if before != after:
            methods = _methods(*(text.decode(errors="replace") for text in (before, after)))
            found |= {f"{each} in {new.name}/{file.as_posix()}" if each else "" for each in methods}
        if len(found) > 1:
            return ""
    return "".join(found)


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _methods(old: str, new: str) -> Iterator[str]:
    """Return the method of each line in which two texts differ."""
    before, after = _owners(old), _owners(new)
    matcher = SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False)
    for tag, *places in matcher.get_opcodes():
        if tag != "equal":
            yield from (before.get(line + 1, "") for line in range(*places[:2]))
            yield from (after.get(line + 1, "") for line in range(*places[2:]))


def _owners(text: str) -> dict[int, str]:
    """Return the method by the number of a line, decorators included; none if it is no Python."""
    found: dict[int, str] = {}

    def look(inside: ast.AST, prefix: str) -> None:
        for node in ast.iter_child_nodes(inside):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min((each.lineno for each in node.decorator_list), default=node.lineno)
                lines = range(first, (node.end_lineno or first) + 1)
                found.update(dict.fromkeys(lines, f"{prefix}{node.name}"))
            else:
                look(node, f"{prefix}{node.name}." if isinstance(node, ast.ClassDef) else prefix)

    try:
        look(ast.parse(text), "")
    except SyntaxError:
        return {}
    return found
