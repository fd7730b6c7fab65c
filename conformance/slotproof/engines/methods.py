"""Methods that implement a transition, and the one method that differs between two builds.

For a release, a table beside the driver lists the methods of each transition. For the reference
engine, the source is searched for names of transitions. No engine is imported.
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
"""Methods by transition. The outermost method comes first."""


def methods_of(engine: str) -> Methods:
    """Return an engine's methods by transition. ``engine``: its name and version. Empty if unknown.

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
    by_transition: dict[str, tuple[str, ...]] = {}
    for build in builds(name):
        if Version(build["first"]) <= release <= Version(build["last"]):
            for transition, methods in build["methods"].items():
                by_transition[transition] = (*by_transition.get(transition, ()), *methods)
    return by_transition


@cache
def builds(name: str) -> tuple[dict[str, Any], ...]:
    """Return an engine's tables, each with ``first`` and ``last`` release and ``methods``."""
    if name not in FAMILIES:
        return ()
    return tuple(tomllib.loads(FAMILIES[name].methods.read_text(encoding="utf-8"))["builds"])


def newest(name: str) -> str:
    """Return the newest release covered by the engine's table of methods.

    >>> newest("sglang")
    '0.5.23'
    """
    return max((str(build["last"]) for build in builds(name)), key=Version)


@cache
def _of_reference() -> Methods:
    """Return, for each transition, the methods whose code names it. Mutants are left out."""
    spec = importlib.util.find_spec("slotproof_engine")
    by_transition: dict[str, list[str]] = {}
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).rglob("*.py")):
            text = "" if path.parent.name == "mutants" else path.read_text(encoding="utf-8")
            for method, node in _functions(ast.parse(text)):
                values = (leaf.value for leaf in ast.walk(node) if isinstance(leaf, ast.Constant))
                for transition in TRANSITIONS.keys() & values:
                    by_transition.setdefault(transition, []).append(method)
    return {name: tuple(dict.fromkeys(methods)) for name, methods in by_transition.items()}


def changed_method(old: Path, new: Path) -> str:
    """Return the only method that differs between the Python files of two packages, with its file.

    Empty if several methods differ, or if a line outside all methods differs.
    """
    changed = set[str]()
    for file in {path.relative_to(top) for top in (old, new) for path in top.rglob("*.py")}:
        paths = (old / file, new / file)
        before, after = (path.read_bytes() if path.is_file() else b"" for path in paths)
        if before != after:
            methods = _changed(*(text.decode(errors="replace") for text in (before, after)))
            changed |= {name and f"{name} in {new.name}/{file.as_posix()}" for name in methods}
        if len(changed) > 1:
            return ""
    return "".join(changed)


def _changed(old: str, new: str) -> Iterator[str]:
    """Yield, for each line that differs between two texts, the name of the method around it."""
    before, after = _owners(old), _owners(new)
    matcher = SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False)
    for tag, *places in matcher.get_opcodes():
        if tag != "equal":
            yield from (before.get(line + 1, "") for line in range(*places[:2]))
            yield from (after.get(line + 1, "") for line in range(*places[2:]))


def _owners(text: str) -> dict[int, str]:
    """Return the method around each line, decorators included. Empty if the text is not Python."""
    owners: dict[int, str] = {}
    with suppress(SyntaxError):
        for name, node in _functions(ast.parse(text)):
            first = min((line.lineno for line in node.decorator_list), default=node.lineno)
            owners |= dict.fromkeys(range(first, (node.end_lineno or first) + 1), name)
    return owners


def _functions(
    inside: ast.AST, prefix: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield functions and methods by name. Inner functions belong to their outer function."""
    for node in ast.iter_child_nodes(inside):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
        else:
            name = f"{prefix}{node.name}." if isinstance(node, ast.ClassDef) else prefix
            yield from _functions(node, name)
