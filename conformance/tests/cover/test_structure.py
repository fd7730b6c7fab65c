"""The layout of the source: rooms on floors, budgets of lines, a map that is true."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = {"slotproof_model": "model", "slotproof_engine": "impl", "slotproof": "conformance"}
"""By package, the folder that holds it and its tests."""
MAY_IMPORT: Mapping[str, set[str]] = {
    "slotproof_model": set(),
    "slotproof_engine": set(),
    "slotproof": {"slotproof_model", "slotproof_engine"},
}
"""By package, the other packages that it may import."""

FLOORS: Mapping[str, Sequence[str]] = {
    "slotproof_model": ("spec", "evaluation", "text", "bugs", "proofs", "exports", ""),
    "slotproof_engine": (
        *("kernels", "base", "memory", "requests", "kv", "models", "sessions", "scheduling"),
        *("assembly", "mutants", ""),
    ),
    "slotproof": (
        *("support", "protocol", "drivers", "environments", "engines", "lockstep", "traces"),
        *("reports", "search", "campaigns", "logs", "frontend", "matrices", "spec_documents"),
        *("driver_checks", "cli", "plugin", ""),
    ),
}
"""The rooms of a package, its folders, from the ground up: a room imports those below it. "" is the
package itself and the modules beside its rooms."""
ROOMS = 20
"""Of a package at most."""

Graph = Mapping[str, set[str]]
"""By module or room, the others that it imports."""


def name_of(path: Path) -> str:
    """The name that a file of a package is imported by."""
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    name_of(path.relative_to(ROOT)): path
    for package, folder in PACKAGES.items()
    for path in sorted((ROOT / folder / package).rglob("*.py"))
}


def imported(name: str, text: str) -> Iterator[str]:
    """Our modules that a module's text imports, anywhere: on top, in functions, for types only."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            above = name.split(".")[: -node.level] if node.level else []
            base = ".".join(filter(None, (*above, node.module)))
            for alias in node.names:  # a module of its own, or a name in one
                found = (each for each in (f"{base}.{alias.name}", base) if each in MODULES)
                yield from list(found)[:1]


IMPORTS: Graph = {
    name: set(imported(name, path.read_text())) - {name} for name, path in MODULES.items()
}


def room_of(name: str) -> str:
    """The first folder on the way to a module; of the package and modules beside rooms, none."""
    path = MODULES[name].relative_to(ROOT).parts[2:]
    return path[0] if len(path) > 1 else ""


def rooms(package: str) -> dict[str, set[str]]:
    """By room of a package, the others of it that it imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, others in IMPORTS.items():
        if name.split(".")[0] == package:
            inside = {room_of(other) for other in others if other.split(".")[0] == package}
            found[room_of(name)] |= inside - {room_of(name)}
    return dict(found)


def upward(graph: Graph, floors: Sequence[str]) -> list[str]:
    """Arrows that do not lead down, and rooms without a floor."""
    unknown = [f"{room!r} has no floor" for room in sorted(graph.keys() - set(floors))]
    height = {room: number for number, room in enumerate(floors)}
    return unknown + [
        f"{room} → {other}"
        for room in sorted(graph.keys() & height.keys())
        for other in sorted(graph[room])
        if height.get(other, 0) >= height[room]
    ]


def drawn(package: str, graph: Graph) -> str:
    """The graph of a package for a reader, from the top floor down."""
    lines = [
        f"  {room or package:<16}{'→ ' if graph[room] else ''}{', '.join(sorted(graph[room]))}"
        for room in reversed(FLOORS[package])
        if room in graph
    ]
    return "\n".join([package, *lines])


def circle(graph: Graph) -> list[str]:
    """One way round, if there is any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("package", PACKAGES)
def test_rooms_import_downwards(package: str) -> None:
    graph = rooms(package)
    wrong = upward(graph, FLOORS[package])
    assert wrong == [], "\n".join([*wrong, "", drawn(package, graph)])
    assert 2 < len(graph) <= ROOMS, drawn(package, graph)


def test_an_arrow_upwards_is_found_and_drawn() -> None:
    graph = {"text": {"spec", "proofs"}, "spec": set(), "attic": set(), "proofs": {"text"}}
    assert upward(graph, FLOORS["slotproof_model"]) == ["'attic' has no floor", "text → proofs"]
    assert drawn("slotproof_model", graph).splitlines() == [
        "slotproof_model",
        "  proofs          → text",
        "  text            → proofs, spec",
        "  spec            ",
    ]
    assert set(circle(graph)) == {"text", "proofs"}


def test_no_module_imports_itself_by_way_of_others() -> None:
    """The package itself imports its rooms when a name of theirs is used."""
    within = {name: others - PACKAGES.keys() for name, others in IMPORTS.items()}
    assert " imports ".join(reversed(circle(within))) == ""


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_import_one_way(package: str) -> None:
    """The spec knows nobody, the reference engine nothing of the spec."""
    allowed = {package, *MAY_IMPORT[package]}
    wrong = [
        f"{name} imports {other}"
        for name, others in IMPORTS.items()
        for other in others
        if name.split(".")[0] == package and other.split(".")[0] not in allowed
    ]
    assert "\n".join(wrong) == ""


def test_every_kind_of_import_counts() -> None:
    """Else the tests above could be passed by hiding one."""
    text = """
import slotproof_model.evaluation.world as w
from slotproof.support import bounds
from slotproof.protocol.commands import Command
from . import client
from ..protocol.config import CONFIGS
if TYPE_CHECKING:
    from slotproof_model.spec import expr
def function():
    from slotproof_engine import build
"""
    assert sorted(imported("slotproof.lockstep.referee", text)) == [
        "slotproof.lockstep.client",
        "slotproof.protocol.commands",
        "slotproof.protocol.config",
        "slotproof.support.bounds",
        "slotproof_engine",
        "slotproof_model.evaluation.world",
        "slotproof_model.spec.expr",
    ]


PROGRAMS = ("common", "sglang", "vllm", "examples")
"""Folders of drivers/ whose programs run where the engine is installed, and slotproof is not."""


def test_drivers_import_nothing_of_slotproof() -> None:
    """But their own package; and nobody imports them."""
    for name, others in IMPORTS.items():
        for folder in PROGRAMS:
            inside = f"slotproof.drivers.{folder}"
            mine = name.startswith(inside)
            for other in others:
                assert mine == other.startswith(inside), (name, other)


def test_the_formatter_lays_everything_out_but_the_spec() -> None:
    """model/ has formulas that are read in columns."""
    folders = ("impl", "conformance", "bench", "docs")
    off = re.compile(r"#\s*fmt:\s*(skip|off)|#\s*yapf")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    wrong = [path for path in files if path != Path(__file__) and off.search(path.read_text())]
    assert len(files) > 200 and [path.relative_to(ROOT).as_posix() for path in wrong] == []


# Budgets -----------------------------------------------------------------------------------------

BUDGETS: Mapping[str, int] = tomllib.loads((ROOT / "budgets.toml").read_text())["lines"]


def lines_of(folder: str) -> int:
    """Lines of Python in a folder, without tests and without folders that have their own budget."""
    apart = [ROOT / other for other in BUDGETS if other != folder and other.startswith(folder)]
    return sum(
        path.read_bytes().count(b"\n")
        for path in (ROOT / folder).rglob("*.py")
        if "tests" not in path.relative_to(ROOT / folder).parts
        and not any(path.is_relative_to(other) for other in apart)
    )


@pytest.mark.parametrize("folder", BUDGETS)
def test_a_folder_keeps_its_budget(folder: str) -> None:
    lines = lines_of(folder)
    assert 1000 < lines <= BUDGETS[folder], f"{folder} has {lines} lines: what goes?"


def test_every_package_has_a_budget() -> None:
    assert BUDGETS.keys() >= {f"{folder}/{package}" for package, folder in PACKAGES.items()}


# ARCHITECTURE.md ---------------------------------------------------------------------------------

MAP = (ROOT / "ARCHITECTURE.md").read_text()
CHARACTERS = 10_000
"""Of it at most."""
SUFFIXES = (".py", ".md", ".json", ".yml", ".toml", ".js")
NAMED = sorted(
    text
    for text in set(re.findall(r"`(\w[\w.-]*(?:/[\w.-]+)*/?)`", MAP))
    if ("/" in text or text.endswith(SUFFIXES)) and not text.startswith("build/")
)
"""What it names as code and looks like a folder or a file; `build/` is made by `make`."""


def test_the_map_is_short() -> None:
    assert len(MAP) <= CHARACTERS


def is_there(text: str) -> bool:
    """From the top, from a package, or a file whose name alone says where it is."""
    tops = [ROOT, *(ROOT / folder for folder in PACKAGES.values())]
    tops += [ROOT / folder / name for name, folder in PACKAGES.items()]
    beside = [ROOT / folder for folder in (*PACKAGES.values(), "docs", "bench")]
    return any((top / text).exists() for top in tops) or (
        "/" not in text and any(path for top in beside for path in top.rglob(text))
    )


def test_what_the_map_names_is_there() -> None:
    assert len(NAMED) > 20
    assert [text for text in NAMED if not is_there(text)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_tells_the_floors(package: str) -> None:
    """A reader looks there for what may import what: a row for each room, from the ground up."""
    told = re.findall(rf"^\| `{package}/(\w+)/` ", MAP, re.MULTILINE)
    assert told == [room for room in FLOORS[package] if room]
