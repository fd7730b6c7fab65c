"""The methods in which two builds of an engine differ, read from their Python files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

MOST = 20
"""Files that may differ; where more do, it takes long to tell their methods, and tells little."""


def differing(old: Path, new: Path) -> list[str]:
    """Return the methods in which the files of two packages differ, with the file of each.

    A line outside of all methods is named by its file alone. Nothing where too many files differ.
    """
    files = sorted({path.relative_to(each) for each in (old, new) for path in each.rglob("*.py")})
    pairs = {file: [_bytes(each / file) for each in (old, new)] for file in files}
    pairs = {file: texts for file, texts in pairs.items() if texts[0] != texts[1]}
    found: dict[str, None] = {}
    for file, texts in pairs.items() if len(pairs) <= MOST else ():
        name = f"{new.name}/{file.as_posix()}"
        methods = _methods(*(text.decode(errors="replace") for text in texts))
        found |= dict.fromkeys(f"{method} in {name}" if method else name for method in methods)
    return list(found)


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
    try:
        module = ast.parse(text)
    except SyntaxError:
        return {}
    found: dict[int, str] = {}
    for node in module.body:
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for each in inside:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min((one.lineno for one in each.decorator_list), default=each.lineno)
                lines = range(first, (each.end_lineno or first) + 1)
                found |= dict.fromkeys(lines, f"{prefix}{each.name}")
    return found
