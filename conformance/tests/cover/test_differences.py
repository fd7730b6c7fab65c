"""The only method that differs between two packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotproof.engines.methods import changed_method

SOURCE = """\
import os

if os.name == "posix":
    def here():
        return 0

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

    class Row:
        def free(self):
            return 3
"""
FILE = "e/mem/slot.py"


def packages(folder: Path, new: str) -> tuple[Path, Path]:
    made = (folder / "old" / "e", folder / "new" / "e")
    for package, text in zip(made, (SOURCE, new), strict=True):
        (package / "mem").mkdir(parents=True)
        (package / "same.py").write_text("x = 1\n")
        (package / "kernel.so").write_text(package.parent.name)
        (package / "mem" / "slot.py").write_text(text)
    return made


@pytest.mark.parametrize(
    ("old", "new", "method"),
    [
        ("return 0", "return 9", "here"),
        ("return 1", "return 2", "alone"),
        ("@property", "@cached_property", "Slot.row"),
        ("            return 2\n", "", "Slot.save"),
        ("return 3", "return 4", "Slot.Row.free"),
    ],
)
def test_a_change_is_named_by_its_method(old: str, new: str, method: str, tmp_path: Path) -> None:
    both = packages(tmp_path, SOURCE.replace(old, new))
    assert changed_method(*both) == f"{method} in {FILE}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("_row", "_row\n\n    def more(self):\n        return 1"),
        ("size = 1", "size = 2"),
        ("import os", "import ("),
        ("self", "this"),
        ("", ""),
    ],
)
def test_other_changes_have_no_method(old: str, new: str, tmp_path: Path) -> None:
    assert changed_method(*packages(tmp_path, SOURCE.replace(old, new))) == ""


def test_changes_in_two_files_have_no_method(tmp_path: Path) -> None:
    old, new = packages(tmp_path, SOURCE.replace("return 1", "return 2"))
    (new / "same.py").write_text("def other():\n    return 1\n")
    assert changed_method(old, new) == ""
