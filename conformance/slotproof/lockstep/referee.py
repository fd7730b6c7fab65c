"""The referee. It drives one engine, applies the engine's events to the spec and asks all oracles.

Commands run one at a time. After every iteration the oracles compare the snapshots before and after
it. Other packages only generate commands or show results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from slotproof.engines.base import Capabilities, Engine, EngineFailed
from slotproof.lockstep.abstraction import abstract
from slotproof.lockstep.client import CLOSES, Client
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.observation import STATE, Observation, ObservationRecord, Violation
from slotproof.lockstep.oracles import ORACLES, Oracle
from slotproof.lockstep.oracles.matches import WHOLE
from slotproof.lockstep.published import Published
from slotproof.lockstep.waits import slack
from slotproof.protocol.commands import Command
from slotproof.protocol.config import CHOSEN, EngineConfig
from slotproof.protocol.snapshot import Event, Hashed, Snapshot, nonsense
from slotproof.support import interrupts
from slotproof_model.evaluation.world import Constants, World
from slotproof_model.spec.profiles import Profile, profile_named


@dataclass
class Iteration:
    """Result of one command, for traces and reports."""

    command: Command
    snapshots: list[Snapshot] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    passed: list[Violation] = field(default_factory=list)
    """Accepted violations, after which the example continued."""
    judged: int = 0
    """Number of judged snapshots. The violations belong to the last of these snapshots."""
    observations: list[ObservationRecord] = field(default_factory=list)
    """Observations that the oracles judged, for reports."""

    @property
    def events(self) -> list[Event]:
        """Events of the last judged iteration. Empty for an engine without events."""
        return self.snapshots[self.judged - 1].get("events", []) if self.judged else []


@dataclass(frozen=True)
class Setup:
    """Setup of an example. The setup and the commands are enough to run the example again."""

    config: EngineConfig
    seed: int = 0
    profile: str | None = None
    """Name of a profile that replaces the engine's own. No configuration changes this profile."""
    ignored: tuple[str, ...] = ()
    """Clauses whose violations are only counted, because of known bugs in reporting."""
    oracles: Mapping[str, Oracle] = field(default_factory=lambda: ORACLES)
    """Oracles to ask. A crash is reported by the referee itself, without an oracle."""

    def referee(
        self,
        engine: Engine,
        coverage: Coverage | None = None,
        passes: Callable[[Iteration], bool] = lambda _: False,
    ) -> Referee:
        """Return a referee for one example, with a fresh engine."""
        return Referee(engine, self, coverage, passes)

    def choices(self, offered: Capabilities) -> Profile:
        """Return the named profile, or else the engine's own, adapted to the configuration."""
        if self.profile is not None:
            return profile_named(self.profile)
        return adapted(offered.profile, self.config)

    def constants(self, offered: Capabilities, width: int | None = None) -> Constants:
        """Return the constants of the spec. ``width``: width of the engine's rows, if known."""
        config, choices = self.config, self.choices(offered)
        width = config.context_len if width is None else width
        # With slack as long as a row, no KV must be published.
        spare = width if config.no_tree or WHOLE in offered.not_observed else slack(config, offered)
        return Constants(config.page_size, width, config.window, choices, spare, config.batches)


def adapted(profile: str, config: EngineConfig) -> Profile:
    """Return the profile with this name, adapted to the configuration."""
    base = profile_named(profile)
    keeps = config.retract == "keep" and base.choices["retract_keeps"]
    made: Any = {**base.choices, "retract_keeps": keeps}
    for name in CHOSEN | {"aligned_reuse"}:
        made[name] |= getattr(config, name)
    return replace(base, base=base.name, says=made)


class OutOfTime(BaseException):
    """Signal that the time limit is reached. It is no error of the engine or of slotproof."""


def play(
    engine: Engine,
    setup: Setup,
    commands: Iterable[Command],
    passes: Callable[[Iteration], bool] = lambda _: False,
    stop: Callable[[], bool] = lambda: False,
) -> Referee:
    """Run commands on a fresh engine, up to the first violation that ``passes`` does not accept.

    Raises :class:`OutOfTime` if ``stop`` is true before a command, and ``KeyboardInterrupt`` on an
    interrupt. In both cases the results so far are lost.

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
    """Judge of one example: a fresh engine and its commands."""

    def __init__(
        self,
        engine: Engine,
        setup: Setup,
        coverage: Coverage | None = None,
        passes: Callable[[Iteration], bool] = lambda _: False,
    ) -> None:
        """Reset the engine. If ``passes`` accepts the violations of an iteration, the example
        continues and ignores the violated clauses from then on."""
        self.engine = engine
        self.config = config = setup.config
        self.oracles = setup.oracles
        self.passes = passes
        self.coverage = coverage if coverage is not None else Coverage()
        self.ignored = frozenset(setup.ignored)
        offered = engine.capabilities
        profile = setup.choices(offered)
        hears = CLOSES not in offered.not_observed
        self.client = Client(hears, profile.choices, "closed" in offered.answers)
        self.constants = setup.constants(offered)
        self.snapshot = empty_snapshot()
        self.world: World | None = None
        self.last: Observation | None = None
        """Observation of the previous iteration. None if its World has changed since."""
        self.quiet: frozenset[Oracle] = frozenset()
        """Oracles that reported no violation in the previous iteration."""
        self.injected = False
        """True once a driver injected draft tokens. The KV then lacks the writes of a verify round,
        so tokens can't be judged for the rest of the example."""
        self.published = Published(config)
        self.log: list[Iteration] = []
        self._stillborn: list[Violation] = []
        try:
            with interrupts.released():
                engine.reset(config, setup.seed)
        except EngineFailed as failure:
            self._stillborn = [_died(failure, f"on reset: {failure}")]

    def do(self, command: Command) -> list[Violation]:
        """Run a command. Return the violations of the first iteration with a violation.

        Raises ``KeyboardInterrupt`` after an interrupt, without a verdict on the command. An
        exception from an oracle is a bug of slotproof and is raised: oracles only get snapshots
        that passed :func:`~slotproof.protocol.snapshot.nonsense`.

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
                    text = f"the snapshot is invalid: {wrong}"
                    entry.violations = [Violation("INV-ALIVE", "crash", text, fault="nonsense")]
                    break
                entry.violations = self.judge(snapshot)
                entry.judged += 1
                if len(entry.snapshots) > 1:
                    entry.violations = [
                        replace(violation, iteration=entry.judged) for violation in entry.violations
                    ]
                if entry.violations and self.passes(entry):
                    clauses = [violation.clause for violation in entry.violations]
                    self.coverage.ignored.update(clauses)
                    self.ignored |= set(clauses)
                    entry.passed += entry.violations
                    entry.violations = []
                if entry.violations:
                    break
        except EngineFailed as failure:
            entry.violations = [_died(failure, str(failure))]
        interrupts.check()  # A command is judged completely or not at all.
        return entry.violations

    def judge(self, snapshot: Snapshot) -> list[Violation]:
        """Ask all oracles about one iteration."""
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
        # All values are compared, because an engine may change a value without reporting an event.
        shown: tuple[Any, Any] = self.snapshot, snapshot
        still = last is not None and all(shown[0][part] == shown[1][part] for part in STATE)
        # Without events the spec's World stays. An unchanged snapshot has the same World.
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
            if reported := list(oracle(seen)):
                violations += [replace(violation, oracle=name) for violation in reported]
            else:
                quiet.append(oracle)
        self.client.settle(snapshot["sessions"], snapshot["iter"] > self.snapshot["iter"])
        self.log[-1].observations.append(seen.record())
        self.snapshot, self.world = snapshot, after
        self.last, self.quiet = seen, frozenset(quiet)
        return self.pass_over(violations)

    def nonsense(self, snapshot: Snapshot) -> str | None:
        """Return why the snapshot can't be judged, or None. Limits are numbers of iterations, so
        the engine must count its iterations correctly."""
        before, after = self.snapshot["iter"], snapshot["iter"]
        if after < before + (self.log[-1].command["do"] == "step"):
            return f"iter is {after} after {before}, but it must count iterations since the reset"
        read, waiting = snapshot["consumed"], len(self.client.unread)
        if read > waiting:
            return f"consumed is {read}, but only {waiting} unread commands were sent"
        return nonsense(snapshot, self.config)

    def looking(self, snapshot: Snapshot) -> Mapping[str, Oracle]:
        """Return the oracles to ask about the snapshot. By default all are asked."""
        del snapshot
        return self.oracles

    def pass_over(self, violations: list[Violation]) -> list[Violation]:
        """Count the violations of ignored clauses and return all other violations."""
        known = [violation.clause for violation in violations if violation.clause in self.ignored]
        self.coverage.ignored.update(known)
        return [violation for violation in violations if violation.clause not in self.ignored]

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
    """Return the INV-ALIVE violation for a failure of the engine or its driver."""
    return Violation("INV-ALIVE", failure.how, text, said=failure.trace, fault=failure.fault)


def empty_snapshot() -> Snapshot:
    """Return the snapshot before the first iteration, in which nothing is in use."""
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
    """Return the empty snapshot with the first snapshot's pools and rows, all of them free."""
    pools: dict[str, Any] = {}
    for name, pool in first["pools"].items():
        pools[name] = {**pool, "available": pool["total"], "evictable": 0, "protected": 0}
    rows = first["rows"]["total"]
    free: Any = range(rows)  # a driver may report any number
    return {**empty, "pools": pools, "rows": {"total": rows, "free": free, "used": {}}}
