"""An engine that answers from a log, and the referee that judges it.

What an iteration's line leaves out is not judged: without pages no oracle of
pages, without a state the spec only follows the events, and the next state has
to be where they led.
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
from slotproof.protocol.commands import Command, hashed
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Message, Snapshot, nonsense
from slotproof_model.evaluation.layout import initial_pools
from slotproof_model.evaluation.world import World

_KEPT = 256
"""Answered requests that are remembered, so that a second answer is noticed; answers that wait to
be judged with a state."""


class Senseless(ValueError):
    """A line that fits the schema, and whose parts do not fit each other."""


class RecordedEngine:
    """Hands out what the log holds, one iteration at a time."""

    def __init__(self, header: Header) -> None:
        self.name = f"{header.engine} (recorded)"
        self.version = header.version
        self.capabilities = header.capabilities
        self.next: Snapshot | EngineFailed | None = None

    def reset(self, config: EngineConfig, seed: int) -> None:
        """A log begins where its engine was fresh."""

    def do(self, command: Command) -> list[Snapshot]:
        """The iteration that was read last, for what makes one."""
        if command["do"] not in ("step", "tick"):
            return []
        assert self.next is not None
        answer, self.next = self.next, None
        if isinstance(answer, EngineFailed):
            raise answer
        return [answer]

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        """A log has no engine to ask."""
        del tokens, count
        return None

    def close(self) -> None:
        """Nothing to let go of."""


class LogReferee(Referee):
    """Judges the iterations of one engine's life by what was recorded of them."""

    def __init__(
        self, header: Header, setup: Setup, coverage: Coverage, seen: Counter[str]
    ) -> None:
        self.recorded = RecordedEngine(header)
        self.records = header.records
        self.seen = seen
        """Iterations, and how many showed state, pages, checker, content."""
        self._gap = False
        """The iteration before this one was recorded without its state, or not at all."""
        self._shown: set[str] = set()
        self._unheard: list[Message] = []
        self._consumed = 0
        super().__init__(self.recorded, setup, coverage)

    @property
    def told(self) -> bool:
        """Whether the log has what clients sent and what they were told."""
        return {"commands", "messages"} <= self.records

    def judge(self, snapshot: Snapshot) -> list[Violation]:
        """Judge one line: with its state like any iteration, without it by its events.

        Raises :class:`Senseless` where its parts do not fit each other.
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
        """The state of this line is where the spec begins; it has been judged by nobody yet.

        ``clients`` is what they said and heard before; ``None``: what is known of them stands.
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
        """What clients said and heard up to this line, though nothing else of it is judged."""
        self.client.reads(self._consumed + line.get("consumed", 0))
        for message in self._unheard + line.get("messages", []):
            self.client.hears(message)
        self._unheard, self._consumed = [], 0

    def _sensible(self, whole: Snapshot) -> None:
        if (wrong := nonsense(whole, self.config)) is not None:
            raise Senseless(f"the figures make no sense together: {wrong}")

    def nonsense(self, snapshot: Snapshot) -> str | None:
        """Asked of the line with what it leaves out, by :meth:`judge`."""
        del snapshot
        return None

    def looking(self, snapshot: Snapshot) -> Mapping[str, Oracle]:
        """The oracles that have what they look at."""
        blind = {"contract", "sessions", "limits"}  # what a deployment adds to them is in no log
        blind.add("matches")  # what was published before, or without pages, is not known
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
        """The snapshot with what was left out; answers that were not judged yet go first."""
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
        """The spec follows the events; clients are heard with the next state."""
        self.coverage.iterations += 1
        self._unheard, self._consumed = list(whole["messages"]), whole["consumed"]
        if self.world is None:
            config = self.config
            pools = initial_pools(config.total_tokens, config.swa_tokens, config.rows)
            self.world = World(self.constants, pools)
        self.last = None  # its World is moved here
        return self.pass_over(list(follow(self.world, whole.get("events", []), self.coverage)))

    def _forget_answered(self) -> None:
        """A log may be as long as a server lives: requests that were answered are let go of, and
        sessions that are no more."""
        if "state" in self._shown:
            gone = self.client.history.keys() - self.snapshot["sessions"].keys()
            for sid in gone:
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
    """The line with nothing where it leaves something out."""
    whole: Any = {**empty_snapshot(), **line}
    if "pools" in line:
        whole["pools"] = {name: {"free": [], **pool} for name, pool in line["pools"].items()}
        whole["rows"] = {"used": {}, **line["rows"]}
    return cast("Snapshot", whole)


def parts_of(line: Snapshot) -> set[str]:
    """Which parts of a snapshot the line has."""
    shown: set[str] = {part for part in ("checker", "content") if part in line}
    if "pools" in line:
        shown.add("state")
        if "tree" in line and "free" in line["pools"]["full"] and "used" in line["rows"]:
            shown.add("pages")
    return shown
