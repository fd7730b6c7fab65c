"""One record per engine family: no statement outside the drivers' folders names a family."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slotproof.engines.methods import methods_of, newest
from slotproof.environments.families import FAMILIES
from slotproof.protocol.commands import ALWAYS, FIELDS
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.family import Family
from slotproof_model.spec.profiles import PROFILES

ROOT = Path(__file__).parents[3]
DRIVERS = "conformance/slotproof/drivers"
FOLDERS = ("conformance/slotproof", "impl/slotproof_engine", "model/slotproof_model")
NAMES = re.compile("|".join(FAMILIES), re.IGNORECASE)
Words = Iterator[tuple[ast.AST, str]]


def words(tree: ast.AST) -> Words:
    """Yield strings and names outside docstrings, each with its node."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and id(node) not in docstrings:
                yield node, node.value
            continue
        for field in ("id", "name", "asname", "attr", "arg", "module"):
            if isinstance(word := getattr(node, field, None), str):
                yield node, word


def helps(tree: ast.AST) -> Words:
    """Yield help texts of the command line and of the plugin."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "help":
            yield from words(node.value)


def origins(tree: ast.AST) -> Words:
    """Yield the origin of each mutant: the second argument of ``Mutant(…)``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Mutant":
            yield from words(node.args[1])


def profiles(tree: ast.AST) -> Words:
    """Yield names and sentences of profiles, and the configuration named after one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in (*PROFILES, "p4-vllm"):
            yield from words(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Profile":
            yield from words(node.args[1])


Allowed = Callable[[ast.AST], Words]
EXCEPTIONS: dict[str, Allowed] = {
    "conformance/slotproof/environments/families.py": words,  # the list of families
    "conformance/slotproof/cli/epilogs.py": words,  # examples, as typed
    "conformance/slotproof/plugin/hooks.py": helps,
    "conformance/slotproof/protocol/config.py": profiles,
    "model/slotproof_model/spec/profiles.py": profiles,
    "impl/slotproof_engine/mutants/": origins,
}
"""Statements allowed to name a family, by the beginning of a path."""


def naming(path: str, text: str) -> list[str]:
    """Return the statements of a file that name a family without permission."""
    tree = ast.parse(text)
    may = {
        id(node)
        for beginning, allowed in EXCEPTIONS.items()
        if path.startswith(beginning)
        for node, _ in allowed(tree)
    }
    return [
        f"{path}:{getattr(node, 'lineno', 0)}: {word}"
        for node, word in words(tree)
        if NAMES.search(word) and id(node) not in may
    ]


def sources() -> dict[str, str]:
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    names = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {name: path.read_text() for name, path in names.items() if not in_a_driver(name)}


def in_a_driver(path: str) -> bool:
    return path.startswith(tuple(f"{DRIVERS}/{name}/" for name in (*FAMILIES, "common")))


def test_no_statement_names_a_family() -> None:
    texts = sources()
    assert len(texts) > 240  # 279 now: a missing folder would lower the count
    assert [line for path, text in texts.items() for line in naming(path, text)] == []


def test_no_module_is_called_after_a_family() -> None:
    assert [path for path in sources() if NAMES.search(path)] == []


@pytest.mark.parametrize(
    "line",
    [
        'if name == "sglang": pass',
        'x = f"{y} of vLLM"',
        "from a import SGLANG",
        "import a.vllm",
        "class OfVLLM: pass",
        "def sglang_call(): pass",
        "x.vllm = 1",
        "f(vllm=1)",
        "def f(sglang): pass",
        'f(help="all", text="vllm")',
        'Mutant("vllm", "a plain fault")',
    ],
)
def test_a_name_that_sneaks_in_is_found(line: str) -> None:
    """The check covers all files, even if their help texts or mutant origins may name a family."""
    some = [path for path, allowed in EXCEPTIONS.items() if allowed in (helps, origins)]
    for path in ("conformance/slotproof/reports/x.py", *some):
        assert naming(path, f'"""Of SGLang."""\n{line}  # vLLM\n'), path
        assert not naming(path, '"""Of SGLang."""\npass  # vLLM\n')


@pytest.mark.parametrize("path", EXCEPTIONS)
def test_every_exception_is_needed(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {name: text for name, text in sources().items() if name.startswith(path)}
    monkeypatch.delitem(EXCEPTIONS, path)
    assert any(naming(name, text) for name, text in texts.items())


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_record_is_complete(family: Family) -> None:
    """The record's files exist, and its words are names of commands."""
    folder, harness = family.driver.parent, family.harness
    assert folder.relative_to(ROOT).as_posix() == f"{DRIVERS}/{family.name}"
    assert family.title.lower() == family.name == family.repository.partition("/")[2]
    assert set(family.profiles) <= PROFILES.keys() and family.profiles
    assert family.recipe.requirements and family.recipe.pythons
    assert methods_of(f"{family.name} {family.example}") and newest(family.name)
    assert harness is not None and all(path.is_file() for path in harness.parts)
    assert set(harness.arguments.values()) <= set(dir(EngineConfig()))
    assert {*ALWAYS, "max_new"} - {"tick"} <= harness.words.keys() <= {*FIELDS, "max_new"}


@pytest.mark.parametrize("program", ["", "__main__.py"])
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_a_driver_starts_where_nothing_is_installed(
    family: Family, program: str, tmp_path: Path
) -> None:
    """A driver needs only the standard library and the drivers' common files."""
    lines = '{"op": "hello", "protocol": 1, "id": 1}\n{"op": "bye", "id": 2}\n'
    argv = [sys.executable, "-S", str(family.driver.parent / program)]
    done = subprocess.run(
        argv, check=True, input=lines, capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    hello, bye = map(json.loads, done.stdout.splitlines())
    assert hello["error"] == "protocol 1 is unknown, expected 2" and bye["ok"], done.stderr
