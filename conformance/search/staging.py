"""A counterexample of the spec, staged on an engine: transitions become client commands.

What a client does (open, submit, abort, …) is sent; what the engine does by itself
(match, extend, save, …) is stepped for. An engine is free to do more in an
iteration than one transition, so this may show the bug earlier, or not at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slotproof.conformance.engines.base import Engine
from slotproof.conformance.lockstep.referee import Referee
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import BadConfig, EngineConfig
from slotproof.conformance.search.machine import prompt

if TYPE_CHECKING:
    from slotproof.model.bounded import Counterexample, Move

SESSION = "s1"
STEP: Command = {"do": "step", "n": 1}
PATIENCE = 4
"""Iterations that the engine gets beyond the counterexample: it may be late with something."""


def configuration(found: Counterexample) -> EngineConfig:
    """Sizes of the counterexample, no smaller than an engine can have; room for drafts if needed.

    :class:`BadConfig` where there is no such engine.
    """
    page = found.page_size
    start = found.start

    def tokens(name: str) -> int:
        return -(-max(start[name], 8 * page) // page) * page

    drafted = [move.params.get("d", 0) for move in found.moves]
    widest = max([start["config.width"], 8, *(2 * each for each in _lengths(found))])
    window = start["config.window"] if start["config.swa"] else 0
    return EngineConfig(
        page_size=page,
        total_tokens=tokens("full.total"),
        swa_tokens=tokens("swa.total") if window else 0,
        window=window,
        rows=max(start["rows.total"], 2),
        max_running=2,
        context_len=widest,
        draft=max([3 if each > 1 else 0 for each in drafted], default=0),
        chunk=page if any(move.transition == "T-PARK" for move in found.moves) else 0,
        retract="keep" if start["config.retract_keeps"] else "wipe",
        aligned_reuse=bool(start["config.aligned_reuse"]),
    )


def _lengths(found: Counterexample) -> list[int]:
    return [value for move in found.moves for name, value in move.after.items() if ".A" in name]


def stage(engine: Engine, found: Counterexample) -> Referee | None:
    """Play the counterexample; ``None`` where no engine can have its sizes."""
    try:
        config = configuration(found)
    except BadConfig:
        return None
    referee = Referee(engine, config)
    steps = 0
    for number, move in enumerate(found.moves):
        for command in _commands(found.moves, number, config):
            if _steps(referee, steps) or referee.do(command):
                return referee
            steps = 0
        if move.transition not in _CLIENT:
            steps = max(1, steps + (move.transition in _BATCHES))
    _steps(referee, steps + PATIENCE)
    return referee


def _steps(referee: Referee, number: int) -> bool:
    return any(referee.do(STEP) for _ in range(number))


_BATCHES = ("T-EXTEND", "T-DECODE")
"""Transitions that take an iteration each."""
_CLIENT = {
    "T-OPEN",
    "T-CLOSE",
    "T-CLOSE-DEFER",
    "T-REAP",
    "T-SUBMIT",
    "T-REJECT",
    "T-DOOM",
    "T-PLAIN-SUBMIT",
    "T-ABORT",
    "T-ABORT-WAITING",
    "T-ABORT-PARTIAL",
    "T-RETRACT",
    "T-RETRACT-WIPE",
    "T-EVICT",
}


def _commands(moves: Sequence[Move], number: int, config: EngineConfig) -> list[Command]:
    """What a client sends for this move; nothing for what the engine does by itself."""
    move = moves[number]
    rid = f"r{sum(each.transition in _SUBMITS for each in moves[: number + 1])}"
    match move.transition:
        case "T-OPEN":
            return [{"do": "open", "session": SESSION}]
        case "T-SUBMIT" | "T-REJECT":
            doomed = any(each.transition == "T-DOOM" for each in _rest(moves, number))
            new = config.context_len + 1 if doomed else move.params.get("new", 1)
            return [_submit(SESSION, rid, max(new, 1), _output(moves, number))]
        case "T-PLAIN-SUBMIT":
            return [_submit(None, rid, move.params["prompt"], _output(moves, number))]
        case "T-CLOSE" | "T-CLOSE-DEFER":
            return [{"do": "close", "session": SESSION}]
        case "T-REAP":
            return [{"do": "tick", "seconds": config.timeout + 1}]
        case "T-ABORT" | "T-ABORT-WAITING" | "T-ABORT-PARTIAL":
            return [{"do": "abort", "rid": rid}]
        case "T-RETRACT" | "T-RETRACT-WIPE":
            return [{"do": "retract"}]
        case "T-EVICT":
            return [{"do": "evict", "tokens": max(move.params["n"], 1)}]
    return []


_SUBMITS = ("T-SUBMIT", "T-REJECT", "T-PLAIN-SUBMIT")


def _rest(moves: Sequence[Move], number: int) -> list[Move]:
    """The moves up to the next turn."""
    rest: list[Move] = []
    for move in moves[number + 1 :]:
        if move.transition in _SUBMITS:
            break
        rest.append(move)
    return rest


def _output(moves: Sequence[Move], number: int) -> int:
    """How many tokens the request generates: what it finishes with, else enough to go on."""
    for move in _rest(moves, number):
        if move.transition in ("T-SAVE", "T-PLAIN-FINISH"):
            return max(1, move.params.get("F", 1))
    return 4


def _submit(session: str | None, rid: str, length: int, output: int) -> Command:
    return {
        "do": "submit",
        "session": session,
        "rid": rid,
        "tokens": prompt(0, length),
        "max_new": output,
        "stop": [],
    }
