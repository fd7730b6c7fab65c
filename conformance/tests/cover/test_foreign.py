"""`show` of an ITF trace that another tool wrote: a table of its states; what is none is a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from tests.cover.test_forms import wrong

APALACHE: dict[str, Any] = {
    "#meta": {"format": "ITF", "varTypes": {"bank": "Set(Str)"}, "description": "by Apalache"},
    "params": [],
    "source": "MissionariesAndCannibals.tla",
    "vars": ["bank", "on", "boat"],
    "loop": 0,
    "states": [
        {
            "#meta": {"index": 0},
            "bank": "E",
            "on": {"#map": [["E", {"#set": ["c1", "c2"]}], ["W", {"#set": []}]]},
            "boat": {"#tup": [{"#bigint": "170141183460469231731687303715884105727"}, True]},
        },
        {
            "#meta": {"index": 1},
            "mbt::actionTaken": "cross",
            "bank": "W",
            "on": {"#map": [["E", {"#set": ["c1"]}], ["W", {"#set": ["c2"]}]]},
            "boat": {"#tup": [{"#bigint": "170141183460469231731687303715884105727"}, True]},
        },
        {"bank": "W", "on": {"a": {"#unserializable": "Nat"}}, "boat": [1, {"b": -2}]},
        {"bank": "W", "on": {"a": {"#unserializable": "Nat"}}, "boat": [1, {"b": -2}]},
    ],
}
SHOWN = """\
4 states of 3 variables, from MissionariesAndCannibals.tla

  0  bank = "E"
     on = ("E" :> {"c1", "c2"} @@ "W" :> {})
     boat = <<170141183460469231731687303715884105727, TRUE>>
  1  cross
     bank = "W"
     on = ("E" :> {"c1"} @@ "W" :> {"c2"})
  2  on = [a |-> Nat]
     boat = <<1, [b |-> -2]>>
  3  nothing changes

after the last state comes state 0 again
"""


def test_the_states_with_what_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "counterexample.itf.json"
    path.write_text(json.dumps(APALACHE))
    assert status(["show", str(path)]) == 0
    assert capsys.readouterr().out == SHOWN
    assert status(["show", str(path), "--out", str(tmp_path / "x.txt")]) == 0
    assert (tmp_path / "x.txt").read_text() == SHOWN
    assert status(["show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == APALACHE
    assert "of another tool" in wrong(capsys, str(path), "--format", "html")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"states": []}, "states"),
        ({"states": [7]}, "states/0"),
        ({"states": [{"bank": 1}]}, "states/0: it has no 'on'"),
        ({"vars": "bank"}, "vars"),
        ({"vars": [1]}, "vars/0"),
        ({"loop": 4}, "loop: there is no state 4"),
        ({"loop": -1}, "loop"),
        *[
            ({"vars": ["x"], "loop": 0, "states": [{"x": value}]}, f"states/0/x: {text}")
            for value, text in (
                (None, "null is no value"),
                (1.5, "a broken number is no value"),
                ({"#bigint": "1.5"}, "no #bigint"),
                ({"#set": 1}, "no #set"),
                ({"#map": [[1]]}, "#map: a pair"),
                ({"#what": 1}, "no #what"),
            )
        ],
    ],
)
def test_what_is_no_itf_is_one_line(
    change: dict[str, Any], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.itf.json"
    path.write_text(json.dumps({**APALACHE, **change}))
    said = wrong(capsys, str(path))
    assert said.startswith(f"slotproof: {path}: an ITF trace: ") and text in said


def test_a_terminal_obeys_none_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.itf.json"
    states = [{"a\x1b[2J": "\x1b]0;x\x07", "mbt::actionTaken": "\x1b[31m\n  9  forged"}]
    path.write_text(json.dumps({"vars": ["a\x1b[2J"], "states": states, "source": "\x9b2J"}))
    assert status(["show", str(path)]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said and "\x9b" not in said and said.count("\n") == 4
