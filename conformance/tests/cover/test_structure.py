"""How the source is laid out: imports go one way, size has a ceiling, the map is true."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = {"slotproof_model": "model", "slotproof_engine": "impl", "slotproof": "conformance"}
"""By package, the folder that holds it and its tests."""
MAY_IMPORT = {
    "slotproof_model": {"slotproof_model"},
    "slotproof_engine": {"slotproof_engine"},
    "slotproof": {"slotproof_model", "slotproof_engine", "slotproof"},
}
"""By package, those it may import."""

STACK = (
    "",
    "protocol",
    "environments",
    "engines",
    "lockstep",
    "traces",
    "search",
    "campaigns",
    "logs",
    "frontend",
    "matrices",
    "spec_documents",
    "driver_checks",
    "cli",
    "plugin",
    "drivers",
    "__init__.py",
)
"""Folders of slotproof, each of which imports only those before it; "" are the modules beside
them, and `__init__.py` is what `from slotproof import …` offers."""

ENGINE_SIDE = ("drivers/common", "drivers/sglang", "drivers/vllm", "drivers/examples")
"""Run where the engine is installed, and slotproof is not."""

LINES = 30_600
"""Of Python in conformance/ at most, without tests and drivers (issue 13, "done" 1: 13,000; issue
14: logs that grow, in several files; rounds; 15: what a check counts and logs, the table of all
clauses; 16: prompts that branch, what clients meet, what drivers misread, what terms come to;
17: a gate, causes, JUnit and SARIF; mutants that are known without torch, methods of a release,
where it crashed; 18: what clients are owed where turns are queued, and a session ends with one;
environments of two families on one base; slack that stays; 19: guided search, campaigns, mends;
20: a front end under clients; 21: progress as a command, obligations as files; 22: scenarios for
Python, a log's page, reports for maintainers; names and groups of options, a sentence for each
clause)."""
CHARACTERS = 10_000
"""Of ARCHITECTURE.md at most (issue 13, "done" 2)."""


def sources(package: str) -> list[Path]:
    """Python files of a package."""
    folder = ROOT / PACKAGES[package] / package
    return sorted(path.relative_to(ROOT) for path in folder.rglob("*.py"))


def name_of(path: Path) -> str:
    """The name that a file is imported by."""
    parts = path.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for package in PACKAGES for path in sources(package)}


def imported(path: Path, text: str) -> Iterator[str]:
    """Our modules that a file's text imports, anywhere: on top, in functions, for types only."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom):
            above = name_of(path.parents[node.level - 1]) if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            for alias in node.names:  # a module of its own, or a name in one
                found = (name for name in (f"{base}.{alias.name}", base) if name in MODULES)
                yield from list(found)[:1]


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """One way round, if there is any."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """By module, those it imports."""
    return {
        name: set(imported(path, (ROOT / path).read_text())) - {name}
        for name, path in MODULES.items()
    }


def test_every_kind_of_import_counts() -> None:
    """Else the tests below could be passed by hiding one."""
    path = Path("conformance/slotproof/lockstep/referee.py")
    text = """
import slotproof_model.evaluation.world as w
from slotproof import bounds
from slotproof.protocol.commands import Command
from . import client
from ..protocol.config import CONFIGS
if TYPE_CHECKING:
    from slotproof_model import expr
def function():
    from slotproof_engine import build
"""
    assert sorted(imported(path, text)) == [
        "slotproof.support.bounds",
        "slotproof.lockstep.client",
        "slotproof.protocol.commands",
        "slotproof.protocol.config",
        "slotproof_engine",
        "slotproof_model.spec.expr",
        "slotproof_model.evaluation.world",
    ]
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_no_module_imports_itself_by_way_of_others(graph: dict[str, set[str]]) -> None:
    assert " imports ".join(reversed(circle(graph))) == ""


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_one_way(package: str, graph: dict[str, set[str]]) -> None:
    """The spec knows nobody, the reference engine nothing of the spec."""
    wrong = [
        f"{name} imports {other}"
        for name, others in graph.items()
        for other in others
        if MODULES[name].parts[1] == package and MODULES[other].parts[1] not in MAY_IMPORT[package]
    ]
    assert "\n".join(wrong) == ""


def place(name: str) -> int:
    """Where in the stack the folder of a module of conformance/ is."""
    parts = MODULES[name].parts[2:]
    return STACK.index(parts[0] if len(parts) > 1 or name == "slotproof" else "")


def test_folders_import_downwards(graph: dict[str, set[str]]) -> None:
    """A folder of conformance/ imports those below it, and nothing from above."""
    ours = {name for name, path in MODULES.items() if path.parts[1] == "slotproof"}
    wrong = [
        f"{name} imports {other}"
        for name in sorted(ours)
        for other in sorted(graph[name] & ours)
        if place(other) > place(name)
    ]
    assert "\n".join(wrong) == ""


def test_drivers_import_nothing_of_slotproof(graph: dict[str, set[str]]) -> None:
    """But their own package; and nobody imports them."""
    for name, others in graph.items():
        for folder in ENGINE_SIDE:
            inside = f"conformance/slotproof/{folder}/"
            mine = MODULES[name].as_posix().startswith(inside)
            for other in others:
                assert mine == MODULES[other].as_posix().startswith(inside), (name, other)


def test_the_size_of_conformance() -> None:
    """To do more takes no more room for ever: who lowers the figure lowers the constant."""
    files = [path for path in sources("slotproof") if "drivers" not in path.parts]
    lines = sum(len((ROOT / path).read_text().splitlines()) for path in files)
    assert len(files) > 50 and lines <= LINES


def test_the_formatter_lays_everything_out_but_the_spec() -> None:
    """model/ has formulas that are read in columns (issue 13, "done" 1)."""
    folders = ("impl", "conformance", "bench", "docs")
    off = re.compile(r"#\s*fmt:\s*(skip|off)|#\s*yapf")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    wrong = [path for path in files if path != Path(__file__) and off.search(path.read_text())]
    assert len(files) > 200 and [path.relative_to(ROOT).as_posix() for path in wrong] == []


# ARCHITECTURE.md ---------------------------------------------------------------------------------

MAP = (ROOT / "ARCHITECTURE.md").read_text()
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


def test_the_map_tells_the_order() -> None:
    """A reader looks there for what may import what."""
    told = re.findall(
        r"^\| `slotproof/(\w+)/` ", MAP[: MAP.index("## Files to know")], re.MULTILINE
    )
    assert told == list(STACK[1:-1])


def test_what_the_map_names_is_there() -> None:
    assert len(NAMED) > 20
    assert [text for text in NAMED if not is_there(text)] == []


def test_every_folder_is_on_the_map() -> None:
    """The packages and the folders in them."""
    paths = [path.parent for path in MODULES.values() if len(path.parts) < 5]
    folders = {"/".join(path.parts[1:]) + "/" for path in paths}
    assert len(folders) > 10
    assert [folder for folder in sorted(folders) if folder not in MAP] == []
