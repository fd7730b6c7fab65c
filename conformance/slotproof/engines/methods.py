"""The methods of an engine's release that make a transition: what to read where one is wrong.

Of releases a table beside their driver says so; the reference engine is asked by its source, in
which whoever makes a transition names it. Nothing of either is imported.
"""

from __future__ import annotations

import ast
import importlib.util
import tomllib
from collections.abc import Iterator, Mapping
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
            if path.parent.name == "mutants":
                continue
            for method, transition in _named(ast.parse(path.read_text(encoding="utf-8"))):
                found.setdefault(transition, []).append(method)
    return {name: tuple(dict.fromkeys(methods)) for name, methods in found.items()}


def _named(module: ast.Module) -> Iterator[tuple[str, str]]:
    for owner in (node for node in module.body if isinstance(node, ast.ClassDef)):
        for each in (node for node in owner.body if isinstance(node, ast.FunctionDef)):
            values = (node.value for node in ast.walk(each) if isinstance(node, ast.Constant))
            yield from ((f"{owner.name}.{each.name}", str(x)) for x in values if x in TRANSITIONS)
