"""The methods in which two packages differ."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotproof.engines.differences import MOST, differing

SOURCE = """\
import os

def alone():
    return 1

class Slot:
    size = 1

    @property
    def row(self):
        return self._row

    async def save(self):
        def inner():
            return 2
        return inner
"""
FILE = "e/mem/slot.py"


def packages(folder: Path, new: str | None, old: str | None = SOURCE) -> tuple[Path, Path]:
    made = (folder / "old" / "e", folder / "new" / "e")
    for package, text in zip(made, (old, new), strict=True):
        (package / "mem").mkdir(parents=True)
        (package / "same.py").write_text("x = 1\n")
        (package / "kernel.so").write_text(package.parent.name)
        if text is not None:
            (package / "mem" / "slot.py").write_text(text)
    return made


@pytest.mark.parametrize(
    ("old", "new", "methods"),
    [
        ("return 1", "return 2", [f"alone in {FILE}"]),
        ("@property", "@cached_property", [f"Slot.row in {FILE}"]),
        ("            return 2\n", "", [f"Slot.save in {FILE}"]),
        ("_row", "_row\n\n    def more(self):\n        return 1", [f"Slot.more in {FILE}", FILE]),
        ("size = 1", "size = 2", [FILE]),
        ("import os", "import (", [FILE]),
        ("self", "this", [f"Slot.row in {FILE}", f"Slot.save in {FILE}"]),
    ],
)
def test_a_change_is_named_by_its_method(
    old: str, new: str, methods: list[str], tmp_path: Path
) -> None:
    assert sorted(differing(*packages(tmp_path, SOURCE.replace(old, new)))) == sorted(methods)


def test_packages_that_are_the_same_differ_in_nothing(tmp_path: Path) -> None:
    assert differing(*packages(tmp_path, SOURCE)) == []


@pytest.mark.parametrize(("old", "new"), [(SOURCE, None), (None, SOURCE)])
def test_a_file_that_one_has_differs(old: str | None, new: str | None, tmp_path: Path) -> None:
    assert f"Slot.row in {FILE}" in differing(*packages(tmp_path, new, old))


def test_too_many_files_have_no_names(tmp_path: Path) -> None:
    old, new = packages(tmp_path, SOURCE)
    for number in range(MOST):
        (new / f"{number}.py").write_text("x = 1\n")
    assert len(differing(old, new)) == MOST
    (new / "one_more.py").write_text("x = 1\n")
    assert differing(old, new) == []
