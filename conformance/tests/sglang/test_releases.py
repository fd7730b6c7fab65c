"""Every SGLang release served by the driver, in short. `make test` runs two of them."""

import ast
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from slotproof.engines.methods import methods_of
from slotproof.engines.process import ProcessEngine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import Referee, Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CONFIGS
from tests.arrays import covers_its_tuples
from tests.turns import CLOSE, OPEN, STEP, steps, turn

pytestmark = pytest.mark.sglang

RELEASES = ("0.5.10.post1", *(f"0.5.{n}" for n in range(11, 24)))
OLD = "0.5.10.post1"
DRIVER = Path(__file__).parents[2] / "slotproof" / "drivers" / "sglang"
REFUSED = "INV-ANSWER.nothing"
"""Violated by every release: docs/findings/refused-token.md."""
REPORTED = (
    "INV-SUM-FULL.reported",
    "INV-ONCE.reported",
    "INV-CHECKER.figures",
    "INV-CHECKER.alarm",
)
"""The double count of 0.5.10, reported only by its own check."""


@pytest.fixture(scope="module", params=RELEASES)
def build(
    request: pytest.FixtureRequest, python_of: Callable[[str], Path]
) -> Iterator[ProcessEngine]:
    engine = EngineSpec("sglang", python_of(request.param), step_timeout=60).open()
    assert isinstance(engine, ProcessEngine)
    with closing(engine):
        yield engine


def test_a_search_has_each_pair_and_each_triple_of_what_it_offers(build: ProcessEngine) -> None:
    covers_its_tuples(build.capabilities)


LIVES: dict[str, tuple[str, list[Command]]] = {
    "two turns": ("p1", [OPEN, turn("r1", 6, 4), steps(6), turn("r2", 3, 3), steps(6)]),
    "pages of 4": ("p4", [OPEN, turn("r1", 6, 4), steps(6), turn("r2", 3, 3), steps(6)]),
    "pages of 16": ("p16", [OPEN, turn("r1", 20, 4), steps(8), turn("r2", 3, 3), steps(6)]),
    "chunks": ("p1-chunk", [OPEN, turn("r1", 11, 4), steps(9), turn("r2", 9, 3), steps(9)]),
    "tight": ("p4-tight", [OPEN, turn("r1", 9, 2), turn("r2", 8, 2, None), steps(12)]),
    "pause": (
        "p1",
        [OPEN, turn("r1", 3, 3), STEP, {"do": "pause"}, steps(2), {"do": "continue"}, steps(4)],
    ),
    "no new token": ("p1", [OPEN, turn("r1", 3, 0), steps(3)]),
    "stop token": ("p1", [OPEN, {**turn("r1", 3, 6), "stop": [119, 207, 203]}, steps(8)]),
    "timeout": ("p1", [OPEN, turn("r1", 3, 2), steps(4), {"do": "tick", "seconds": 1000}]),
}
"""Lives handled right by every release, by name: configuration and commands."""

LATER: dict[str, tuple[str, list[Command]]] = {
    "a running turn is aborted": (
        "p1",
        [
            OPEN,
            turn("r1", 3, 2),
            steps(4),
            turn("r2", 3, 6),
            steps(2),
            {"do": "abort", "rid": "r2"},
            steps(2),
            turn("r3", 2, 2),
            steps(4),
        ],
    ),
    "a parked turn is aborted": (
        "p1-chunk",
        [OPEN, turn("r1", 14, 6), steps(2), {"do": "abort", "rid": "r1"}, steps(4)],
    ),
    "too long": (
        "p1",
        [OPEN, turn("r1", 6, 4), steps(6), turn("r2", 44, 3), steps(3), turn("r3", 2, 2), steps(4)],
    ),
    "closed in mid-turn": (
        "p1",
        [
            OPEN,
            turn("r1", 3, 2),
            steps(4),
            turn("r2", 3, 6),
            steps(2),
            CLOSE,
            steps(8),
            {"do": "tick", "seconds": 10},
        ],
    ),
    "a draft": (
        "p1-draft",
        [
            OPEN,
            turn("r1", 3, 3),
            steps(2),
            {"do": "draft", "rid": "r1", "allocate": 2, "commit": 2},
            steps(4),
        ],
    ),
}
"""Lives handled right after 0.5.10: #22790, #21875, #22897."""


def lived(build: ProcessEngine, config: str, commands: list[Command]) -> Referee:
    """Check that no clause is violated, the engine's own check agrees, and all memory is freed."""
    aside = (*(REPORTED if build.version == OLD else ()), REFUSED)
    commands = [*commands, CLOSE, steps(2)]
    referee = play(build, Setup(CONFIGS[config], ignored=aside), commands)
    assert [str(violation) for violation in referee.log[-1].violations] == []
    snapshots = [snapshot for entry in referee.log for snapshot in entry.snapshots]
    checks = [snapshot["checker"] for snapshot in snapshots if snapshot["checker"]["ran"]]
    assert checks and all(set(check["pools"]) == {"full"} for check in checks)
    if build.version != OLD:
        assert {check["verdict"] for check in checks} == {"ok"}
    pool = snapshots[-1]["pools"]["full"]
    assert pool["available"] + pool["evictable"] == pool["total"], "INV-DRAIN"
    return referee


@pytest.mark.parametrize("life", LIVES)
def test_what_every_release_does_right(build: ProcessEngine, life: str) -> None:
    """INV-STEP, INV-CONTENT.tokens, INV-DRAIN: lockstep with the spec, and tokens as without a
    cache."""
    referee = lived(build, *LIVES[life])
    assert referee.coverage.checked["INV-CONTENT"] >= int(life != "no new token")


@pytest.mark.parametrize("life", LATER)
def test_what_releases_after_0_5_10_do_right(build: ProcessEngine, life: str) -> None:
    if build.version == OLD:
        pytest.skip("0.5.10 has these bugs: docs/findings")
    if life == "a draft" and "draft" not in build.capabilities.commands:
        pytest.skip("it has rounds of its own: test_rounds.py")
    referee = lived(build, *LATER[life])
    marks = [snapshot.get("injected") for entry in referee.log for snapshot in entry.snapshots]
    assert any(marks) == (life == "a draft")


def test_retraction_is_taken_for_a_finish_after_0_5_10(build: ProcessEngine) -> None:
    """INV-INFLIGHT, INV-HISTORY: docs/findings/retract-finishes.md. In 0.5.10 the bug is #22862."""
    commands = [OPEN, turn("r1", 2, 8), steps(2), {"do": "retract"}, STEP]
    entry = play(build, Setup(CONFIGS["p1"], ignored=REPORTED), commands).log[-1]
    clauses = {violation.clause for violation in entry.violations}
    if build.version == OLD:
        assert "INV-OWNER.lost" in clauses
    else:
        assert {"INV-INFLIGHT.iff", "INV-HISTORY.history"} <= clauses


EVIL = """
from slotproof_sglang import engine, main
begin = engine.Engine._begin
def corrupted(self):
    if self.iterations == 2:
        for buffer in self.dialect.allocator.get_kvcache().v_buffer:
            buffer.neg_()
    return begin(self)
engine.Engine._begin = corrupted
main.main()
"""


@pytest.mark.parametrize("release", [OLD, "0.5.13", "0.5.23"])
def test_a_corrupted_cache_shows_in_the_tokens_and_nowhere_else(
    tmp_path: Path, release: str, python_of: Callable[[str], Path]
) -> None:
    """INV-CONTENT.tokens: the KV is negated in the third iteration. The figures stay right."""
    script = tmp_path / "evil.py"
    script.write_text(EVIL)
    environment = {**os.environ, "PYTHONPATH": str(DRIVER)}
    commands = [OPEN, turn("r1", 7, 6), steps(8)]
    with closing(ProcessEngine([str(python_of(release)), str(script)], 60, environment)) as engine:
        log = play(engine, Setup(CONFIGS["p1"], ignored=REPORTED), commands).log
    (violation,) = log[-1].violations
    assert violation.clause == "INV-CONTENT.tokens"
    assert violation.detail.startswith("output 2 of r1 is ")


REPLAYS = """
import os
from slotproof_sglang import main, replay
def tokens(self, prompt, count):
    yield
    {}
replay.Replay.tokens = tokens
main.main()
"""


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ("os.abort()", "the replay process died (SIGABRT)"),
        ("raise OSError('no pages')", "replaying a turn alone: OSError: no pages"),
    ],
)
def test_a_replay_that_dies_is_no_garbage_on_the_wire(
    tmp_path: Path, work: str, said: str, python_of: Callable[[str], Path]
) -> None:
    """INV-ALIVE.crash: the report quotes the crash, and the next example runs."""
    script = tmp_path / "evil.py"
    script.write_text(REPLAYS.format(work))
    environment = {**os.environ, "PYTHONPATH": str(DRIVER)}
    commands = [OPEN, turn("r1", 7, 6), steps(8)]
    with closing(ProcessEngine([str(python_of("0.5.23")), str(script)], 60, environment)) as engine:
        for _ in range(2):
            log = play(engine, Setup(CONFIGS["p1"], ignored=REPORTED), commands).log
            (violation,) = log[-1].violations
            assert (violation.detail, violation.fault) == (said, None)
            assert violation.said, "the end of standard error, or a traceback"


@pytest.mark.parametrize("release", RELEASES)
def test_methods_that_make_transitions_are_there(
    release: str, python_of: Callable[[str], Path]
) -> None:
    """Readers of a trace search the sources for these names."""
    (folder,) = python_of(release).parents[1].glob("lib/python3.*/site-packages/sglang/srt")
    defined = set()
    for path in (
        path
        for part in ("managers", "mem_cache", "session")
        for path in (folder / part).rglob("*.py")
    ):
        for definition in ast.parse(path.read_text()).body:
            if isinstance(definition, ast.ClassDef):
                inner = (node.name for node in definition.body if isinstance(node, ast.FunctionDef))
                defined |= {f"{definition.name}.{name}" for name in inner}
            elif isinstance(definition, ast.FunctionDef):
                defined.add(definition.name)
    named = {name for methods in methods_of(f"sglang {release}").values() for name in methods}
    assert len(named) > 20 and named <= defined
