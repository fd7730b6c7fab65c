"""All but the reference engine works without torch and numpy."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

import slotproof
import slotproof_model
from slotproof.cli.list import Things
from slotproof.cli.show import Format
from slotproof.engines import mutants
from slotproof.engines.base import EngineUnusable
from slotproof.engines.registry import torch_missing

ROOT = Path(__file__).parents[3]
TOY = f"cmd:{sys.executable} {ROOT}/conformance/slotproof/drivers/examples/toy.py"
UPSTREAM = (Format.ISSUE, Format.SCRIPT)
"""Forms that a toy does not have."""
CORPUS = ROOT / "conformance" / "tests" / "fuzz" / "corpus"
PLUGIN = "slotproof.plugin.hooks"
INSTALLED = any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))
LOADED = () if INSTALLED else ("-p", PLUGIN)
NEED_IT = {"slotproof.engines.reference"}
"""Modules that run the reference engine."""
MISSING = "slotproof: the reference engine needs torch: pip install 'slotproof[reference]'"


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """Return an environment without torch and numpy, for this process and its children."""
    for name in ("torch", "numpy"):
        (tmp_path / "missing" / name).mkdir(parents=True)
        text = f'raise ModuleNotFoundError("No module named {name!r}", name="{name}")\n'
        (tmp_path / "missing" / name / "__init__.py").write_text(text)
    return {**os.environ, "PYTHONPATH": str(tmp_path / "missing")}


def python(code: str, *argv: str, env: dict[str, str], cwd: Path = ROOT) -> tuple[Any, str]:
    """Return the last line of a program's output, parsed as JSON, and its standard error."""
    done = subprocess.run(
        [sys.executable, "-c", code, *argv],
        capture_output=True,
        text=True,
        check=True,
        env=env,
        cwd=cwd,
    )
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_who_runs_no_reference_engine_imports_no_torch(bare: dict[str, str]) -> None:
    packages = (slotproof_model, slotproof)
    names = [
        info.name
        for package in packages
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
        if not any(part in info.name for part in (".tests", ".drivers.sglang", ".drivers.examples"))
    ]
    assert len(names) > 150
    code = """
import importlib, json, sys
failed = []
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        assert error.name in ("torch", "numpy"), error
        failed.append(name)
print(json.dumps(failed))
"""
    failed, _ = python(code, *names, env=bare)
    assert set(failed) == NEED_IT


STATUSES = """
import json, sys
from slotproof.cli.app import status
found = [status(argv) for argv in json.loads(sys.argv[1])]
print()
print(json.dumps(found))
"""


def statuses(lines: Sequence[Sequence[str]], env: dict[str, str], cwd: Path) -> tuple[Any, str]:
    """Return the exit status of each command line, and all of standard error."""
    return python(STATUSES, json.dumps(lines), env=env, cwd=cwd)


@pytest.mark.slow
def test_commands_work_without_torch(bare: dict[str, str], tmp_path: Path) -> None:
    bug, out = f"{TOY} --bug", ["--out", str(tmp_path / "out")]
    small = ["--config", "p1", "--examples", "6"]
    assert statuses([["run", "--engine", bug, *small, *out]], bare, tmp_path)[0] == [1]
    (trace,) = map(str, (tmp_path / "out").glob("*.itf.json"))
    wanted = [
        (["run", "--engine", bug, *small, "--all", "--jobs", "2", *out], 1),
        (["replay", trace, "--engine", bug], 1),
        (["replay", trace, "--engine", TOY], 0),
        *((["show", trace, "--format", form], 2 if form in UPSTREAM else 0) for form in Format),
        (["show", trace, "--json"], 0),
        (["show", "--all", trace, *out], 0),
        (["replay", trace, "--engine", bug, "--against", TOY], 1),
        (["validate", str(CORPUS / "logs" / "two-turns.jsonl")], 0),
        (["check-driver", TOY], 0),
        (["prove", "--transition", "T-OPEN"], 0),
        (["matrix", f"new={bug}", *small, *out], 1),
        (["docs", "--check", "--out", str(ROOT / "docs" / "reference" / "spec")], 0),
        *((["list", what], 0) for what in Things),
        (["env", "list"], 0),
    ]
    got, said = statuses([argv for argv, _ in wanted], bare, tmp_path)
    both = zip(wanted, got, strict=True)
    assert [argv for (argv, status), seen in both if status != seen] == [], said
    assert "torch" not in said


@pytest.mark.slow
def test_who_asks_for_the_reference_engine_is_told_what_to_install(
    bare: dict[str, str], tmp_path: Path
) -> None:
    lines = [
        ["run", "--engine", "reference"],
        ["run", "--engine", "reference-transformer:leak-full@cuda"],
        ["replay", str(CORPUS / "traces" / "two-turns.itf.json")],
        ["check-driver", "reference"],
    ]
    codes, said = statuses(lines, bare, tmp_path)
    assert codes == [2] * len(lines)
    assert said.splitlines()[0] == MISSING
    assert said.count("slotproof[reference]") == len(said.splitlines()) == len(lines), said


@pytest.mark.slow
def test_the_plugin_works_without_torch(bare: dict[str, str], tmp_path: Path) -> None:
    argv = ["--pyargs", "slotproof", "-p", "no:cacheprovider", *LOADED]
    argv += ["--slotproof-config=p1", "--slotproof-examples=10"]
    for engine, status, words in ((TOY, 0, "1 passed"), ("reference", 4, MISSING)):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *argv, f"--slotproof-engine={engine}"],
            capture_output=True,
            text=True,
            check=False,
            env=bare,
            cwd=tmp_path,
        )
        assert done.returncode == status, done.stdout + done.stderr
        shown = done.stdout + done.stderr.replace("ERROR: ", "slotproof: ")
        assert words in shown.replace("\n", " ") or words in shown


def test_another_module_that_is_missing_is_a_bug() -> None:
    """A bug of slotproof: the message does not suggest to install torch."""
    other = ModuleNotFoundError("No module named 'typer'", name="typer")
    assert torch_missing(other) is other
    assert isinstance(torch_missing(ModuleNotFoundError(name="torch")), EngineUnusable)


def test_mutants_are_known_as_they_are() -> None:
    """`python -m slotproof.engines.mutants` writes the file anew."""
    assert mutants.FILE.read_text(encoding="utf-8") == mutants.made()


def test_torch_comes_with_the_reference_engine_alone() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    heavy = [line for line in project["dependencies"] if line.startswith(("torch", "numpy"))]
    assert heavy == []
    assert [line.partition(">")[0] for line in extras["reference"]] == ["torch", "numpy"]
    assert [line.partition(">")[0] for line in extras["pytest"]] == ["pytest", "pytest-xdist"]
