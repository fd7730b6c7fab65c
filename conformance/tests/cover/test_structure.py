"""The layout of the source: rooms on floors, budgets of lines, a map that is true."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = {"slotproof_model": "model", "slotproof_engine": "impl", "slotproof": "conformance"}
"""Folder of each package, with its code and its tests."""
MAY_IMPORT: Mapping[str, set[str]] = {
    "slotproof_model": set(),
    "slotproof_engine": set(),
    "slotproof": {"slotproof_model", "slotproof_engine"},
}
"""Other packages that a package may import."""

FLOORS: Mapping[str, Sequence[str]] = {
    "slotproof_model": ("spec", "evaluation", "text", "bugs", "proofs", "exports", ""),
    "slotproof_engine": (
        *("kernels", "base", "memory", "requests", "kv", "models", "sessions", "scheduling"),
        *("assembly", "mutants", ""),
    ),
    "slotproof": (
        *("support", "protocol", "drivers", "environments", "engines", "lockstep", "traces"),
        *("reports", "search", "logs", "matrices", "spec_documents"),
        *("driver_checks", "cli", "plugin", ""),
    ),
}
"""Rooms (folders) of a package, from the ground up. A room imports only rooms below. "" stands for
the package itself and its modules outside rooms."""
ROOMS = 20
"""Limit per package."""

Graph = Mapping[str, set[str]]
"""Imports of each module or room: at the top, in functions, and for types only."""

_FOUND = grimp.build_graph(*PACKAGES, cache_dir=None)
IMPORTS: Graph = {name: _FOUND.find_modules_directly_imported_by(name) for name in _FOUND.modules}


def room_of(name: str) -> str:
    """Return the first folder on the way to a module, or "" for a module outside rooms."""
    room = ".".join(name.split(".")[:2])
    return room.partition(".")[2] if name != room or _FOUND.find_children(name) else ""


def rooms(package: str) -> dict[str, set[str]]:
    """Return the rooms of a package, with the rooms they import."""
    imported: dict[str, set[str]] = defaultdict(set)
    for name, others in IMPORTS.items():
        if name.split(".")[0] == package:
            inside = {room_of(other) for other in others if other.split(".")[0] == package}
            imported[room_of(name)] |= inside - {room_of(name)}
    return dict(imported)


def upward(graph: Graph, floors: Sequence[str]) -> list[str]:
    """Return the arrows that do not lead down, and the rooms without a floor."""
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


def test_no_module_imports_itself_by_way_of_others() -> None:
    """The package itself imports its rooms when a name of theirs is used."""
    order = TopologicalSorter({name: others - PACKAGES.keys() for name, others in IMPORTS.items()})
    assert len(list(order.static_order())) > 240  # 270 now; a circle raises an error


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
    """Imports in functions and for types count, so hiding an import passes no test."""
    assert "slotproof.engines.reference" in IMPORTS["slotproof.engines.registry"]
    assert "slotproof.logs.judging" in IMPORTS["slotproof"]


PROGRAMS = [p.parent.name for p in ROOT.glob("conformance/slotproof/drivers/*/ruff.toml")]
"""Folders of drivers/ with programs for an engine's environment, without slotproof."""


def test_drivers_import_nothing_of_slotproof() -> None:
    """A driver imports only its own package, and nothing imports it. Its record is slotproof's."""
    folders = [f"slotproof.drivers.{folder}" for folder in (*PROGRAMS, "examples")]
    assert len(folders) > 3
    records = {f"{folder}.family" for folder in folders}
    for name, others in IMPORTS.items():
        for folder in folders:
            inside = name.startswith(folder) and name not in records
            for other in others - records:
                assert inside == other.startswith(folder), (name, other)


def test_the_formatter_lays_everything_out_but_the_spec() -> None:
    """Formulas in model/ are aligned in columns."""
    folders = ("impl", "conformance", "bench", "docs")
    off = re.compile(r"#\s*fmt:\s*(skip|off)|#\s*yapf")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    wrong = [path for path in files if path != Path(__file__) and off.search(path.read_text())]
    assert len(files) > 200 and [path.relative_to(ROOT).as_posix() for path in wrong] == []


# Budgets -----------------------------------------------------------------------------------------

BUDGETS: Mapping[str, int] = tomllib.loads((ROOT / "budgets.toml").read_text())["lines"]


def lines_of(folder: str) -> int:
    """Return the lines of Python in a folder, without tests and folders with their own budget."""
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
"""Limit for the map."""
SUFFIXES = (".py", ".md", ".json", ".yml", ".toml", ".js")
NAMED = sorted(
    text
    for text in set(re.findall(r"`(\w[\w.-]*(?:/[\w.-]+)*/?)`", MAP))
    if ("/" in text or text.endswith(SUFFIXES)) and not text.startswith("build/")
)
"""Folders and files named as code in the map, except `build/`, which `make` writes."""


def test_the_map_is_short() -> None:
    assert len(MAP) <= CHARACTERS


def is_there(text: str) -> bool:
    """Return True for a path from the top or from a package, or for a unique file name."""
    tops = [ROOT, *(ROOT / folder for folder in PACKAGES.values())]
    tops += [ROOT / folder / name for name, folder in PACKAGES.items()]
    beside = [ROOT / folder for folder in (*PACKAGES.values(), "docs", "bench")]
    return any((top / text).exists() for top in tops) or (
        "/" not in text and any(path for top in beside for path in top.rglob(text))
    )


def test_what_the_map_names_is_there() -> None:
    assert len(NAMED) > 20 and [text for text in NAMED if not is_there(text)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_tells_the_floors(package: str) -> None:
    """The map has a row for each room, from the ground up, as a guide to imports."""
    told = re.findall(rf"^\| `{package}/(\w+)/` ", MAP, re.MULTILINE)
    assert told == [room for room in FLOORS[package] if room]
