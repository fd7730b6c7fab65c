"""Interface of an engine under test, its capabilities, and its failures."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from pydantic import TypeAdapter

from slotproof.environments.families import FAMILIES
from slotproof.protocol.build import Build
from slotproof.protocol.commands import ALWAYS, TICKS, Command
from slotproof.protocol.config import LATER, EngineConfig
from slotproof.protocol.snapshot import Snapshot
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transitions import TRANSITIONS


class EngineUnusable(Exception):
    """Error that ends slotproof with status 2: the engine can't start or take a configuration.

    >>> from slotproof import Scenario
    >>> Scenario("cmd:")
    Traceback (most recent call last):
        ...
    slotproof.engines.base.EngineUnusable: cmd: names no program
    """


How = Literal["crash", "hang"]


class EngineFailed(Exception):
    """Failure of the engine: an exception, a hang, a dead driver or invalid output (INV-ALIVE).

    ``trace``: the engine's traceback, or the beginning and end of the driver's standard error.
    """

    def __init__(
        self, how: How, message: str, trace: str = "", broken: bool = True, fault: str | None = None
    ) -> None:
        super().__init__(message)
        self.how, self.trace = how, trace
        self.fault = "hang" if how == "hang" else fault
        """Kind of failure of the driver itself: ``garbage``, ``nonsense``, ``death`` or ``hang``.
        None if the driver reported a failure of its engine."""
        self.broken = broken
        """True if the driver can't continue. False if the driver itself reported the failure."""


@dataclass(frozen=True)
class Capabilities:
    """Commands, features and limits of an engine (see Capabilities in the protocol)."""

    commands: frozenset[str]
    pools: tuple[str, ...] = ("full",)
    page_sizes: tuple[int, ...] = (1,)
    events: bool = False
    transitions: frozenset[str] = frozenset()
    profile: str = "reference"
    recompute: bool = False
    config: dict[str, list[Any]] = field(default_factory=dict)
    not_observed: dict[str, str] = field(default_factory=dict)
    whole_chunks: bool = False
    """The engine needs a chunk to be a whole number of pages."""
    rounds_in_chunks: bool = False
    """With chunked prefill, topk must be 1, and a chunk must be longer than a round's drafts."""
    shallow_rounds: bool = False
    """With drafts, at most two batches are under way."""
    double_reserve: bool = False
    """A speculative round reserves memory for two rounds, with separate pages for each branch."""
    margin: int = 0
    """Number of tokens that must stay free in context and pool, beyond the tokens of a request."""
    answers: dict[str, str] = field(default_factory=dict)
    """Answers of the engine beyond the protocol: a condition for each name. A name is a finish
    reason, ``refused`` or ``closed``. ``refused``: the engine may refuse to open a session that is
    not open. ``closed``: aborting a turn ends its session."""
    patches: tuple[str, ...] = ()
    """Names of the patches that the driver applied in its process. Each repairs a known bug."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Capabilities:
        """Return the capabilities given in a validated hello message. Unknown keys are dropped."""
        return TypeAdapter(cls).validate_python(data)

    def to_json(self) -> dict[str, Any]:
        """Return a dictionary for :meth:`from_json`. Sets become sorted lists."""
        kinds = {"commands": sorted(self.commands), "transitions": sorted(self.transitions)}
        return asdict(self) | kinds

    @property
    def seen_to_make(self) -> frozenset[str]:
        """Transitions that the engine's events report. Empty for an engine without events."""
        return self.transitions if self.events else frozenset()

    @property
    def unseen(self) -> dict[str, str]:
        """Facts that no snapshot of the engine shows, by name, each with the reason."""
        steps = {} if self.events else {"transitions": "the engine reports no events"}
        return {**self.not_observed, **steps}

    def senseless(self) -> str | None:
        """Return one line about the first impossible capability, or None."""
        if self.profile not in PROFILES:
            return f"there is no profile {self.profile!r}; there are: {', '.join(PROFILES)}"
        if unknown := sorted(self.transitions - TRANSITIONS.keys()):
            return f"there is no transition {unknown[0]!r}"
        if self.events and not self.transitions:
            return "the engine reports events, but names no transitions"
        missing = sorted(ALWAYS - self.commands)
        return f"it lacks “{missing[0]}”, a command that every engine needs" if missing else None

    def refuses(self, config: EngineConfig) -> str | None:
        """Return the reason why the engine can't take this configuration, or None."""
        if config.page_size not in self.page_sizes:
            return f"page size {config.page_size} is not offered"
        if config.window and "swa" not in self.pools:
            return "the engine has no sliding-window pool"
        if self.whole_chunks and config.chunk % config.page_size:
            return f"a chunk of {config.chunk} tokens is not a whole number of pages"
        drafts = config.draft and (config.topk > 1 or config.chunk <= config.draft)
        if self.rounds_in_chunks and config.chunk and drafts:
            return "with chunked prefill, topk must be 1 and chunk must be larger than draft"
        if self.shallow_rounds and config.draft and config.batches > 2:
            return "with drafts, at most two batches are under way"
        for name in sorted(LATER - self.config.keys()):
            if getattr(config, name) != getattr(EngineConfig, name):
                return f"{name} is not offered"
        for name, values in self.config.items():
            if values and getattr(config, name, None) not in values:
                return f"{name} can only be {values}"
        return None

    def lacks(self, config: EngineConfig, commands: Iterable[Command]) -> str | None:
        """Return the first command or setting that the engine does not support, or None."""
        for command in commands:
            if command["do"] not in self.commands:
                return f"does not offer “{command['do']}”"
        reason = self.refuses(config)
        return None if reason is None else f"can't take this configuration: {reason}"


def in_one_line(error: BaseException) -> str:
    r"""Return the type of an exception and the first line of its message.

    >>> in_one_line(ValueError("no such row\nat all"))
    'ValueError: no such row'
    """
    return f"{type(error).__name__}: {error}".splitlines()[0]


@contextmanager
def its_own_fault() -> Iterator[None]:
    """Report any exception in the block as a crash of the engine."""
    try:
        yield
    except (EngineFailed, EngineUnusable):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a stranger's code raises
        raise EngineFailed("crash", in_one_line(error), traceback.format_exc()) from None


def miscounted(command: Command, shown: Sized) -> str | None:
    """Return a message if a command gave the wrong number of snapshots, else None.

    >>> miscounted({"do": "step", "n": 2}, [{}])
    '1 snapshots after step, not 2'
    """
    wanted = command["n"] if command["do"] == "step" else int(command["do"] in TICKS)
    if len(shown) == wanted:
        return None
    return f"{len(shown)} snapshots after {command['do']}, not {wanted}"


class Engine(Protocol):
    """An engine under test. Not thread-safe. Only one referee may use the engine at a time."""

    name: str
    version: str
    capabilities: Capabilities

    def reset(self, config: EngineConfig, seed: int) -> None:
        """Start with a fresh engine. Raises :class:`EngineUnusable` or :class:`EngineFailed`."""

    def do(self, command: Command) -> list[Snapshot]:
        """Execute a command and return a snapshot per iteration. Raises :class:`EngineFailed`."""

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        """Return the next tokens, computed without a cache, up to the first uncertain token. None
        if the engine offers no recomputation. Raises :class:`EngineFailed`."""

    def close(self) -> None:
        """Release the engine. Never raises."""


def versioned(engine: Engine) -> str:
    """Return the engine's own name and version, in the form used in baselines."""
    return f"{engine.name} {engine.version}".strip()


def built(engine: Engine) -> Build:
    """Return the identity of an engine's build. An unidentified build has only name and version."""
    identity = getattr(engine, "identity", None)
    return identity() if identity else named("", engine.name, engine.version)


def named(argument: str, name: str, version: str, label: str = "") -> Build:
    """Return the identity of a build whose files were not read. The identity matches no release."""
    return Build(argument, name, version, "" if name in FAMILIES else None, label)


@dataclass(frozen=True)
class Subject:
    """Build searched by a campaign."""

    engine: str
    """Name and version reported by the engine."""
    spec: str
    """The ``--engine`` argument, limited to the parts that traces store."""
    build: Build
    capabilities: Capabilities

    @classmethod
    def of(cls, engine: Engine, spec: str) -> Subject:
        return cls(versioned(engine), spec, built(engine), engine.capabilities)


def demand(engine: Engine, config: EngineConfig, commands: Iterable[Command]) -> None:
    """Raise :class:`EngineUnusable` if the engine lacks a needed command or setting."""
    if (reason := engine.capabilities.lacks(config, commands)) is not None:
        raise EngineUnusable(f"{built(engine).title} {reason}")
