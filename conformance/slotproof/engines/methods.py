"""The methods of an engine: those that make a transition, and the one in which two builds differ.

Of releases a table beside their driver names the methods of a transition; the reference engine is
asked by its source, in which whoever makes a transition names it. Nothing of either is imported.
"""

from __future__ import annotations

import ast
import importlib.util
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from slotproof.engines.registry import MODELS
from slotproof.environments.families import FAMILIES
from slotproof_model.spec.transitions import TRANSITIONS

Methods = Mapping[str, tuple[str, ...]]
"""By transition, the outermost first."""


def methods_of(engine: str) -> Methods:
    """Those of an engine by name and version, as it gives them; empty where none are known.

    >>> methods_of("sglang 0.5.23")["T-REFUSE"], methods_of("reference 1")["T-REFUSE"]
    (('PrefillAdder.add_one_req',), ('SessionCache.refuse',))
    >>> methods_of("sglang main"), methods_of("sglang 99.0"), methods_of("mine 0.5.23")
    ({}, {}, {})
    """
    name, _, version = engine.partition(" ")
    if name in MODELS:
        return _of_reference()
    try:
        release = Version(Version(version).public)
    except InvalidVersion:
        return {}
    found: dict[str, tuple[str, ...]] = {}
    for build in builds(name):
        if Version(build["first"]) <= release <= Version(build["last"]):
            for transition, methods in build["methods"].items():
                found[transition] = (*found.get(transition, ()), *methods)
    return found


@cache
def builds(name: str) -> tuple[dict[str, Any], ...]:
    """The tables of an engine: ``first`` and ``last`` release, ``methods``."""
    if name not in FAMILIES:
        return ()
    table = FAMILIES[name].methods.read_text(encoding="utf-8")
    return tuple(tomllib.loads(table)["builds"])


def newest(name: str) -> str:
    """The last release of which methods are known.

    >>> newest("sglang")
    '0.5.23'
    """
    return max((str(each["last"]) for each in builds(name)), key=Version)


@cache
def _of_reference() -> Methods:
    """Where its source names a transition; mutants are in a folder of their own."""
    spec = importlib.util.find_spec("slotproof_engine")
    found: dict[str, list[str]] = {}
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).rglob("*.py")):
            text = "" if path.parent.name == "mutants" else path.read_text(encoding="utf-8")
            for method, node in _functions(ast.parse(text)):
                values = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
                for transition in TRANSITIONS.keys() & values:
                    found.setdefault(transition, []).append(method)
    return {name: tuple(dict.fromkeys(methods)) for name, methods in found.items()}


def changed_method(old: Path, new: Path) -> str:
    """Return the one method in which the Python files of two packages differ, and its file.

    Empty where they differ in several methods, or in a line outside of all methods.
    """
    found = set[str]()
    for file in {path.relative_to(each) for each in (old, new) for path in each.rglob("*.py")}:
        paths = (old / file, new / file)
        before, after = (path.read_bytes() if path.is_file() else b"" for path in paths)
        if before != after:
            methods = _changed(*(text.decode(errors="replace") for text in (before, after)))
            found |= {f"{each} in {new.name}/{file.as_posix()}" if each else "" for each in methods}
        if len(found) > 1:
            return ""
    return "".join(found)


def _changed(old: str, new: str) -> Iterator[str]:
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
    with suppress(SyntaxError):
        for name, node in _functions(ast.parse(text)):
            first = min((each.lineno for each in node.decorator_list), default=node.lineno)
            found |= dict.fromkeys(range(first, (node.end_lineno or first) + 1), name)
    return found


def _functions(
    inside: ast.AST, prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield functions and methods by name; what is defined in one belongs to it."""
    for node in ast.iter_child_nodes(inside):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
        else:
            name = f"{prefix}{node.name}." if isinstance(node, ast.ClassDef) else prefix
            yield from _functions(node, name)
