"""The referee: drives one engine, keeps the spec in step, asks every oracle.

One command at a time; after every iteration the oracles look at the snapshots
around it. This is the whole of lockstep; everything else generates commands or
shows results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slotproof.engines.base import Capabilities, Engine, EngineFailed
from slotproof.lockstep.abstraction import abstract
from slotproof.lockstep.client import CLOSES, Client
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.observation import Observation, ObservationRecord, Violation, same_state
from slotproof.lockstep.oracles import ORACLES, Oracle
from slotproof.lockstep.published import Published
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CHOSEN, EngineConfig
from slotproof.protocol.snapshot import Event, Hashed, Snapshot, nonsense
from slotproof.support import interrupts
from slotproof_model.evaluation.world import Constants, World
from slotproof_model.spec.profiles import Profile, profile_named


@dataclass
class Iteration:
    """What one command led to: for traces and for people."""

    command: Command
    snapshots: list[Snapshot] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    passed: list[Violation] = field(default_factory=list)
    """Violations that the example went on after."""
    judged: int = 0
    """Snapshots that were looked at; the violations are those of the last of them."""
    observations: list[ObservationRecord] = field(default_factory=list)
    """What the oracles looked at, for whoever shows it."""

    @property
    def events(self) -> list[Event]:
        """Those of the iteration judged last; none where the engine tells of none."""
        return self.snapshots[self.judged - 1].get("events", []) if self.judged else []


@dataclass(frozen=True)
class Setup:
    """What an example runs under: with its commands, all that it takes to run it again."""

    config: EngineConfig
    seed: int = 0
    profile: str | None = None
    """Instead of the engine's own; it then stands as it is."""
    ignored: tuple[str, ...] = ()
    """Clauses whose violation is counted and passed over: known, and only in the reporting."""
    oracles: Mapping[str, Oracle] = field(default_factory=lambda: ORACLES)
    """Who looks; the referee itself sees a crash in any case."""

    def referee(
        self,
        engine: Engine,
        coverage: Coverage | None = None,
        passes: Callable[[Iteration], bool] = lambda _: False,
    ) -> Referee:
        """A judge of one example on this engine, which is made fresh for it."""
        return Referee(engine, self, coverage, passes)

    def choices(self, offered: Capabilities) -> Profile:
        """The profile that is named, or the engine's with what the configuration says on top."""
        if self.profile is not None:
            return profile_named(self.profile)
        base = profile_named(offered.profile)
        keeps = self.config.retract == "keep" and base.choices["retract_keeps"]
        made: Any = {**base.choices, "retract_keeps": keeps}
        for name in CHOSEN | {"aligned_reuse"}:
            made[name] |= getattr(self.config, name)
        return replace(base, base=base.name, says=made)


class OutOfTime(BaseException):
    """The time is over: not an error of anything."""


def play(
    engine: Engine,
    setup: Setup,
    commands: Iterable[Command],
    passes: Callable[[Iteration], bool] = lambda _: False,
    stop: Callable[[], bool] = lambda: False,
) -> Referee:
    """Run commands on a fresh engine, up to the first violation that is not passed over.

    Raises :class:`OutOfTime` where it has to ``stop`` before a command, and
    ``KeyboardInterrupt`` if one arrives: then what was seen so far is not judged.

    >>> from slotproof.engines.reference import InProcessEngine
    >>> commands = [{"do": "open", "session": "s1"}, {"do": "step", "n": 1}]
    >>> referee = play(InProcessEngine(), Setup(EngineConfig()), commands)
    >>> [event[0] for event in referee.log[-1].events], referee.log[-1].violations
    (['T-OPEN'], [])
    """
    if stop():
        raise OutOfTime
    referee = setup.referee(engine, passes=passes)
    for command in commands:
        if stop():
            raise OutOfTime
        if referee.do(command):
            break
    return referee


class Referee:
    """Judges one example: a fresh engine and the commands that follow."""

    def __init__(
        self,
        engine: Engine,
        setup: Setup,
        coverage: Coverage | None = None,
        passes: Callable[[Iteration], bool] = lambda _: False,
    ) -> None:
        """``passes`` may say of violations that the example goes on: their clauses are then
        ignored for the rest of it."""
        self.engine = engine
        self.config = config = setup.config
        self.oracles = setup.oracles
        self.passes = passes
        self.coverage = coverage if coverage is not None else Coverage()
        self.ignored = frozenset(setup.ignored)
        offered = engine.capabilities
        profile = setup.choices(offered)
        self.client = Client(
            CLOSES not in offered.not_observed, profile.choices, "closed" in offered.answers
        )
        self.constants = Constants(config.page_size, config.context_len, config.window, profile)
        self.snapshot = empty_snapshot()
        self.world: World | None = None
        self.last: Observation | None = None
        """Of the iteration before, unless the World was moved since."""
        self.quiet: frozenset[Oracle] = frozenset()
        """Oracles that found nothing in it."""
        self.injected = False
        """A driver put a draft in by hand: what a verify round would have written is missing
        from the KV, so tokens are no oracle for the rest of the example."""
        self.published = Published(config)
        self.log: list[Iteration] = []
        self._stillborn: list[Violation] = []
        try:
            with interrupts.released():
                engine.reset(config, setup.seed)
        except EngineFailed as failure:
            self._stillborn = [_died(failure, f"on reset: {failure}")]

    def do(self, command: Command) -> list[Violation]:
        """Carry a command out; the clauses violated at the first bad iteration.

        ``KeyboardInterrupt`` where one arrived: then nothing of the command is judged. What an
        oracle raises is our own fault, and goes through: whatever an engine shows by then has
        passed :func:`~slotproof.protocol.snapshot.nonsense`.

        >>> from slotproof.engines.reference import InProcessEngine
        >>> referee = Setup(EngineConfig()).referee(InProcessEngine())
        >>> referee.do({"do": "open", "session": "s1"}), referee.do({"do": "step", "n": 1})
        ([], [])
        """
        self.coverage.commands += 1
        self.client.sends(command)
        entry = Iteration(command)
        self.log.append(entry)
        if self._stillborn:
            entry.violations = self._stillborn
            return self._stillborn
        try:
            with interrupts.released():
                entry.snapshots = self.engine.do(command)
            for snapshot in entry.snapshots:
                if (wrong := self.nonsense(snapshot)) is not None:
                    text = f"the snapshot makes no sense: {wrong}"
                    entry.violations = [Violation("INV-ALIVE", "crash", text, fault="nonsense")]
                    break
                entry.violations = self.judge(snapshot)
                entry.judged += 1
                if len(entry.snapshots) > 1:
                    entry.violations = [
                        replace(each, iteration=entry.judged) for each in entry.violations
                    ]
                if entry.violations and self.passes(entry):
                    clauses = [each.clause for each in entry.violations]
                    self.coverage.ignored.update(clauses)
                    self.ignored |= set(clauses)
                    entry.passed += entry.violations
                    entry.violations = []
                if entry.violations:
                    break
        except EngineFailed as failure:
            entry.violations = [_died(failure, str(failure))]
        interrupts.check()  # also one that came while the oracles looked: all or nothing
        return entry.violations

    def judge(self, snapshot: Snapshot) -> list[Violation]:
        """Ask every oracle about one iteration."""
        self.coverage.iterations += 1
        self.coverage.checked["INV-ALIVE"] += 1
        recompute: dict[str, list[int]] = {}
        self.injected = self.injected or snapshot.get("injected", False)
        self.client.reads(snapshot["consumed"])
        for message in snapshot["messages"]:
            self.client.hears(message)
            if message["type"] == "finish":
                recompute.update(self._recomputed(message["rid"]))
        if self.world is None and "width" in snapshot["rows"]:
            self.constants = replace(self.constants, width=snapshot["rows"]["width"])
        before = self.world or abstract(with_totals(self.snapshot, snapshot), self.constants)
        last = self.last if self.last is not None and self.last.world is before else None
        still = last is not None and same_state(self.snapshot, snapshot)
        # No event moves the World before, so where nothing changed it is that of the snapshot, too.
        idle = still and not snapshot.get("events")
        after = before if idle else abstract(snapshot, self.constants)
        seen = Observation(
            config=self.config,
            capabilities=self.engine.capabilities,
            client=self.client,
            coverage=self.coverage,
            snapshot=snapshot,
            world=after,
            previous=self.snapshot,
            before=before,
            recompute=recompute,
            published=self.published,
            quiet=self.quiet if still else frozenset(),
        )
        if last is not None and still:
            seen.carry(last)
        violations: list[Violation] = []
        quiet = []
        for name, oracle in self.looking(snapshot).items():
            if found := list(oracle(seen)):
                violations += [replace(each, oracle=name) for each in found]
            else:
                quiet.append(oracle)
        self.client.settle(snapshot["sessions"], snapshot["iter"] > self.snapshot["iter"])
        self.log[-1].observations.append(seen.record())
        self.snapshot, self.world = snapshot, after
        self.last, self.quiet = seen, frozenset(quiet)
        return self.pass_over(violations)

    def nonsense(self, snapshot: Snapshot) -> str | None:
        """Why it can't be judged at all, if so. Of who counts no iterations nobody can say how long
        anything takes."""
        before, after = self.snapshot["iter"], snapshot["iter"]
        if after < before + (self.log[-1].command["do"] == "step"):
            return f"iter is {after} after {before}; it counts the iterations since the reset"
        read, waiting = snapshot["consumed"], len(self.client.unread)
        if read > waiting:
            return f"consumed is {read}; {waiting} commands were sent and not read before"
        return nonsense(snapshot, self.config)

    def looking(self, snapshot: Snapshot) -> Mapping[str, Oracle]:
        """Which oracles look at this snapshot: all of them."""
        del snapshot
        return self.oracles

    def pass_over(self, violations: list[Violation]) -> list[Violation]:
        """The violations without those of clauses that are ignored, which are counted."""
        known = [each.clause for each in violations if each.clause in self.ignored]
        self.coverage.ignored.update(known)
        return [each for each in violations if each.clause not in self.ignored]

    def _recomputed(self, rid: str) -> dict[str, list[int]]:
        sent = self.client.requests.get(rid)
        if sent is None or not sent.output or self.injected or isinstance(sent.prompt, Hashed):
            return {}
        owed = sent.refusable is False and sent.most <= self.config.context_len
        if sent.reason == "abort" and not (owed and len(sent.output) <= sent.max_new):
            return {}
        with interrupts.released():
            tokens = self.engine.recompute(sent.prompt, len(sent.output))
        return {} if tokens is None else {rid: tokens}


def _died(failure: EngineFailed, text: str) -> Violation:
    """INV-ALIVE, broken as the engine or its driver failed."""
    return Violation("INV-ALIVE", failure.how, text, said=failure.trace, fault=failure.fault)


def empty_snapshot() -> Snapshot:
    """What was there before the first iteration: nothing."""
    return {
        "iter": 0,
        "consumed": 0,
        "messages": [],
        "pools": {},
        "tree": {},
        "rows": {"total": 0, "free": [], "used": {}},
        "sessions": {},
        "slots": {},
        "requests": {},
        "checker": {"ran": False, "level": 0, "pools": {}, "verdict": "off", "message": ""},
    }


def with_totals(empty: Snapshot, first: Snapshot) -> Snapshot:
    """The empty snapshot with the pools that the first one shows, all of them free."""
    pools: dict[str, Any] = {}
    for name, pool in first["pools"].items():
        total = pool["total"]
        pools[name] = {**pool, "available": total, "evictable": 0, "protected": 0}
    rows = first["rows"]["total"]
    free: Any = range(rows)  # a driver may say any number
    return {**empty, "pools": pools, "rows": {"total": rows, "free": free, "used": {}}}
