"""The pytest plugin: items of an engine's own CI."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from slotproof.reports.trace import load_trace

pytestmark = pytest.mark.slow

pytest_plugins = ["pytester"]

PLUGIN = "slotproof.plugin.hooks"
INSTALLED = any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))
SUITE = ["--pyargs", "slotproof"]
SMALL = ["--slotproof-config=p1", "--slotproof-examples=20", "--slotproof-parts=2"]


def run(pytester: pytest.Pytester, *args: str) -> pytest.RunResult:
    """Run pytest in a separate folder, with the plugin as if it were installed."""
    loaded = () if INSTALLED else ("-p", PLUGIN)
    return pytester.runpytest(*loaded, "-p", "no:cacheprovider", *args)


def test_an_engine_that_conforms(pytester: pytest.Pytester) -> None:
    """An item per configuration and part. The summary lists the clauses not observed."""
    result = run(pytester, *SUITE, "--slotproof-engine=reference", *SMALL, "-v")
    assert result.ret == 0
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        [
            "*test_conforms[[]p1-1of2] PASSED*",
            "*test_conforms[[]p1-2of2] PASSED*",
            "*= slotproof =*",
            "engine          reference 1 (profile reference)",
            "commands        * in 2? examples, * iterations",
            "not observed    real attention: *",
            "inconclusive: never reached: *T-*",
        ]
    )


def test_strict_makes_inconclusive_a_failure(pytester: pytest.Pytester) -> None:
    result = run(pytester, *SUITE, "--slotproof-engine=reference", *SMALL, "--slotproof-strict")
    result.assert_outcomes(passed=2)
    assert result.ret == 1


def test_a_counterexample_is_shown_as_text(pytester: pytest.Pytester) -> None:
    """INV-SUM-FULL.equation: no traceback. The trace's path is in the JUnit XML."""
    argv = ["--slotproof-engine=reference:leak-full", *SMALL, "--slotproof-parts=1"]
    result = run(pytester, *SUITE, *argv, "--slotproof-out=found", "--junitxml=junit.xml")
    assert result.ret == 1
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert "INV-SUM-FULL.equation violated by reference 1 with leak-full, in " in text
    assert "\n  1  open s1\n" in text
    assert "part.py" not in text.split("short test summary")[0], "no traceback of ours"
    properties = {
        field.get("name"): field.get("value", "")
        for field in ET.parse(pytester.path / "junit.xml").iter("property")
    }
    assert properties["slotproof_clause"] == "INV-SUM-FULL.equation"
    assert properties["slotproof_engine"] == "reference 1 with leak-full"
    assert load_trace(pytester.path / properties["slotproof_trace"]).violations


def test_the_xml_says_what_was_planned_and_what_was_run(pytester: pytest.Pytester) -> None:
    """Each item has its examples, and the summary names a configuration with too few."""
    bugs = "leak-full+22213-double-count+22862-no-free-tail+9173-empty-slot-crash"
    argv = [f"--slotproof-engine=reference:{bugs}", *SMALL, "--junitxml=junit.xml"]
    result = run(pytester, *SUITE, *argv, "--slotproof-config=p4", "--slotproof-examples=42")
    items = [
        {field.get("name"): field.get("value", "") for field in item.iter("property")}
        for item in ET.parse(pytester.path / "junit.xml").iter("testcase")
    ]
    planned = [int(item["slotproof_examples_planned"]) for item in items]
    run_ = [int(item["slotproof_examples_run"]) for item in items]
    assert sum(planned) == 42 and max(planned) - min(planned) <= 1, "none is left out"
    assert all(0 < count <= 12 for count in run_)
    result.stdout.fnmatch_lines(["                p1: * of 2? planned examples"])


def test_a_finding_fails_once(pytester: pytest.Pytester) -> None:
    """One failure, not one for each part. The search for other findings continues."""
    argv = ["--slotproof-engine=reference:22213-double-count", *SMALL, "--slotproof-parts=3"]
    result = run(pytester, *SUITE, *argv, "--slotproof-examples=45")
    result.assert_outcomes(failed=1, passed=2)


def test_a_baseline_leaves_what_is_new(pytester: pytest.Pytester) -> None:
    """The same file as `slotproof gate`."""
    noise = {"name": "noise", "reason": "x", "seen_as": ["INV-SUM-FULL.reported@T-RESTORE"]}
    file = pytester.path / "known.json"
    file.write_text(json.dumps({"slotproof_baseline": 2, "groups": [noise]}))
    known = [*SUITE, *SMALL, f"--slotproof-baseline={file}"]
    result = run(pytester, *known, "--slotproof-engine=reference:22213-double-count")
    result.assert_outcomes(passed=2)
    argv = ["--slotproof-engine=reference:leak-full", "--slotproof-seed=1"]
    run(pytester, *known, *argv).assert_outcomes(failed=1, passed=1)


def test_an_interrupted_item_is_no_finding(pytester: pytest.Pytester) -> None:
    """An interrupt ends with pytest's own status, without a counterexample and without a file."""
    pytester.makepyfile(
        torn="from tests.cover.test_interrupts import Torn\ndef make(): return Torn(60)\n"
    )
    pytester.syspathinsert()
    loaded = () if INSTALLED else ("-p", PLUGIN)
    argv = (*loaded, "-p", "no:cacheprovider", *SUITE, "--slotproof-engine=torn:make", *SMALL)
    result = pytester.runpytest_subprocess(*argv)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "INV-" not in result.stdout.str()
    assert not list(pytester.path.rglob("*.itf.json"))


def test_workers_share_the_items(pytester: pytest.Pytester) -> None:
    """The results of workers are added up."""
    result = run(pytester, *SUITE, "--slotproof-engine=reference", *SMALL, "-n", "1")
    assert result.ret == 0
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["commands        * in 2? examples, * iterations"])


def test_a_configuration_that_the_engine_can_not_take(pytester: pytest.Pytester) -> None:
    toy = Path(__file__).parent / "drivers" / "toy.py"
    engine = f"--slotproof-engine=cmd:{sys.executable} {toy}"
    result = run(pytester, *SUITE, engine, "--slotproof-config=p4", "-rs")
    result.assert_outcomes(skipped=5)
    result.stdout.fnmatch_lines(["*can't take p4: page size 4 is not offered"])
    assert result.ret == pytest.ExitCode.TESTS_FAILED, "nothing was looked at"
    result.stdout.fnmatch_lines(["slotproof: the engine can take no configuration (p4: *"])


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ([], "slotproof needs an engine: --slotproof-engine=reference, sglang"),
        (["--slotproof-engine=reference", "--slotproof-config=p3"], "unknown configuration 'p3'"),
        (
            ["--slotproof-engine=reference", "--slotproof-config=pairs-01"],
            "pairs-01 exists only for `slotproof run`",
        ),
        (["--slotproof-engine=reference", "--slotproof-profile=x"], "unknown profile 'x'"),
        (["--slotproof-engine=reference", "--slotproof-examples=0"], "must be at least 1, not 0"),
        (["--slotproof-engine=reference", "--slotproof-ignore=X"], "there is no clause 'X'"),
        (["--slotproof-engine=reference", "--slotproof-baseline=no.json"], "no.json: No such file"),
    ],
)
def test_wrong_usage_is_one_line(args: list[str], text: str, pytester: pytest.Pytester) -> None:
    result = run(pytester, *SUITE, *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert text in result.stderr.str()
    assert result.stderr.str().strip().count("\n") == 0


UNUSABLE = [
    ("lmdeploy", "unknown engine 'lmdeploy'"),
    ("reference:no-such-bug", "no-such-bug"),
    ("sglang==9.9.9x", "is no release number"),
    ("sglang@nowhere/bin/python", "there is no such program"),
    (f"cmd:{sys.executable} -c 'raise SystemExit(3)'", "the driver exited with status 3"),
    ("cmd:/nowhere/driver", "/nowhere/driver"),
]


@pytest.mark.parametrize("distributed", [(), ("-n", "2")])
@pytest.mark.parametrize(("engine", "text"), UNUSABLE)
def test_an_engine_that_does_not_start(
    engine: str, text: str, distributed: tuple[str, ...], pytester: pytest.Pytester
) -> None:
    """One line and status 4, before any item or worker starts."""
    result = run(pytester, *SUITE, f"--slotproof-engine={engine}", *SMALL, *distributed)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert text in result.stderr.str()
    assert result.stderr.str().strip().count("\n") == 0
    assert not result.stdout.str().strip()


@pytest.mark.parametrize("distributed", [(), ("-n", "2")])
def test_options_without_the_suite_say_what_is_missing(
    distributed: tuple[str, ...], pytester: pytest.Pytester
) -> None:
    """An engine on the command line without the suite to run is wrong usage."""
    pytester.makepyfile("def test_mine(): pass")
    result = run(pytester, "--slotproof-engine=reference", *distributed)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "add --pyargs slotproof" in result.stderr.str()
    assert result.stderr.str().strip().count("\n") == 0
    pytester.makeini("[pytest]\naddopts = --slotproof-engine=reference\n")
    run(pytester, *distributed).assert_outcomes(passed=1)  # in addopts it waits for the suite


def test_listing_the_items_starts_no_engine(pytester: pytest.Pytester) -> None:
    result = run(pytester, *SUITE, "--slotproof-engine=lmdeploy", *SMALL, "--collect-only", "-q")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*test_conforms[[]p1-1of2]"])


def test_other_peoples_runs_are_left_alone(pytester: pytest.Pytester) -> None:
    """Without an engine the plugin collects nothing and imports nothing."""
    pytester.makepyfile("def test_mine(): pass")
    result = run(pytester)
    result.assert_outcomes(passed=1)
    shown = [line for line in result.outlines if not line.startswith("plugins: ")]
    assert not any("slotproof" in line for line in shown)
    plugin = Path(__file__).parents[2] / "slotproof" / "plugin"
    assert run(pytester, str(plugin)).ret == pytest.ExitCode.NO_TESTS_COLLECTED
    code = f"import sys, {PLUGIN}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"torch", "hypothesis", "numpy", "jsonschema", "z3", "typer"}
