"""Seed files for fuzzing: small, valid files from real runs of the reference engine.

    python -m tests.fuzz.seeds

writes ``corpus/`` again after a change of format. You may add files by hand: every file in the
folder of a kind is used.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from slotproof.cli.app import status
from slotproof.engines.reference import InProcessEngine
from slotproof.lockstep.referee import Setup, play
from slotproof.logs.writer import LoggedEngine
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.reports.trace import Trace
from slotproof.search import baseline
from slotproof.search.baseline import Baseline, Group
from slotproof.support import sources
from slotproof.traces import itf
from slotproof.traces.record import rows_of

FOLDER = Path(__file__).parent / "corpus"


def _submit(rid: str, session: str | None, tokens: Sequence[int], max_new: int) -> Command:
    fields = {"session": session, "rid": rid, "tokens": list(tokens), "max_new": max_new}
    return {"do": "submit", **fields, "stop": []}


def _step(n: int) -> Command:
    return {"do": "step", "n": n}


_OPEN: Command = {"do": "open", "session": "s1"}
_CLOSE: Command = {"do": "close", "session": "s1"}

LIVES: dict[str, tuple[EngineConfig, list[Command]]] = {
    "two-turns": (
        EngineConfig(page_size=4, total_tokens=24, rows=2, max_running=2, context_len=24),
        [
            _OPEN,
            _submit("r1", "s1", range(1, 7), 3),
            _step(4),
            _submit("r2", "s1", [7, 8], 2),
            _step(3),
            _CLOSE,
            {"do": "tick", "seconds": 1},
        ],
    ),
    "shared-prefix": (
        EngineConfig(total_tokens=20, rows=3, max_running=2, context_len=20),
        [
            _submit("p1", None, range(1, 5), 1),
            _step(2),
            _OPEN,
            _submit("r1", "s1", [1, 2, 3, 9], 2),
            _submit("p2", None, [1, 2, 5], 2),
            _step(2),
            {"do": "abort", "rid": "p2"},
            _step(2),
            {"do": "evict", "tokens": 2},
            _step(1),
        ],
    ),
    "window": (
        EngineConfig(
            page_size=4, total_tokens=32, swa_tokens=24, window=6, chunk=8, rows=2, context_len=28
        ),
        [
            _OPEN,
            _submit("r1", "s1", range(1, 15), 4),
            _step(6),
            _submit("r2", "s1", [3], 2),
            _step(3),
            _CLOSE,
            _step(1),
        ],
    ),
    "chunks": (
        EngineConfig(total_tokens=24, chunk=4, reserve=50, rows=2, context_len=24),
        [
            _OPEN,
            _submit("r1", "s1", range(1, 11), 2),
            _step(2),
            {"do": "retract"},
            _step(4),
            _submit("r2", "s1", [4], 9),
            _step(2),
            {"do": "abort", "rid": "r2"},
            _step(1),
        ],
    ),
    "draft": (
        EngineConfig(total_tokens=28, draft=3, topk=2, rows=2, context_len=24),
        [_OPEN, _submit("r1", "s1", [1, 2, 3], 6), _step(4), {"do": "retract"}, _step(2)],
    ),
    "queue": (
        EngineConfig(total_tokens=16, max_running=1, rows=2, context_len=12, timeout=5),
        [
            _OPEN,
            {"do": "open", "session": "s2"},
            _submit("r1", "s1", [1, 2], 3),
            _submit("r2", "s2", [3, 4, 5], 2),
            _submit("r3", "s9", [6], 1),
            _step(2),
            _submit("r4", "s2", [6], 1),
            {"do": "close", "session": "s1"},
            _step(3),
            {"do": "tick", "seconds": 6},
        ],
    ),
    "page-16": (
        EngineConfig(page_size=16, total_tokens=80, chunk=16, rows=2, context_len=60),
        [
            _OPEN,
            _submit("r1", "s1", range(1, 21), 3),
            _step(4),
            _submit("r2", "s1", [2], 2),
            _step(2),
            {"do": "pause"},
            {"do": "continue"},
            {"do": "abort_all"},
            _step(1),
        ],
    ),
    "page-16-window": (
        EngineConfig(
            page_size=16, total_tokens=64, swa_tokens=48, window=8, draft=2, rows=2, context_len=48
        ),
        [
            _OPEN,
            _submit("r1", "s1", range(1, 19), 4),
            _step(3),
            _submit("r2", "s1", [5], 2),
            _step(2),
        ],
    ),
}
"""Small configurations and commands: they cover every kind of pool, page, chunk and draft."""
SEED = 7
BUGS = {
    "two-turns": "22862-no-free-tail",
    "shared-prefix": "22753-sticky-active",
    "window": "leak-swa",
    "chunks": "37502-parked-not-counted",
    "draft": "22897-no-trim",
    "queue": "22790d-two-in-flight",
}
"""Mutant for a life. If the life exposes the mutant, the trace is a counterexample."""
SPEC_MUTANT = "22213-double-count"
"""Source of the trace for `prove --mutant`. It has the spec's states and no commands."""


CAMPAIGN = ("--config", "p1-one", "--config", "p4-draft", "--steps", "8")
CAMPAIGNS = {"nothing": "reference", "found": "reference:leak-full"}
"""Engine of a journal, by the journal's name."""
SOURCES = b'"sources":"000000000000"'
"""Placeholder in a journal for the digest of the sources. A wrong digest prevents a resume."""


@cache
def files(kind: str) -> dict[str, bytes]:
    """Return the seed files of a kind, by name."""
    contents = {path.name: path.read_bytes() for path in sorted((FOLDER / kind).iterdir())}
    assert contents, f"{FOLDER / kind} is empty"
    current = SOURCES.replace(b"0" * 12, sources.digest().encode())
    return {name: data.replace(SOURCES, current) for name, data in contents.items()}


def write(folder: Path = FOLDER) -> None:
    """Write every file again."""
    for kind in ("traces", "logs", "baselines", "journals"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    for name, (config, commands) in LIVES.items():
        _put(folder / "traces" / f"{name}.itf.json", itf.to_itf(_trace(name, config, commands)))
        _log(config, commands, folder / "logs" / f"{name}.jsonl")
    _baselines(folder / "baselines")
    _journals(folder / "journals")
    _put(folder / "traces" / f"spec-{SPEC_MUTANT}.itf.json", _spec_trace())


def _put(path: Path, document: Any) -> None:
    """Write JSON without spaces: no person reads it."""
    path.write_text(json.dumps(document, separators=(",", ":"), ensure_ascii=False) + "\n")


def _spec_trace() -> Any:
    from slotproof.cli.prove_mutant import to_itf
    from slotproof_model.bugs.museum import EXHIBITS
    from slotproof_model.proofs.bounded import shortest

    counterexample = shortest(EXHIBITS[SPEC_MUTANT].spec, 1, 12)
    assert counterexample is not None
    return to_itf(counterexample)


def _trace(name: str, config: EngineConfig, commands: list[Command]) -> Trace:
    mutant = BUGS.get(name)
    engine = InProcessEngine(mutant)
    referee = play(engine, Setup(config, SEED), commands)
    spec = "reference" if mutant is None else f"reference:{mutant}"
    version = f"{engine.name} {engine.version}"
    violations = referee.log[-1].violations
    rows = rows_of(referee.log)
    return Trace(version, spec, "reference", config, SEED, rows, violations, False, name)


def _log(config: EngineConfig, commands: list[Command], path: Path) -> None:
    engine = LoggedEngine(InProcessEngine(), path)
    engine.reset(config, SEED)
    for command in commands:
        engine.do(command)
    engine.close()


def _baselines(folder: Path) -> None:
    crash = "INV-ALIVE.crash@step:AssertionError-session_id-already-has-a-slot"
    known = Baseline(
        (
            Group("double-count", "#22213", "sglang 0.5.10*", ("INV-ONCE.reported@T-RESTORE",)),
            Group("crash", "known", "*", (crash, "INV-OWNER.lost@T-EXTEND")),
            Group("to-explain", "", "reference 1", ("INV-OWNER.lost@T-EXTEND",)),
        )
    )
    baseline.save(known, folder / "three.json")
    baseline.save(Baseline(), folder / "none.json")


def _journals(folder: Path) -> None:
    digest = f'"sources":"{sources.digest()}"'.encode()
    with tempfile.TemporaryDirectory() as name:
        for journal, engine in CAMPAIGNS.items():
            asked = ["--engine", engine, "--examples", "6", *CAMPAIGN]
            status(["run", "--all", "--out", f"{name}/{journal}", *asked])
            (made,) = Path(name, journal).glob("*.jsonl")
            (folder / f"{journal}.jsonl").write_bytes(made.read_bytes().replace(digest, SOURCES))


if __name__ == "__main__":
    write()
