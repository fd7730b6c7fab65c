"""What an engine under test has to do, what it says that it offers, and how it can fail."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from pydantic import TypeAdapter

from slotproof.environments.families import FAMILIES
from slotproof.protocol.build import Build
from slotproof.protocol.commands import ALWAYS, Command
from slotproof.protocol.config import LATER, EngineConfig
from slotproof.protocol.snapshot import Snapshot
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transitions import TRANSITIONS


class EngineUnusable(Exception):
    """The engine can't start, or not with this configuration. One line; exit status 2.

    >>> from slotproof import Scenario
    >>> Scenario("cmd:")
    Traceback (most recent call last):
        ...
    slotproof.engines.base.EngineUnusable: cmd: names no program
    """


How = Literal["crash", "hang"]


class EngineFailed(Exception):
    """The engine under test broke: it raised, hung, died or sent garbage (INV-ALIVE).

    ``trace`` is its traceback, or the end of what its driver wrote on standard error.
    """

    def __init__(
        self, how: How, message: str, trace: str = "", broken: bool = True, fault: str | None = None
    ) -> None:
        super().__init__(message)
        self.how, self.trace = how, trace
        self.fault = "hang" if how == "hang" else fault
        """How the driver itself failed: garbage, nonsense, death, hang; ``None`` where it told of
        the engine's failure."""
        self.broken = broken
        """Whether the driver can't go on; otherwise it told of the failure itself."""


@dataclass(frozen=True)
class Capabilities:
    """What the engine offers and what it can't show (protocol: Capabilities)."""

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
    """A chunk has to be a multiple of the page."""
    whole_contexts: bool = False
    """A pool has to hold a whole context."""
    rounds_in_chunks: bool = False
    """With chunks, drafts are one sequence, and a chunk holds a round of them."""
    margin: int = 0
    """Tokens that it keeps free of context and pool beyond those that a request asks for."""
    answers: dict[str, str] = field(default_factory=dict)
    """What else it answers than the protocol lists, and when: other reasons of a finish;
    ``refused`` for an open of a session that is not open; ``closed`` for an abort of a turn, which
    ends its session."""
    patches: tuple[str, ...] = ()
    """Known bugs of the build that its driver has repaired in its own process, by name."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Capabilities:
        """Of a driver's hello, which was found to be of its type; what nobody reads is left out."""
        return TypeAdapter(cls).validate_python(data)

    def to_json(self) -> dict[str, Any]:
        """The same for each order of its sets; what :meth:`from_json` reads."""
        kinds = {"commands": sorted(self.commands), "transitions": sorted(self.transitions)}
        return asdict(self) | kinds

    @property
    def seen_to_make(self) -> frozenset[str]:
        """The transitions that its events can tell of; none without events."""
        return self.transitions if self.events else frozenset()

    @property
    def unseen(self) -> dict[str, str]:
        """Everything that no snapshot of it shows, by name, and why."""
        steps = {} if self.events else {"transitions": "the engine tells no events"}
        return {**self.not_observed, **steps}

    def senseless(self) -> str | None:
        """What an engine can't offer, in a line; ``None`` where all is well."""
        if self.profile not in PROFILES:
            return f"there is no profile {self.profile!r}; there are: {', '.join(PROFILES)}"
        if unknown := sorted(self.transitions - TRANSITIONS.keys()):
            return f"there is no transition {unknown[0]!r}"
        if self.events and not self.transitions:
            return "it tells events, and names no transition that they can be of"
        missing = sorted(ALWAYS - self.commands)
        return f"it does not offer “{missing[0]}”, as every engine does" if missing else None

    def refuses(self, config: EngineConfig) -> str | None:
        """Why the engine can't take this configuration; ``None`` if it can."""
        if config.page_size not in self.page_sizes:
            return f"page size {config.page_size} is not offered"
        if config.window and "swa" not in self.pools:
            return "there is no sliding-window pool"
        if self.whole_chunks and config.chunk % config.page_size:
            return f"a chunk of {config.chunk} tokens is no whole number of pages"
        if self.whole_contexts and config.total_tokens < config.context_len:
            return (
                f"a pool of {config.total_tokens} tokens holds no context of {config.context_len}"
            )
        drafts = config.draft and (config.topk > 1 or config.chunk <= config.draft)
        if self.rounds_in_chunks and config.chunk and drafts:
            return "with chunks, topk is 1 and a chunk is longer than the drafts of a round"
        for name in sorted(LATER - self.config.keys()):
            if getattr(config, name):
                return f"{name} is not offered"
        for name, values in self.config.items():
            if values and getattr(config, name, None) not in values:
                return f"{name} can only be {values}"
        return None

    def lacks(self, config: EngineConfig, commands: Iterable[Command]) -> str | None:
        """What these commands need that the engine does not offer; ``None`` if it can."""
        for command in commands:
            if command["do"] not in self.commands:
                return f"does not offer “{command['do']}”"
        reason = self.refuses(config)
        return None if reason is None else f"can't be configured so: {reason}"


def torch_missing(error: ModuleNotFoundError) -> Exception:
    """Return what to raise when the reference engine can't be imported."""
    if error.name != "torch":
        return error
    return EngineUnusable("the reference engine needs torch: pip install 'slotproof[reference]'")


def in_one_line(error: BaseException) -> str:
    """An exception as it is told: its type, and the first line of what it says.

    >>> in_one_line(ValueError("no such row\\nat all"))
    'ValueError: no such row'
    """
    return f"{type(error).__name__}: {error}".splitlines()[0]


@contextmanager
def its_own_fault() -> Iterator[None]:
    """Whatever the engine's code in here raises is a crash of the engine."""
    try:
        yield
    except (EngineFailed, EngineUnusable):
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a stranger's code raises
        raise EngineFailed("crash", in_one_line(error), traceback.format_exc()) from None


def miscounted(command: Command, shown: Sized) -> str | None:
    """What is wrong with the number of snapshots after a command; ``None`` if nothing is.

    >>> miscounted({"do": "step", "n": 2}, [{}])
    '1 snapshots after step, not 2'
    """
    wanted = command["n"] if command["do"] == "step" else int(command["do"] == "tick")
    if len(shown) == wanted:
        return None
    return f"{len(shown)} snapshots after {command['do']}, not {wanted}"


class Engine(Protocol):
    """An engine under test. Not thread-safe; used by one referee at a time."""

    name: str
    version: str
    capabilities: Capabilities

    def reset(self, config: EngineConfig, seed: int) -> None:
        """A fresh engine. Raises :class:`EngineUnusable` or :class:`EngineFailed`."""

    def do(self, command: Command) -> list[Snapshot]:
        """Carry a command out; a snapshot per iteration. Raises :class:`EngineFailed`."""

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        """The tokens that follow, computed without any cache, as far as they are certain;
        ``None`` where not offered. Raises :class:`EngineFailed`."""

    def close(self) -> None:
        """Let go of the engine. Never raises."""


class Identified:
    """An engine that an ``--engine`` argument opened."""

    identity: Callable[[], Build] | None = None
    """Returns the identity of its build; it reads all files of the build the first time."""


def versioned(engine: Engine) -> str:
    """Return the name and the version that an engine gives, by which baselines know it."""
    return f"{engine.name} {engine.version}".strip()


def built(engine: Engine) -> Build:
    """Return the identity of an engine's build: its name and version, if nothing else is known."""
    identity = getattr(engine, "identity", None)
    return identity() if identity else named("", engine.name, engine.version)


def named(argument: str, name: str, version: str, label: str = "") -> Build:
    """Return the identity of a build whose files nobody looked at: it is called no release."""
    return Build(argument, name, version, "" if name in FAMILIES else None, label)


def demand(engine: Engine, config: EngineConfig, commands: Iterable[Command]) -> None:
    """Raises :class:`EngineUnusable` where the engine lacks something that these need."""
    if (reason := engine.capabilities.lacks(config, commands)) is not None:
        raise EngineUnusable(f"{built(engine).title} {reason}")
