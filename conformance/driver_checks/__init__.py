"""What `slotproof check-driver` looks at: each check of a driver, and how it did in all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from slotproof.conformance import bounds
from slotproof.conformance.driver_checks import answers, snapshots
from slotproof.conformance.driver_checks.driver import Answer, Check, Driver, NotAsked
from slotproof.conformance.engines.base import Capabilities, EngineFailed, EngineUnusable
from slotproof.conformance.engines.process import not_started
from slotproof.conformance.protocol.config import CONFIGS
from slotproof.conformance.protocol.messages import HELLO, PROTOCOL, not_spoken, refused_hello
from slotproof.conformance.protocol.shapes import quoted

CHECKS: tuple[Check, ...] = (
    answers.handshake,
    answers.versions,
    answers.unknown_message,
    answers.bad_line,
    answers.impossible_config,
    answers.unknown_command,
    answers.bad_arguments,
    snapshots.snapshot,
    snapshots.empty_step,
    snapshots.inbox,
    snapshots.reset,
    snapshots.counts,
    snapshots.events,
    snapshots.determinism,
    answers.bye,
    answers.end_of_input,
    answers.ids,
    answers.quiet,
)
"""In the order in which they are made and shown; the last two report what the others met."""


@dataclass(frozen=True)
class Result:
    """How a driver did in one check."""

    check: Check
    result: Literal["ok", "not ok", "not asked"]
    seen: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """A driver and how it did in all checks."""

    engine: str
    version: str
    config: str
    """The configuration that it was asked with, by name; empty where it takes none."""
    results: list[Result]

    @property
    def clean(self) -> bool:
        return all(each.result == "ok" for each in self.results)


def check(driver: Driver, tell: Callable[[Result], None] = lambda _: None) -> Report:
    """Make every check. One that breaks the driver costs a restart, not those after it.

    Raises :class:`EngineUnusable` where the driver does not start.
    """
    try:
        hello = _introduced(driver)
        name = _choose(driver)
        results = []
        for each in CHECKS:
            result = _made(driver, each)
            results.append(result)
            tell(result)
        engine = hello.get("engine")
        names = engine if isinstance(engine, dict) else {}
        engine_name, version = (
            str(names.get(key, "?"))[: bounds.NAME_CHARS] for key in ("name", "version")
        )
        return Report(engine_name, version, name, results)
    finally:
        driver.leave()


def _introduced(driver: Driver) -> Answer:
    """The driver's hello, as far as it can be used."""
    try:
        driver.start()
    except EngineFailed as failure:
        raise EngineUnusable(not_started(failure)) from None
    answer = driver.welcome
    if not answer["ok"]:
        raise EngineUnusable(refused_hello(answer.get("error")))
    hello = answer.get("result")
    if not isinstance(hello, dict):
        raise EngineUnusable(f"the driver's hello is no object: {quoted(hello)}")
    if hello.get("protocol") != PROTOCOL:
        raise EngineUnusable(not_spoken(hello.get("protocol")))
    if HELLO.misfit(hello) is None:  # else the handshake will say why
        driver.capabilities = Capabilities.from_json(hello["capabilities"])
    return hello


def _choose(driver: Driver) -> str:
    """The first configuration that the driver takes; ``""`` where there is none."""
    for name, config in CONFIGS.items():
        if driver.capabilities is not None and driver.capabilities.refuses(config) is None:
            driver.config = config
            try:
                if driver.reset()["ok"]:
                    return name
            except EngineFailed:
                return ""
    return ""


def _made(driver: Driver, check: Check) -> Result:
    seen: list[str] = []
    try:
        seen.extend(each[: bounds.SEEN_CHARS] for each in check.look(driver))
    except NotAsked as why:
        if not seen:
            return Result(check, "not asked", [str(why)[: bounds.SEEN_CHARS]])
    except EngineFailed as failure:
        seen.append(answers.failed(failure))
    return Result(check, "not ok" if seen else "ok", seen)
