"""The command line: exit statuses, one line for each error, JSON for machines."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slotproof.cli.app import status
from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import jobs_count
from slotproof.engines import registry
from slotproof.environments.families import FAMILIES
from slotproof.lockstep.oracles import matches
from slotproof.protocol.config import CONFIGS, SERVED
from slotproof.protocol.messages import PROTOCOL
from slotproof.reports.trace import from_itf, load_trace
from slotproof.traces import itf
from slotproof_engine.memory.tree import PrefixTree
from slotproof_engine.mutants import MUTANTS
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transitions import TRANSITIONS

SMALL = ["--config", "p1", "--examples", "3", "--steps", "5"]
SOME = ["--config", "p1", "--examples", "20"]
"""Enough examples to find the mutant. Other tests cover later findings."""
MUTANT = "reference:leak-full"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored trace."""
    out = tmp_path_factory.mktemp("traces")
    assert status(["run", "--engine", MUTANT, *SOME, "--out", str(out), "--json"]) == 1
    return out / f"{MUTANT.replace(':', '-')}-seed0.itf.json"


def edited(source: Path, target: Path, **meta: Any) -> Path:
    document = json.loads(source.read_text())
    document["#meta"]["slotproof"].update(meta)
    target.write_text(json.dumps(document))
    return target


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["run", "--engine", "lmdeploy"], "unknown engine 'lmdeploy'"),
        (["run", "--engine", ""], "unknown engine ''"),
        (["run", "--engine", "reference:nobody"], "there is no mutant 'nobody'"),
        (["run", "--engine", "reference:"], "names no mutant"),
        (["run", "--engine", "sglang@/no/such/python"], "there is no such program"),
        (["run", "--engine", f"sglang@{sys.executable}"], "has no sglang"),
        (["run", "--engine", "no_such_module:make"], "No module named 'no_such_module'"),
        (["run", "--engine", "json:make"], "has no attribute 'make'"),
        (["run", "--engine", "cmd:"], "names no program"),
        (["run", "--engine", "cmd:'"], "No closing quotation"),
        (["run", "--engine", "cmd:/no/such/driver"], "can't start /no/such/driver"),
        (["run", "--engine", f"cmd:{sys.executable} -c 1"], "the driver does not start"),
        (["run", "--engine", "reference@cuda:99", *SMALL], "device 'cuda:99' can't be used"),
        (["run", "--engine", "sglang==0.5.23@p"], "has its own environment; to test another one"),
        (["run", "--engine", "reference-transformer:nobody"], "there is no mutant 'nobody'"),
        (["run", "--profile", "lmdeploy"], "unknown profile 'lmdeploy'; there are: reference"),
        (["run", "--config", "p3"], "unknown configuration 'p3'; there are: p1, "),
        (["run", "--examples", "0"], "--examples must be at least 1, not 0"),
        (["run", "--examples", "-4"], "--examples must be at least 1, not -4"),
        (["run", "--steps", "0"], "--steps must be at least 1"),
        (["run", "--seed", "-1"], "--seed must be at least 0"),
        (["run", "--examples", "many"], "--examples"),
        (["run", "--step-timeout", "0"], "--step-timeout"),
        (["run", "--step-timeout", "inf"], "Invalid value for '--step-timeout'"),
        (["replay", "x", "--step-timeout", "1e300"], "Invalid value for '--step-timeout'"),
        (["run", "--seconds", "0"], "for '--seconds'"),
        (["run", "--seconds", "nan"], "for '--seconds'"),
        (["run", "--no-such-option"], "No such option"),
        (["run", "surplus"], "unexpected extra argument"),
        (["replay"], "Missing argument"),
        (["replay", "/no/such/trace"], "No such file or directory"),
        (["show", "/no/such/trace"], "No such file or directory"),
        (["show", "x", "--format", "clay"], "'clay' is not"),
        (["list"], "Missing argument"),
        (["list", "dragons"], "'dragons' is not one of"),
        (["conquer"], "No such command 'conquer'"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(argv: list[str], text: str, cli: Any) -> None:
    assert text in cli.wrong(argv)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["run", "--python", "x"], "--python is gone: use --engine ENGINE@PYTHON"),
        (["run", "--device", "cuda"], "--device is gone: use --engine reference@cuda"),
        (["run", "--mend", "all"], "--mend is gone: use --patch"),
        (["run", "--set-aside=X"], "--set-aside is gone: use --ignore"),
        (["env", "list", "--envs", "x"], "--envs is gone: set the environment variable SLOTPROOF"),
        (["diff", "a", "b"], "diff is gone: use replay TRACE --engine A --against B"),
    ],
)
def test_what_is_gone_names_what_to_use(argv: list[str], text: str, cli: Any) -> None:
    assert text in cli.wrong(argv)


def test_a_form_that_there_is_not_is_refused(stored: Path, tmp_path: Path, cli: Any) -> None:
    out = tmp_path / "x.pdf"
    assert "unknown file extension; give --format, or one of .txt" in cli.wrong(
        ["show", str(stored), "--out", f"{out}"]
    )
    assert not out.exists()
    assert status(["show", str(stored), "--out", str(out), "--format", "text"]) == 0


def test_documents_are_written_in_a_checkout_or_where_a_folder_is_named(
    workdir: Path, cli: Any
) -> None:
    assert "no docs/reference here" in cli.wrong(["docs"])
    assert list(workdir.iterdir()) == []
    assert " documents in spec: " in cli(["docs", "--out", "spec"])


def test_how_many_processes_may_be_asked_for() -> None:
    """More jobs than any machine has are wrong usage, not an error of the system."""
    assert jobs_count(1024) == 1024 and jobs_count(0, least=0) == 0
    with pytest.raises(UsageProblem, match="--jobs must be at most 1024, not 1025"):
        jobs_count(1025)
    with pytest.raises(UsageProblem, match="--jobs must be at least 1, not 0"):
        jobs_count(0)


@pytest.mark.parametrize(
    ("code", "text"),
    [("no shebang", "can't be run: Exec format error"), ("#!/bin/sh\nsleep 600", "within 0.5 s")],
)
def test_a_python_that_is_none(
    code: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    """slotproof asks the Python for SGLang. The Python can't be run, or never answers."""
    python = tmp_path / "python"
    python.write_text(code)
    python.chmod(0o755)
    monkeypatch.setattr(registry, "START_TIMEOUT", 0.5)
    said = cli.wrong(["run", "--engine", f"sglang@{python}", "--step-timeout", "0.5"])
    assert f"sglang@{python} " in said and text in said


@pytest.mark.parametrize("command", ["replay", "show"])
def test_traces_that_can_not_be_run(command: str, stored: Path, tmp_path: Path, cli: Any) -> None:
    bad = tmp_path / "bad.itf.json"
    bad.write_text("a text")
    assert f"{bad}: not JSON" in cli.wrong([command, str(bad)])
    for other in (PROTOCOL - 1, PROTOCOL + 1):
        edited(stored, bad, protocol=other)
        assert f"the trace is of protocol {other}" in cli.wrong([command, str(bad)])
    edited(stored, bad, config={"page_size": 4, "total_tokens": 2})
    assert "total_tokens=2 is no multiple of page_size=4" in cli.wrong([command, str(bad)])
    edited(stored, bad, config={"turbo": True})
    assert "config/turbo: Extra inputs are not permitted" in cli.wrong([command, str(bad)])
    bad.write_text(json.dumps({"#meta": {}, "vars": [], "states": []}))
    assert "slotproof did not write" in cli.wrong([command, str(bad)])


def test_a_trace_that_the_engine_can_not_replay(stored: Path, tmp_path: Path, cli: Any) -> None:
    """The trace has an unknown engine, or a configuration or command not offered by the engine."""
    assert "unknown engine" in cli.wrong(["replay", str(stored), "--engine", "x"])
    toy = Path(__file__).parent / "drivers" / "toy.py"
    engine = ["--engine", f"cmd:{sys.executable} {toy}"]
    path = edited(stored, tmp_path / "t.json", config=CONFIGS["p4"].to_json())
    assert "page size 4 is not offered" in cli.wrong(["replay", str(path), *engine])
    document = json.loads(stored.read_text())
    document["states"][0] |= {"mbt::actionTaken": "retract", "mbt::nondetPicks": {}}
    path.write_text(json.dumps(document))
    assert "does not offer “retract”" in cli.wrong(["replay", str(path), *engine])


def test_no_arguments_show_the_help(cli: Any) -> None:
    assert "A referee for session-slot KV accounting" in cli(["--help"])


@pytest.mark.slow
def test_status_0_when_nothing_is_found(tmp_path: Path, cli: Any) -> None:
    configs = [word for name in ("p1-tight", "p4-wipe", "p4-swa") for word in ("--config", name)]
    argv = [
        "run",
        *configs,
        "--examples",
        "90",
        "--seed",
        "1",
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    document = cli.json(argv)
    assert document["status"] == 0 and document["itf"] is None and document["trace"] is None
    assert document["transitions"]["never"] == []
    assert not (tmp_path / "out").exists()


def test_status_3_when_a_transition_was_never_reached(tmp_path: Path, cli: Any) -> None:
    document = cli.json(["run", *SMALL, "--json", "--out", str(tmp_path)], 3)
    assert document["status"] == 3
    assert "T-SWA-ADVANCE" in document["transitions"]["impossible"]
    assert document["transitions"]["never"]
    assert "inconclusive" in cli(["run", *SMALL, "--out", str(tmp_path)], 3)


def test_status_1_and_the_trace(
    tmp_path: Path, cli: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    argv = ["run", "--engine", MUTANT, *SOME, "--out", str(tmp_path)]
    assert status(argv) == 1
    out, err = capfd.readouterr()
    assert err == "", "quiet in a pipe"
    path = tmp_path / "reference-leak-full-seed0.itf.json"
    assert f"slotproof replay {path} --engine {MUTANT}" in out
    assert load_trace(path).violations
    document = cli.json([*argv, "--json"], 1)
    assert document["status"] == 1 and document["trace"] == str(path)
    assert document["violated"]
    assert from_itf(document["itf"]) == load_trace(path)


def test_an_out_folder_that_can_not_be_written(tmp_path: Path, cli: Any) -> None:
    """The error is reported before anything is run."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    text = cli.wrong(["run", "--engine", MUTANT, "--out", str(blocked / "below")])
    assert text.endswith("below can't be written to: Not a directory\n")
    blocked.unlink()
    assert list(tmp_path.iterdir()) == []


def test_a_trace_that_can_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    """The disk fills up meanwhile: the trace is printed all the same, and the status is 1."""

    def full(trace: object, path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(itf, "save", full)
    argv = ["run", "--engine", MUTANT, *SOME, "--out", str(tmp_path)]
    out = cli(argv, 1)
    assert "violated by reference 1 with leak-full" in out
    assert "could not be written" in out and "No space left on device" in out
    document = cli.json([*argv, "--json"], 1)
    assert document["trace"] is None and document["itf"]["states"]


def test_a_program_that_a_trace_names_is_not_run_unasked(
    stored: Path, tmp_path: Path, cli: Any
) -> None:
    """Traces come from anywhere."""
    harm = tmp_path / "harm"
    hostile = edited(stored, tmp_path / "x.itf.json", spec=f"cmd:touch {harm}")
    assert "give --engine" in cli.wrong(["replay", str(hostile)])
    assert not harm.exists()
    assert status(["replay", str(hostile), "--engine", MUTANT]) == 1


def test_replay_reproduces_and_the_reference_conforms(stored: Path, cli: Any) -> None:
    assert "\nreproduced: INV-" in cli(["replay", str(stored)], 1)
    assert "\nconforms: no clause is violated" in cli(
        ["replay", str(stored), "--engine", "reference"]
    )
    assert status(["replay", str(stored), "--engine", "reference:27228b-batch-equality"]) in (0, 1)
    again = from_itf(cli.json(["replay", str(stored), "--json"], 1))
    assert again.rows == load_trace(stored).rows
    assert again.violations == load_trace(stored).violations


def test_show_gives_text_and_json(stored: Path, cli: Any) -> None:
    text = cli(["show", str(stored)])
    assert cli(["show", str(stored), "--format", "text"]) == text
    assert f"again: slotproof replay {stored}" in text
    assert from_itf(cli.json(["show", str(stored), "--json"])) == load_trace(stored)


THINGS: dict[str, Any] = {
    "engines": {
        "reference",
        "reference:MUTANT",
        *(f"{name}{release}" for name in FAMILIES for release in ("@PYTHON", "==RELEASE")),
        "reference-transformer",
        "module:factory",
        "cmd:PROGRAM ARGS",
    },
    "mutants": set(MUTANTS),
    "transitions": set(TRANSITIONS),
    "invariants": set(INVARIANTS),
    "profiles": set(PROFILES),
    "configs": {*CONFIGS, *SERVED},
}


@pytest.mark.parametrize("what", THINGS)
def test_list(what: str, cli: Any) -> None:
    table = cli.json(["list", what, "--json"])
    assert set(table) == THINGS[what]
    lines = cli(["list", what]).splitlines()
    assert len(lines) == len(table)
    for line, (name, entry) in zip(lines, table.items(), strict=True):
        assert line.startswith(name) and line.endswith(entry["sentence"])


def test_a_factory_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """module:factory."""
    (tmp_path / "my_engines.py").write_text(
        "from slotproof.engines.reference import InProcessEngine\n"
        "def broken():\n    return InProcessEngine('leak-full')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    argv = ["run", "--engine", "my_engines:broken", *SOME, "--out", str(tmp_path)]
    assert status(argv) == 1


def test_a_factory_whose_engine_never_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Any
) -> None:
    """An engine in this process has a step time-out, too: INV-ALIVE.hang."""
    (tmp_path / "slow_engines.py").write_text(
        "from slotproof.engines.reference import InProcessEngine\n"
        "class Hangs(InProcessEngine):\n"
        "    def do(self, command):\n"
        "        while command['do'] == 'submit':\n"
        "            try:\n"
        "                sum(range(1000))\n"
        "            except Exception:\n"
        "                pass\n"
        "        return super().do(command)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    argv = ["run", "--engine", "slow_engines:Hangs", *SOME, "--step-timeout", "0.05"]
    said = cli([*argv, "--out", str(tmp_path)], 1)
    assert "INV-ALIVE.hang" in said
    assert "no answer to “submit” within 0.05 s" in said


@pytest.mark.slow
def test_a_cache_that_never_matches_is_told(
    monkeypatch: pytest.MonkeyPatch, cli: Any, tmp_path: Path
) -> None:
    """INV-MATCH: a published prefix is in the tree and no match finds it. For an engine that may
    match less, a run without a match is inconclusive."""
    monkeypatch.setattr(PrefixTree, "match_prefix", lambda tree, tokens: tree.root)
    assert "INV-MATCH.all" in cli(
        ["run", "--config", "p1", "--examples", "40", "--out", str(tmp_path)], 1
    )
    monkeypatch.setattr(matches, "WHOLE", "real attention")  # named by the reference
    assert "no request matched a cached prefix: the cache may never be used" in cli(
        ["run", "--config", "p1", "--examples", "40", "--out", str(tmp_path)], 3
    )


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("1 / 0", "bad_engines:make: division by zero"),
        ("def make(:", "bad_engines:make: invalid syntax"),
        ("raise SystemExit", "bad_engines:make: SystemExit"),
        ("def make():\n    it.capabilities = None\n    return it", "is not a Capabilities object"),
        (
            (
                "def make():\n    it.capabilities = Capabilities(frozenset(), profile='x')\n"
                "    return it"
            ),
            "makes no engine: there is no profile 'x'; there are: reference, wipe",
        ),
    ],
)
def test_a_factory_that_makes_no_engine(
    code: str, text: str, tmp_path: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the user's own code is wrong usage, reported in one line, and no bug of
    slotproof."""
    imports = "from slotproof.engines."
    head = f"{imports}reference import InProcessEngine\n{imports}base import Capabilities\n"
    head += "it = InProcessEngine()\n"
    (tmp_path / "bad_engines.py").write_text(f"{head}{code}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "bad_engines", raising=False)
    assert text in cli.wrong(["run", "--engine", "bad_engines:make", *SOME])


@pytest.mark.parametrize(
    ("mode", "clause"), [("garbage", "INV-ALIVE.crash"), ("hang", "INV-ALIVE.hang")]
)
def test_an_engine_that_fails_in_mid_run_is_a_finding(
    mode: str, clause: str, tmp_path: Path, cli: Any
) -> None:
    """INV-ALIVE with its trace, status 1: never a hang of the suite."""
    toy = Path(__file__).parent / "drivers" / "toy.py"
    argv = ["run", "--engine", f"cmd:{sys.executable} {toy} {mode}", "--config", "p1"]
    argv += ["--examples", "2", "--steps", "3", "--step-timeout", "0.2", "--json"]
    document = cli.json([*argv, "--out", str(tmp_path)], 1)
    assert [violation["clause"] for violation in document["violated"]] == [clause]
    assert len(document["itf"]["states"]) == 1


def test_the_console_script_exits_with_the_status() -> None:
    argv = [sys.executable, "-m", "slotproof.cli.app", "run", "--engine", "toy"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_torch_is_not_loaded_for_an_engine_that_brings_its_own(tmp_path: Path) -> None:
    """Loading takes seconds. A driver, a trace or the spec needs no torch."""
    toy = Path(__file__).parent / "drivers" / "toy.py"
    code = f"""
import sys
from slotproof.cli.app import status
run = ["run", "--config", "p1", "--examples", "2", "--out", {str(tmp_path)!r}]
result = status([*run, "--engine", "cmd:{sys.executable} {toy} fine"])
sys.exit(10 + result if "torch" in sys.modules else result)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode in (0, 1, 3), (done.stdout + done.stderr).decode()
