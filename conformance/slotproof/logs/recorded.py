"""An engine that answers from a log, and the referee that judges the log.

Parts missing from an iteration's line are not judged. Oracles for pages run only if pages are
recorded. Without a state, the spec follows the events, and must match the next recorded state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

from slotproof.engines.base import EngineFailed
from slotproof.lockstep.abstraction import abstract
from slotproof.lockstep.client import Sent
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.observation import Violation
from slotproof.lockstep.oracles import Oracle, progress
from slotproof.lockstep.oracles.steps import follow
from slotproof.lockstep.referee import Referee, Setup, empty_snapshot
from slotproof.logs.format import Header
from slotproof.protocol.commands import AT_ONCE, Command, hashed
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Message, Snapshot, nonsense
from slotproof_model.evaluation.layout import initial_pools
from slotproof_model.evaluation.world import World

_KEPT = 256
"""Number of answered requests that are stored, so that a second answer is noticed. The messages
that wait for the next state have the same limit."""


class Senseless(ValueError):
    """A line that fits the schema but contradicts itself or an earlier line."""


class RecordedEngine:
    """An engine that returns the iterations of a log in order."""

    def __init__(self, header: Header) -> None:
        self.name = f"{header.engine} (recorded)"
        self.version = header.version
        self.capabilities = header.capabilities
        self.next: Snapshot | EngineFailed | None = None

    def reset(self, config: EngineConfig, seed: int) -> None:
        """Do nothing: a log begins with a fresh engine."""

    def do(self, command: Command) -> list[Snapshot]:
        """Return the iteration read last, if the command is an iteration."""
        if command["do"] not in AT_ONCE:
            return []
        assert self.next is not None
        answer, self.next = self.next, None
        if isinstance(answer, EngineFailed):
            raise answer
        return [answer]

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        """Return None: a log has no engine to ask."""
        del tokens, count
        return None

    def close(self) -> None:
        """Do nothing: a log has nothing to release."""


class LogReferee(Referee):
    """Referee of one recorded engine. Judges the parts that were recorded."""

    def __init__(
        self, header: Header, setup: Setup, coverage: Coverage, seen: Counter[str]
    ) -> None:
        self.recorded = RecordedEngine(header)
        self.records = header.records
        self.seen = seen
        """Number of iterations, and of iterations with a state, pages, a check, or content."""
        self._gap = False
        """True if the previous iteration, or its state, was not recorded."""
        self._shown: set[str] = set()
        self._unheard: list[Message] = []
        self._consumed = 0
        super().__init__(self.recorded, setup, coverage)

    @property
    def told(self) -> bool:
        """True if the log has both the commands of clients and the messages to clients."""
        return {"commands", "messages"} <= self.records

    def judge(self, snapshot: Snapshot) -> list[Violation]:
        """Judge one line by its state. A line without a state is judged by its events.

        Raises :class:`Senseless` if the line contradicts itself.
        """
        shown = parts_of(snapshot)
        self.seen.update(shown | {"iterations"})
        self._shown = shown
        whole = self._completed(snapshot)
        self._sensible(whole)
        violations = super().judge(whole) if "state" in shown else self._without_state(whole)
        self._gap = "state" not in shown
        self._forget_answered()
        return violations

    def begin(self, line: Snapshot, clients: Mapping[str, Any] | None) -> None:
        """Start the spec in the state of this line, without judging the line.

        ``clients``: the clients' sessions and requests, or None to leave the clients unchanged.
        """
        whole = filled(line)
        self._sensible(whole)
        self.hear({**line, "messages": [], "consumed": 0})
        self.snapshot, self.world = whole, abstract(whole, self.constants)
        if clients is not None:
            told = clients["sessions"].items()
            self.client.history = {sid: hashed(tokens) for sid, tokens in told}
            self.client.paused = clients["paused"]
            for rid, asked in clients["requests"].items():
                tokens = hashed(asked["tokens"])
                self.client.requests[rid] = Sent(asked["session"], tokens, asked["max_new"], [])

    def hear(self, line: Mapping[str, Any]) -> None:
        """Record the commands and messages up to this line, without judging the line."""
        self.client.reads(self._consumed + line.get("consumed", 0))
        for message in self._unheard + line.get("messages", []):
            self.client.hears(message)
        self._unheard, self._consumed = [], 0

    def _sensible(self, whole: Snapshot) -> None:
        if (wrong := nonsense(whole, self.config)) is not None:
            raise Senseless(f"the values contradict each other: {wrong}")

    def nonsense(self, snapshot: Snapshot) -> str | None:
        """Return None: :meth:`judge` has checked the completed line already."""
        del snapshot
        return None

    def looking(self, snapshot: Snapshot) -> Mapping[str, Oracle]:
        """Return the oracles whose whole input is recorded."""
        blind = {"contract", "sessions", "limits"}  # a log lacks the rules added by a deployment
        blind.add("matches")  # Publications may be unknown: earlier ones, and those without pages.
        if "pages" not in self._shown:
            blind |= {"pages", "locks"}
        if not self.told:
            blind |= {"history", "answers", "progress"}
        if self._gap or snapshot["iter"] > self.snapshot["iter"] + 1:
            blind.add("progress")
            progress.from_here(self.client, self.config)
            self.seen["gaps"] += 1
        return {name: oracle for name, oracle in self.oracles.items() if name not in blind}

    def _completed(self, line: Snapshot) -> Snapshot:
        """Return a complete snapshot, with missing parts empty and pending messages first."""
        consumed = line.get("consumed", len(self.client.unread) - self._consumed)
        whole: Any = {
            **filled(line),
            "messages": self._unheard + line.get("messages", []),
            "consumed": self._consumed + consumed,
        }
        self._unheard, self._consumed = [], 0
        if not self.told:
            whole["messages"] = []
        if "events" in self.records:
            whole.setdefault("events", [])
        else:
            whole.pop("events", None)
        return cast("Snapshot", whole)

    def _without_state(self, whole: Snapshot) -> list[Violation]:
        """Apply the events to the spec. The clients get their messages at the next state."""
        self.coverage.iterations += 1
        self._unheard, self._consumed = list(whole["messages"]), whole["consumed"]
        if self.world is None:
            config = self.config
            pools = initial_pools(config.total_tokens, config.swa_tokens, config.rows)
            self.world = World(self.constants, pools)
        self.last = None  # Its World changes below.
        return self.pass_over(list(follow(self.world, whole.get("events", []), self.coverage)))

    def _forget_answered(self) -> None:
        """Drop answered requests and closed sessions, as a log may record a server for months."""
        if "state" in self._shown:
            for sid in self.client.history.keys() - self.snapshot["sessions"].keys():
                del self.client.history[sid]
        elif len(self._unheard) > _KEPT:
            self.hear({})
        if self.world is not None and len(self.world.writers) > 2 * _KEPT:
            self.world.writers.clear()
        requests = self.client.requests
        if len(requests) > 2 * _KEPT:
            answered = [rid for rid, sent in requests.items() if sent.answers]
            for rid in answered[:-_KEPT]:
                del requests[rid]


def filled(line: Snapshot) -> Snapshot:
    """Return the line as a snapshot in which missing parts are empty."""
    whole: Any = {**empty_snapshot(), **line}
    if "pools" in line:
        whole["pools"] = {name: {"free": [], **pool} for name, pool in line["pools"].items()}
        whole["rows"] = {"used": {}, **line["rows"]}
    return cast("Snapshot", whole)


def parts_of(line: Snapshot) -> set[str]:
    """Return the names of the snapshot parts on a line."""
    shown: set[str] = {part for part in ("checker", "content") if part in line}
    if "pools" in line:
        shown.add("state")
        if "tree" in line and "free" in line["pools"]["full"] and "used" in line["rows"]:
            shown.add("pages")
    return shown
