"""The manners of a driver, as data: what it does, how that is seen, what to do about it.

:func:`check` asks for all of them. A manner that breaks the driver costs a
restart, not the ones after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from slotproof.conformance import bounds
from slotproof.conformance.driver_checks import messages, snapshots
from slotproof.conformance.driver_checks.guest import Answer, Guest, NotAsked
from slotproof.conformance.engines.base import Capabilities, EngineFailed, EngineUnusable
from slotproof.conformance.engines.process import not_started
from slotproof.conformance.protocol.config import CONFIGS
from slotproof.conformance.protocol.messages import HELLO, PROTOCOL, not_spoken, refused_hello
from slotproof.conformance.protocol.shapes import quoted

Result = Literal["ok", "not ok", "not asked"]


@dataclass(frozen=True)
class Manner:
    """One thing that a driver does well."""

    name: str
    sentence: str
    look: Callable[[Guest], Iterator[str]]
    """Yields what is wrong, one line each; nothing where all is well."""
    mend: str
    """What to do where it is not."""


MANNERS: tuple[Manner, ...] = (
    Manner(
        "handshake",
        "hello is answered with protocol, engine and capabilities",
        messages.handshake,
        "see “Capabilities” in docs/reference/protocol.md for the fields",
    ),
    Manner(
        "versions",
        "hello for another protocol is refused, or answered with the driver's own number",
        messages.versions,
        f'compare "protocol" with {PROTOCOL}; answer usage where it is another',
    ),
    Manner(
        "unknown-message",
        "a message that it does not know is answered with usage",
        messages.unknown_message,
        "end the chain of ops with a branch that answers usage",
    ),
    Manner(
        "bad-line",
        "a line that is no JSON object is answered with usage, and the driver goes on",
        messages.bad_line,
        "parse inside the try that turns errors into answers; without an id answer null",
    ),
    Manner(
        "impossible-config",
        "a reset with a configuration that can't be is answered with usage",
        messages.impossible,
        "check the configuration before an engine is built; name the field in the error",
    ),
    Manner(
        "unknown-command",
        "a command that it does not know is answered with usage",
        messages.unknown_command,
        "look the command up in a table of those that are offered",
    ),
    Manner(
        "bad-arguments",
        "a command with fields missing or wrong is answered with usage, and changes nothing",
        messages.bad_arguments,
        "check fields and types before the command goes to the inbox",
    ),
    Manner(
        "snapshot",
        "every snapshot is complete and follows the schema",
        snapshots.valid,
        "see “Snapshot” in docs/reference/protocol.md; the path names the field",
    ),
    Manner(
        "empty-step",
        "a step with nothing to do is an iteration with a snapshot; tick shows one",
        snapshots.empty_step,
        "one snapshot per iteration, whether or not there was a batch; count iter from 1",
    ),
    Manner(
        "inbox",
        "commands wait for the next step, which says how many it consumed",
        snapshots.inbox,
        'queue them; answer {"snapshots": []}; set consumed in the step that reads them',
    ),
    Manner(
        "reset",
        "a reset, also twice, gives an engine with nothing of the life before",
        snapshots.reset,
        "build the engine anew, or fork one per reset; empty the driver's own inbox and counters",
    ),
    Manner(
        "counts",
        "figures agree with the lists beside them",
        snapshots.counts,
        "take figures and lists at the same moment; figures in tokens, lists in pages",
    ),
    Manner(
        "events",
        "events name known transitions with all their parameters, only where they are offered",
        snapshots.events,
        "see “Events” in docs/reference/protocol.md, or offer no events",
    ),
    Manner(
        "determinism",
        "the same seed and commands show the same, in a new process too",
        snapshots.determinism,
        "seed everything random; no wall-clock time, no set or hash order in what is shown",
    ),
    Manner(
        "bye",
        "bye is answered, then the driver exits within a second",
        messages.bye,
        "leave the loop after the answer; end what was started",
    ),
    Manner(
        "end-of-input",
        "the end of its input ends the driver within a second, with status 0",
        messages.end_of_input,
        "read until the end of standard input, then exit: nobody will ask again",
    ),
    Manner(
        "ids",
        "each answer repeats the id of its message",
        messages.ids,
        'copy "id" into every answer, also into errors',
    ),
    Manner(
        "quiet",
        "standard output carries answers and nothing else",
        messages.quiet,
        "print to standard error; move descriptor 1 aside before the engine is imported",
    ),
)


@dataclass(frozen=True)
class Finding:
    """How a driver did with one manner."""

    manner: Manner
    result: Result
    seen: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Visit:
    """A driver and all its manners."""

    engine: str
    version: str
    config: str
    """The configuration that it was asked with, by name; empty where it takes none."""
    findings: list[Finding]

    @property
    def clean(self) -> bool:
        return all(finding.result == "ok" for finding in self.findings)


def check(guest: Guest, tell: Callable[[Finding], None] = lambda _: None) -> Visit:
    """Ask for every manner. Raises :class:`EngineUnusable` where the driver does not start."""
    try:
        hello = _introduced(guest)
        name = _choose(guest)
        findings = []
        for manner in MANNERS:
            finding = _ask(guest, manner)
            findings.append(finding)
            tell(finding)
        engine = hello.get("engine")
        names = engine if isinstance(engine, dict) else {}
        engine_name, version = (
            str(names.get(key, "?"))[: bounds.NAME_CHARS] for key in ("name", "version")
        )
        return Visit(engine_name, version, name, findings)
    finally:
        guest.leave()


def _introduced(guest: Guest) -> Answer:
    """The driver's hello, as far as it can be used."""
    try:
        guest.start()
    except EngineFailed as failure:
        raise EngineUnusable(not_started(failure)) from None
    answer = guest.welcome
    if not answer["ok"]:
        raise EngineUnusable(refused_hello(answer.get("error")))
    hello = answer.get("result")
    if not isinstance(hello, dict):
        raise EngineUnusable(f"the driver's hello is no object: {quoted(hello)}")
    if hello.get("protocol") != PROTOCOL:
        raise EngineUnusable(not_spoken(hello.get("protocol")))
    if HELLO.misfit(hello) is None:  # else the handshake will say why
        guest.capabilities = Capabilities.from_json(hello["capabilities"])
    return hello


def _choose(guest: Guest) -> str:
    """The first configuration that the driver takes; ``""`` where there is none."""
    for name, config in CONFIGS.items():
        if guest.capabilities is not None and guest.capabilities.refuses(config) is None:
            guest.config = config
            try:
                if guest.reset()["ok"]:
                    return name
            except EngineFailed:
                return ""
    return ""


def _ask(guest: Guest, manner: Manner) -> Finding:
    seen: list[str] = []
    try:
        seen.extend(each[: bounds.SEEN_CHARS] for each in manner.look(guest))
    except NotAsked as why:
        if not seen:
            return Finding(manner, "not asked", [str(why)[: bounds.SEEN_CHARS]])
    except EngineFailed as failure:
        seen.append(messages.failed(failure))
    return Finding(manner, "not ok" if seen else "ok", seen)
