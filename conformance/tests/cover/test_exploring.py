"""``explore``: the spec, exhaustively within small bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slotproof.cli.app import status


def document(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = status([*argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_the_spec_cut_off(capsys: pytest.CaptureFixture[str]) -> None:
    assert status(["explore", "--depth", "4"]) == 3
    out = capsys.readouterr().out
    assert "4 deep, cut off there" in out
    assert "never: " in out
    assert out.endswith(
        "inconclusive: nothing broken, but the depth cut off what was not reached\n"
    )


def test_the_spec_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["explore", "--sessions", "1", "--pages", "2", "--page-size", "2", "--depth", "5"]
    code, found = document(argv, capsys)
    assert code == 3
    assert {(each["bounds"]["pages"], each["bounds"]["page_size"]) for each in found["bounds"]} == {
        (2, 2)
    }
    assert found["violated"] == []


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--pages", "0"], "--pages must be at least 1, not 0"),
        (["--depth", "-1"], "--depth must be at least 0, not -1"),
        (["--engine", "reference"], "No such option: --engine"),
    ],
)
def test_wrong_usage_gets_one_line(
    argv: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(["explore", *argv]) == 2
    err = capsys.readouterr().err
    assert line in err
    assert err.count("\n") == 1
