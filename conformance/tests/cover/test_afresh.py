"""A finding that a fresh process does not show says so, and which earlier example it needs."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.engines.registry import EngineSpec
from slotproof.reports.trace import load_trace
from slotproof.search import afresh
from slotproof.support.statuses import FOUND

DRIVERS = Path(__file__).parent / "drivers"

AFTER = "does not show again in a fresh process; shows after example "


def run(mode: str, out: Path, *more: str) -> list[str]:
    engine = f"cmd:{shlex.join([sys.executable, str(DRIVERS / 'toy.py'), mode])}"
    argv = ["run", "--engine", engine, "--config", "p1-one", "--examples", "4"]
    return [*argv, "--out", str(out), *more]


def findings(said: dict[str, Any]) -> list[dict[str, Any]]:
    """Return those of all causes."""
    return [each for cause in said["causes"] for each in cause["findings"]]


@pytest.mark.slow
def test_what_an_earlier_example_leaves_is_told(
    tmp_path: Path, cli: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """The driver of the toy loses pages from its second life on; what else it does, it does
    always."""
    assert status(run("leaks", tmp_path, "--all", "--json")) == FOUND
    said: dict[str, Any] = json.loads(capfd.readouterr().out)
    left = [each for each in findings(said) if each["not_afresh"]]
    assert left and said["not_afresh"] in {each["not_afresh"] for each in left}
    for finding in left:
        assert finding["not_afresh"] == f"{AFTER}{finding['example'] - 1}"
        trace = load_trace(finding["trace"])
        assert trace.needs == finding["example"] - 1
        assert finding["id"].startswith(trace.violations[0].clause), "its identity stays"
    out = cli(run("leaks", tmp_path), FOUND).splitlines()
    assert out[1].startswith(f"  The finding {AFTER}")
    assert out[-1].startswith("counterexample: INV-") and AFTER in out[-1]


@pytest.mark.slow
def test_what_shows_alone_is_as_it_was(tmp_path: Path, cli: Any) -> None:
    said = cli.json(run("lost-page", tmp_path, "--all", "--json"), FOUND)
    assert {each["not_afresh"] for each in findings(said)} == {None}
    assert load_trace(findings(said)[0]["trace"]).needs is None


def test_one_engine_is_opened_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a finding that does not show: what that left to its process is not the next one's."""
    shows = iter([True, True, False, False, True])
    opened: list[EngineSpec] = []
    real = EngineSpec.open

    def opening(spec: EngineSpec) -> Any:
        opened.append(spec)
        return real(spec)

    class Known:
        first, trace = 1, None

    monkeypatch.setattr(EngineSpec, "open", opening)
    monkeypatch.setattr(afresh, "_shows", lambda *_, **__: next(shows))
    monkeypatch.setattr(afresh, "replace", lambda of, **_: of)
    four: Any = [Known(), Known(), Known(), Known()]
    assert afresh.tried(EngineSpec("reference"), four) == four
    assert len(opened) == 3, "one, one to try the earlier example, one for the last finding"
