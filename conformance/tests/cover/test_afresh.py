"""Findings not reproduced by a fresh process, reported with the earlier example they need."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.reports.trace import load_trace
from slotproof.support.statuses import FOUND

DRIVERS = Path(__file__).parent / "drivers"

AFTER = "does not reproduce in a fresh process; reproduces after example "


def run(mode: str, out: Path, *more: str) -> list[str]:
    engine = f"cmd:{shlex.join([sys.executable, str(DRIVERS / 'toy.py'), mode])}"
    argv = ["run", "--engine", engine, "--config", "p1-one", "--examples", "4"]
    return [*argv, "--out", str(out), *more]


def findings(said: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the findings of all causes."""
    return [finding for cause in said["causes"] for finding in cause["findings"]]


@pytest.mark.slow
def test_what_an_earlier_example_leaves_is_told(
    tmp_path: Path, cli: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """The toy driver loses pages from its second life on. Its other faults occur in every life."""
    assert status(run("leaks", tmp_path, "--all", "--json")) == FOUND
    said: dict[str, Any] = json.loads(capfd.readouterr().out)
    left = [finding for finding in findings(said) if finding["not_afresh"]]
    assert left and said["not_afresh"] in {finding["not_afresh"] for finding in left}
    for finding in left:
        assert finding["not_afresh"] == f"{AFTER}{finding['example'] - 1} of its configuration"
        trace = load_trace(finding["trace"])
        assert trace.needs == finding["example"] - 1
        assert finding["id"].startswith(trace.violations[0].clause), "its identity stays"
    out = cli(run("leaks", tmp_path), FOUND).splitlines()
    assert out[1].startswith(f"  The finding {AFTER}")
    assert out[-1].startswith("counterexample: INV-") and AFTER in out[-1]


@pytest.mark.slow
def test_what_shows_alone_is_as_it_was(tmp_path: Path, cli: Any) -> None:
    said = cli.json(run("lost-page", tmp_path, "--all", "--json"), FOUND)
    assert {finding["not_afresh"] for finding in findings(said)} == {None}
    assert load_trace(findings(said)[0]["trace"]).needs is None


FACTORY = """\
from slotproof.engines.reference import InProcessEngine

class Leaky(InProcessEngine):
    lives = 0

    def reset(self, config, seed):
        super().reset(config, seed)
        Leaky.lives += 1

    def do(self, command):
        if Leaky.lives > 1 and command["do"] == "close":
            raise RuntimeError("lives on")
        if Leaky.lives > 1 and command["do"] == "tick":
            raise LookupError("lives on, too")
        return super().do(command)
"""


@pytest.mark.slow
def test_what_a_module_keeps_is_not_there_afresh(
    tmp_path: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine in this process is replayed in another process, a new one for each finding."""
    monkeypatch.chdir(tmp_path)
    Path("leaky.py").write_text(FACTORY)
    argv = [
        "run",
        "--engine",
        "leaky:Leaky",
        "--config",
        "p1",
        "--examples",
        "8",
        "--all",
        "--json",
    ]
    results = findings(cli.json([*argv, "--out", "traces"], FOUND))
    assert len(results) == 2
    for finding in results:
        assert finding["not_afresh"].startswith(AFTER)
