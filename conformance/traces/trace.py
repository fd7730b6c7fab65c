"""A counterexample: what was run, on what, and what it showed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from slotproof.conformance.observation import Violation
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.protocol.snapshot import Snapshot
from slotproof.conformance.referee import Iteration


@dataclass(frozen=True)
class Row:
    """One command of a trace and the figures after it. Tokens."""

    command: Command
    transitions: list[str] = field(default_factory=list)
    pools: dict[str, dict[str, int]] = field(default_factory=dict)
    sessions: dict[str, dict[str, Any]] = field(default_factory=dict)
    slots: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Trace:
    """Everything that is needed to run it again, and what was seen the first time."""

    engine: str
    """The name and version that the engine gave."""
    spec: str
    """The ``--engine`` argument it was found with."""
    profile: str
    config: EngineConfig
    seed: int
    rows: list[Row]
    violations: list[Violation]
    minimal: bool
    """No single command can be dropped, no single number lowered."""
    config_name: str = ""
    chosen_profile: str | None = None
    """The profile that was named instead of the engine's own."""
    set_aside: tuple[str, ...] = ()
    """Clauses that were passed over."""

    @property
    def commands(self) -> list[Command]:
        return [row.command for row in self.rows]


def rows_of(log: Iterable[Iteration]) -> list[Row]:
    """The rows of what a referee logged."""
    result: list[Row] = []
    last = Row({"do": "step", "n": 0})
    for entry in log:
        transitions = [
            event[0] for snapshot in entry.snapshots for event in snapshot.get("events", [])
        ]
        if entry.snapshots:
            last = figures(entry.command, entry.snapshots[-1], transitions)
        else:
            last = Row(entry.command, [], last.pools, last.sessions, last.slots, last.requests)
        result.append(last)
    return result


_POOL = ("total", "available", "evictable", "protected")
_SLOT = ("row", "C", "A", "Q", "E", "lent")
_REQUEST = ("kind", "phase", "row", "C", "A", "Q", "E", "prompt", "output")
_SESSION = ("open", "closing", "inflight", "history")


def figures(command: Command, snapshot: Snapshot, transitions: list[str]) -> Row:
    """What a reader wants to see of a snapshot."""
    pools: dict[str, dict[str, int]] = {}
    for name, pool in snapshot["pools"].items():
        pools[name] = {key: pool[key] for key in _POOL}  # type: ignore[literal-required]
        reported = snapshot["checker"]["pools"].get(name)
        if reported is not None:
            pools[name] |= {"held": reported["held"], "uncached": reported["uncached"]}
    return Row(
        command,
        transitions,
        pools,
        {sid: _pick(view, _SESSION) for sid, view in snapshot["sessions"].items()},
        {sid: _pick(view, _SLOT) for sid, view in snapshot["slots"].items()},
        {rid: _pick(view, _REQUEST) for rid, view in snapshot["requests"].items()},
    )


def _pick(view: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: view[name] for name in names if view[name] is not None}
