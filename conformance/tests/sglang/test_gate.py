"""The committed baseline of 0.5.23: its traces still violate, and a fault in the build is new.

Faults are put into the build itself (`broken_sessions.py`). Two of them make the same variable
wrong as a finding in the baseline.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from slotproof.engines.base import Engine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from slotproof.reports.trace import Trace
from slotproof.search.baseline import load
from slotproof.search.findings import Finding, lead, mark
from slotproof.search.gate import STILL_THERE, Gate
from slotproof.search.plan import Plan
from slotproof.traces.record import rows_of
from tests.turns import OPEN, STEP, turn

pytestmark = pytest.mark.sglang

ROOT = Path(__file__).parents[3]
DRIVER = ROOT / "conformance" / "slotproof" / "drivers" / "sglang"
BROKEN = Path(__file__).with_name("broken_sessions.py")
RELEASE = "0.5.23"
BASELINE = load(ROOT / "docs" / "findings" / f"sglang-{RELEASE}.baseline.json")


def gate(engine: Engine) -> Gate:
    """Return the baseline's gate on a build, with its traces replayed."""
    it = Gate(engine, f"{engine.name} {engine.version}", BASELINE, Plan({}))
    it.replay()
    return it


def found(engine: Engine, commands: list[Command]) -> Finding:
    """Return the finding of commands that are 1-minimal on the broken build."""
    config = CONFIGS["p1"]
    log = play(engine, Setup(config), commands).log
    broken = log[-1].violations
    assert broken
    trace = Trace(
        f"{engine.name} {engine.version}",
        "x",
        engine.capabilities.profile,
        config,
        0,
        rows_of(log),
        broken,
        minimal=True,
    )
    return Finding(mark(log[-1], lead(broken)), trace, 1)


@pytest.mark.parametrize("release", [RELEASE])
def test_every_committed_trace_is_still_there(release: str, start: Callable[[str], Engine]) -> None:
    it = gate(start(f"sglang=={release}"))
    assert {trace.file: trace.status for trace in it.replayed} == {
        file: STILL_THERE for group in BASELINE.groups for file in group.traces
    }
    assert not any(group.unexplained for group in BASELINE.groups)


THREE = [turn("r1", 1, 0), STEP, turn("r2", 1, 0), STEP, turn("r3", 0, 0), STEP]
FAULTS: dict[str, list[Command]] = {
    "tail-kept": [OPEN, *THREE],
    "lock-kept": [OPEN, turn("r1", 1, 2), STEP, STEP, {"do": "close", "session": "s1"}, STEP],
    "abort-keeps": [OPEN, turn("r1", 42, 0), STEP],
    "claim-lost": [OPEN, turn("r1", 1, 2), STEP, STEP, turn("r2", 1, 3), STEP],
    "counts-less": [OPEN, turn("r1", 1, 2), STEP, STEP],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_build_is_new(fault: str, python_of: Callable[[str], Path]) -> None:
    program = f"cmd:env PYTHONPATH={DRIVER} {python_of(RELEASE)} {BROKEN} {fault}"
    with closing(EngineSpec(program, step_timeout=60).open()) as build:
        it = gate(build)
        (judged,) = it.judge([found(build, FAULTS[fault])])[-1:]
    assert judged.new, judged.why
