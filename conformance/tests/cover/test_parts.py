"""`make test-all` leaves nothing out, and `make test-changed` nothing that changed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import parts, selecting
from tests.parts import PARTS, ROOT, Part, changed
from tests.selecting import together

pytest_plugins = ["pytester"]

MORE = {
    *("spec", "cvc5", "tlc", "mutants", "systematic", "interrupts", "kills", "wheel", "fuzz"),
    *("sglang", "vllm"),
}
"""Parts that `make test` skips or runs only in small part."""


def test_every_test_is_in_a_part() -> None:
    """For fuzzing, both the tests and the numbered inputs."""
    asked = [ROOT / word for part in PARTS.values() for word in part.argv if "tests" in word]
    folders = [path for path in asked if "/" in path.name or path.exists()]
    tests = [
        path
        for package in ("model", "impl", "conformance")
        for path in (ROOT / package / "tests").rglob("test_*.py")
    ]
    assert len(tests) > 60
    assert [path for path in tests if not {path, *path.parents} & set(folders)] == []
    assert {name for name, part in PARTS.items() if part.inputs} == MORE
    assert {name for name, part in PARTS.items() if not part.on_ci} == {"cvc5", "tlc"}


@pytest.mark.parametrize("name", sorted(MORE))
def test_inputs_of_a_part_are_there(name: str) -> None:
    """A moved file must not drop out of the inputs unnoticed."""
    for pattern in PARTS[name].inputs:
        assert list(Part((), inputs=(pattern,)).files()), pattern
    files = set(PARTS[name].files())
    words = [ROOT / word for word in PARTS[name].argv if "/tests" in word]
    tests = [file for path in words for file in (path.glob("*.py") if path.is_dir() else [path])]
    assert files >= set(tests)


def test_a_fingerprint_is_of_names_and_contents(tmp_path: Path) -> None:
    part = Part((), inputs=("a", "*.txt"))
    subprocess.run(("git", "init", "--quiet"), cwd=tmp_path, check=True)
    (tmp_path / ".gitignore").write_text("cache/\n")
    (tmp_path / "a" / "cache").mkdir(parents=True)
    seen = {part.fingerprint(tmp_path)}
    for name, text in (
        ("a/b.py", "1"),
        ("a/c.py", "1"),
        ("a/b.py", "2"),
        ("d.txt", ""),
        ("constraints.txt", "torch"),
    ):
        (tmp_path / name).write_text(text)
        seen.add(part.fingerprint(tmp_path))
    assert len(seen) == 6
    (tmp_path / "a" / "cache" / "b").write_text("x")
    (tmp_path / "a.py").write_text("of nobody")
    assert part.fingerprint(tmp_path) in seen


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of passed parts, with three parts defined. One of the parts fails."""
    monkeypatch.setattr(parts, "PASSED", tmp_path / "passed.json")
    code = "import os, sys; sys.exit(os.environ.get('HOW_MANY') == '13')"
    run = (sys.executable, "-c", code)
    some = ("constraints.txt",)
    known = {
        "good": Part(run, {"HOW_MANY": "2"}, some),
        "bad": Part(run, {"HOW_MANY": "13"}, some),
        "whole": Part(run),
    }
    monkeypatch.setattr(parts, "PARTS", known)
    return tmp_path / "passed.json"


def test_only_what_passed_whole_is_left_out_next_time(
    small: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["parts"])
    monkeypatch.setenv("HOW_MANY", "1")
    assert parts.main() == 0, "fewer than 13"
    assert not small.exists(), "and so nothing is known of all of them"
    monkeypatch.delenv("HOW_MANY")
    assert changed(["good", "bad", "whole"]) == ["good", "bad"]
    assert parts.main() == 1
    said = capfd.readouterr().out
    assert said.count("0.0 min") == 6 and said.count("FAILED") == 1
    assert list(json.loads(small.read_text())) == ["good"]
    assert changed(["good", "bad", "whole"]) == ["bad"]
    monkeypatch.setattr(sys, "argv", ["parts", "--changed", "--without", "bad"])
    assert parts.main() == 0
    assert capfd.readouterr().out == "bad         NOT run\n"


# The plugin ------------------------------------------------------------------------------


def test_what_starts_the_same_goes_to_one_worker() -> None:
    """A build by its release, whichever way the release is written in the name of the test."""
    tests = "conformance/tests"
    for name in ("[0.5.10.post1]", "[double-count-0.5.10.post1]", "[sglang-0.5.10.post1-x.itf]"):
        assert together(f"{tests}/sglang/test_a.py::test_it{name}") == "sglang 0.5.10.post1"
    for alone in (f"{tests}/sglang/test_a.py::test_it", f"{tests}/cover/test_a.py::test_it[0.5.1]"):
        assert together(alone) == alone
    sites = [f"{tests}/{folder}/test_site.py::test_it[x]" for folder in ("cover", "browser")]
    assert len({together(site) for site in sites}) == 1


MARKED = """
import pytest

def test_plain(): pass

@pytest.mark.slow
def test_long(): pass
"""


def test_what_takes_long_comes_first(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmarkers =\n  slow: x\n")
    pytester.makepyfile(MARKED)
    done = pytester.runpytest("-p", selecting.__name__, "-p", "no:cacheprovider", "-v")
    done.assert_outcomes(passed=2)
    ran = [line.split()[0] for line in done.outlines if " PASSED" in line]
    assert ran[0].endswith("::test_long")
