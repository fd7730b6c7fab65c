"""The distributions of a release: built from the checkout, and installed in an empty environment.

pip needs a network. ``make test-all`` runs these tests.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from email import message_from_bytes
from pathlib import Path

import pytest

import slotproof
from tests.parts import not_ignored

pytestmark = [pytest.mark.quality, pytest.mark.slow]

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "conformance" / "tests" / "fuzz" / "corpus"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["sources"]
"""Folder in the wheel, by folder in the checkout."""
STAYS = ("ruff.toml",)
"""Files for the linter, left out of the wheel."""


def ran(argv: Sequence[object], cwd: Path, status: int = 0) -> str:
    """Run a program and return its output."""
    command = list(map(str, argv))
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{argv}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def tracked() -> list[Path]:
    """Return the files of the checkout: tracked by git, or new and not ignored."""
    return sorted(path.relative_to(ROOT) for path in not_ignored(ROOT) if path.is_file())


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the source distribution and the wheel built from it."""
    copy, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("dist")
    for path in tracked():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, copy / path)
    ran([sys.executable, "-m", "build", "--outdir", out, copy], copy)
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    venv.create(folder, with_pip=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet"]
    ran([*pip, "--constraint", ROOT / "constraints.txt", wheel], folder)
    return folder / "bin"


def test_the_wheel_has_what_it_must_and_nothing_else(wheel: Path) -> None:
    """Every file of the packages, no test, and the licence."""
    wanted = {
        "/".join((name, path.relative_to(folder).as_posix()))
        for folder, name in PACKAGES.items()
        for path in tracked()
        if path.is_relative_to(folder) and path.name not in STAYS
    }
    assert len(wanted) > 300
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == wanted


def test_what_an_index_shows_stands_alone(wheel: Path) -> None:
    """Classifiers, a licence, a description without links into the repository."""
    with zipfile.ZipFile(wheel) as file:
        (name,) = (member for member in file.namelist() if member.endswith("/METADATA"))
        said = message_from_bytes(file.read(name))
        assert any(member.endswith("/licenses/LICENSE") for member in file.namelist())
    assert said["Version"] == slotproof.__version__
    assert len(said.get_all("Classifier", [])) > 5
    text = (ROOT / "conformance" / "README.md").read_text()
    assert str(said.get_payload()).strip() == text.strip()


def test_the_source_distribution_has_what_it_takes_to_build(built: Path) -> None:
    """It builds the wheel and has no tests."""
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert {
        "pyproject.toml",
        "LICENSE",
        "conformance/README.md",
        "model/slotproof_model/spec/transitions.py",
    } <= names
    assert [name for name in names if "tests/" in name] == []


def test_it_is_installed_without_torch(installed: Path, tmp_path: Path) -> None:
    """From an empty folder: the import, the public names, and commands without an engine."""
    code = """
import importlib.util, json, sys
import slotproof
quick = [name for name in ("torch", "z3", "hypothesis") if name in sys.modules]
there = [name for name in ("torch", "numpy") if importlib.util.find_spec(name)]
names = [name for name in slotproof.__all__ if getattr(slotproof, name) is None]
print(json.dumps([slotproof.__version__, quick, there, names]))
"""
    said = ran([installed / "python", "-c", code], tmp_path)
    assert json.loads(said) == [slotproof.__version__, [], [], []]
    command = installed / "slotproof"
    assert "22213-double-count" in ran([command, "list", "mutants"], tmp_path)
    log = CORPUS / "logs" / "two-turns.jsonl"
    assert "conforms" in ran([command, "validate", log], tmp_path)
    trace = ROOT / "docs" / "findings" / "sglang-0.5.23-two-first-turns.itf.json"
    assert "<!doctype html>" in ran([command, "show", "--format", "html", trace], tmp_path).lower()
    alone = ran([command, "show", "--format", "script", trace], tmp_path)
    assert "class Engine:" in alone and alone.endswith("\nmain(finding, judged=False)\n")
    missing = ran([command, "run", "--engine", "reference"], tmp_path, status=2)
    assert "pip install 'slotproof[reference]'" in missing
    toy = ROOT / "conformance" / "slotproof" / "drivers" / "examples" / "toy.py"
    small = ["--config", "p1", "--examples", "6", "--out", tmp_path / "traces"]
    engine = f"cmd:{installed / 'python'} {toy} --bug"
    assert "counterexample" in ran([command, "run", "--engine", engine, *small], tmp_path, 1)


def test_it_has_types(installed: Path, tmp_path: Path) -> None:
    """A type checker follows imports from the package."""
    file = tmp_path / "mine.py"
    file.write_text("from slotproof import run\nreveal_type(run(examples=1).trace)\n")
    argv = [sys.executable, "-m", "mypy", "--python-executable", installed / "python", file]
    assert "slotproof.reports.trace.Trace | None" in ran(argv, tmp_path)
