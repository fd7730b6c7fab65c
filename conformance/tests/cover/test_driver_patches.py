"""Patches: known bugs of a build, repaired in the driver's process."""

from __future__ import annotations

import importlib
import linecache
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from slotproof_driver import patches
from slotproof_driver.usage import UsageError

from slotproof.cli.app import status
from slotproof.engines.base import EngineUnusable
from slotproof.engines.registry import EngineSpec
from slotproof.environments.families import FAMILIES
from slotproof.reports import scripted
from slotproof.reports.trace import load_trace
from slotproof.traces import itf

FINDINGS = Path(__file__).parents[3] / "docs" / "findings"
TRACE = FINDINGS / "sglang-0.5.23-stub-clears-inflight.itf.json"
CODE = """\
def first():
    count = 1
    return count


def second():
    count = 1
    return count
"""
DIFF = """\
The first counts two.

--- a/toy_build/inner/code.py
+++ b/toy_build/inner/code.py
@@ -1,3 +1,3 @@
 def first():
-    count = 1
+    count = 2
     return count
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder with the patches of ``toy_build``, a build with one module."""
    inner = tmp_path / "site" / "toy_build" / "inner"
    inner.mkdir(parents=True)
    for package in (inner, inner.parent):
        (package / "__init__.py").write_text("")
    (inner / "code.py").write_text(CODE)
    folder = tmp_path / "patches"
    folder.mkdir()
    (folder / "first-counts.diff").write_text(DIFF)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.syspath_prepend(tmp_path / "site")
    for name in ("toy_build", "toy_build.inner", "toy_build.inner.code"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    importlib.invalidate_caches()
    return folder


def test_a_patch_changes_what_is_imported_and_no_file(toy: Path) -> None:
    assert patches.apply(["first-counts"], toy, "toy_build") == ["first-counts"]
    code = importlib.import_module("toy_build.inner.code")
    assert (code.first(), code.second()) == (2, 1)
    assert linecache.getline(str(code.__file__), 2) == "    count = 2\n"  # as a traceback shows it
    assert (toy.parent / "site" / "toy_build" / "inner" / "code.py").read_text() == CODE


def test_without_patches_nothing_is_put_in_place(toy: Path) -> None:
    before = [*sys.meta_path]
    assert patches.apply([], toy, "toy_build") == [] and sys.meta_path == before


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (" def first():\n", "", "toy_build/inner/code.py has the patched text 2 times"),
        (
            " def first():\n",
            " def third():\n",
            "toy_build/inner/code.py has the patched text 0 times",
        ),
        ("inner/code.py", "inner/gone.py", "toy_build/inner/gone.py does not exist"),
    ],
)
def test_a_patch_that_does_not_fit_is_one_line_or_left_out(
    toy: Path, old: str, new: str, why: str
) -> None:
    (toy / "other.diff").write_text(DIFF.replace(old, new))
    with pytest.raises(UsageError, match=f"^the patch 'other' does not fit this build: {why}$"):
        patches.apply(["other"], toy, "toy_build")
    (toy / "first-counts.diff").unlink()
    assert patches.apply(["all"], toy, "toy_build") == []


def test_a_patch_that_fits_in_part_changes_nothing(toy: Path) -> None:
    hunk = DIFF.partition("@@")[2].replace("first", "nowhere")
    (toy / "first-counts.diff").write_text(f"{DIFF}@@{hunk}")
    assert patches.apply(["all"], toy, "toy_build") == []
    assert importlib.import_module("toy_build.inner.code").first() == 1


def test_of_several_layouts_the_one_that_fits_is_taken(toy: Path) -> None:
    (toy / "first-counts.diff").rename(toy / "first-counts.new.diff")
    (toy / "first-counts.gone.diff").write_text(DIFF.replace("first", "nowhere"))
    assert patches.apply(["first-counts"], toy, "toy_build") == ["first-counts"]


def test_a_patch_that_does_not_exist_is_one_line(toy: Path) -> None:
    with pytest.raises(UsageError, match=r"^there is no patch 'x'; there are: first-counts$"):
        patches.apply(["x"], toy, "toy_build")


def test_an_engine_without_patches_is_one_line() -> None:
    with pytest.raises(
        EngineUnusable, match=r"^--patch is for sglang and vllm; there are no patches for ref"
    ):
        EngineSpec("reference", patches=("all",)).open()


@pytest.mark.parametrize(
    ("build", "name"),
    [("sglang==0.5.23", "x"), ("vllm==0.33.0", "x"), ("vllm==0.33.0", "queued-abort")],
)
def test_a_name_that_no_patch_of_the_family_has_is_one_line(build: str, name: str) -> None:
    words = f"^there is no patch '{name}'; `slotproof list patches` shows them$"
    with pytest.raises(EngineUnusable, match=words):
        EngineSpec(build, patches=(name,)).open()


def test_no_patch_is_for_another_family(cli: Any) -> None:
    assert "--patch is for sglang and vllm; there are no patches for reference" in cli.wrong(
        ["run", "--engine", "reference", "--patch", "all", "--examples", "1"]
    )


def test_the_command_that_starts_it_again_has_the_patches() -> None:
    spec = EngineSpec("sglang==0.5.23", patches=("queued-abort", "refused-token"))
    assert spec.options == "--patch queued-abort --patch refused-token"
    assert spec.stem != EngineSpec("sglang==0.5.23").stem


def test_a_trace_says_with_which_patches_it_was_found(tmp_path: Path) -> None:
    old = load_trace(TRACE)
    assert old.patches == ()
    itf.save(replace(old, patches=("queued-abort",)), tmp_path / "t.itf.json")
    new = load_trace(tmp_path / "t.itf.json")
    assert new.patches == ("queued-abort",)
    assert 'patches=["queued-abort"]' in scripted.render(new)
    text = (tmp_path / "t.itf.json").read_text()
    (tmp_path / "t.itf.json").write_text(text.replace('"queued-abort"', '"--start-timeout"'))
    with pytest.raises(itf.BadTrace, match="patches"):
        load_trace(tmp_path / "t.itf.json")


def test_a_trace_found_check_patches_plays_on_an_engine_that_has_none(
    tmp_path: Path, cli: Any
) -> None:
    path = tmp_path / "t.itf.json"
    itf.save(replace(load_trace(TRACE), patches=("queued-abort",)), path)
    assert "patched" not in cli(["replay", str(path), "--engine", "reference"])


def test_every_patch_is_listed_and_named_by_its_page(capfd: pytest.CaptureFixture[str]) -> None:
    assert status(["list", "patches"]) == 0
    listed = [line.split()[0] for line in capfd.readouterr().out.splitlines()]
    folders = [family.driver.with_name("patches") for family in FAMILIES.values()]
    assert listed == [name for folder in folders for name in patches.names(folder)]
    assert len(set(listed)) == len(listed)  # the name of a patch includes its engine
    assert listed == [name for family in FAMILIES.values() for name in family.patches]
    for path in [path for folder in folders for path in sorted(folder.glob("*.diff"))]:
        page = FINDINGS / f"{path.name.partition('.')[0]}.md"
        assert f"--patch {page.stem}`" in page.read_text("utf-8"), page
        words = path.read_text("utf-8").partition("--- a/")[0]
        assert re.fullmatch(r"[A-Z][^\n]+\.\n\n(.+\n\n)?", words, re.DOTALL), path
        assert patches.hunks(path.read_text("utf-8"))
