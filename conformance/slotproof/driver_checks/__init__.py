"""Checks run by `slotproof check-driver`, and their results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from slotproof.driver_checks import answers, meanings, snapshots
from slotproof.driver_checks.driver import Check, Driver, NotAsked
from slotproof.engines.base import Capabilities, EngineFailed, EngineUnusable
from slotproof.engines.pipe import Pipe
from slotproof.engines.process import introduced, last_words
from slotproof.protocol.config import CONFIGS
from slotproof.protocol.messages import HELLO
from slotproof.support import bounds

CHECKS: tuple[Check, ...] = (
    *(answers.handshake, answers.versions, answers.unknown_message, answers.bad_line),
    *(answers.impossible_config, answers.unknown_command, answers.bad_arguments),
    *(snapshots.snapshot, snapshots.empty_step, snapshots.inbox, snapshots.reset),
    *(meanings.units, snapshots.counts, meanings.positions, meanings.prompts, meanings.hashes),
    *(snapshots.events, meanings.order, meanings.parameters, snapshots.determinism),
    *(answers.bye, answers.end_of_input, answers.ids, answers.quiet),
)
"""All checks, in order. The last two checks report faults that earlier checks recorded."""


@dataclass(frozen=True)
class Result:
    """Result of one check."""

    check: Check
    result: Literal["ok", "not ok", "not asked"]
    seen: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Report:
    """Results of all checks of one driver."""

    engine: str
    version: str
    configs: list[str]
    """Names of the configurations used. Empty if the driver accepts none."""
    results: list[Result]

    @property
    def clean(self) -> bool:
        return all(result.result == "ok" for result in self.results)


def check(driver: Driver, tell: Callable[[Result], None] = lambda _: None) -> Report:
    """Run every check, and restart a driver that a check broke. Raises :class:`EngineUnusable` if
    the driver does not start."""
    driver.pipe = Pipe(driver.argv)  # A program that can't be started refuses no hello.
    try:
        hello = introduced(lambda: _welcome(driver))
        if HELLO.misfit(hello) is None:  # An invalid hello is reported by the handshake check.
            driver.capabilities = Capabilities.from_json(hello["capabilities"])
        _choose(driver)
        results = []
        for item in CHECKS:
            results.append(_made(driver, item))
            tell(results[-1])
        engine = hello.get("engine")
        names = engine if isinstance(engine, dict) else {}
        name, version = (str(names.get(k, "?"))[: bounds.NAME_CHARS] for k in ("name", "version"))
        return Report(name, version, list(driver.configs), results)
    finally:
        driver.leave()


def _welcome(driver: Driver) -> Any:
    driver.greet()
    if not driver.welcome["ok"]:
        raise EngineUnusable(str(driver.welcome.get("error")))
    return driver.welcome.get("result")


def _choose(driver: Driver) -> None:
    """Choose the first configuration that the driver accepts, and the first with larger pages."""
    for name, config in CONFIGS.items():
        sizes = {config.page_size for config in driver.configs.values()}
        wanted = not sizes or (sizes == {1} and config.page_size > 1)
        if not wanted or driver.capabilities is None or driver.capabilities.refuses(config):
            continue
        try:
            if driver.reset(config.to_json())["ok"]:
                driver.configs[name] = config
        except EngineFailed:
            break
    driver.config = next(iter(driver.configs.values()), driver.config)


def _made(driver: Driver, check: Check) -> Result:
    seen: list[str] = []
    try:
        seen.extend(line[: bounds.SEEN_CHARS] for line in check.look(driver))
    except NotAsked as why:
        if not seen:
            return Result(check, "not asked", [str(why)[: bounds.SEEN_CHARS]])
    except EngineFailed as failure:
        seen.append(": ".join(filter(None, (str(failure), last_words(failure)))))
    return Result(check, "not ok" if seen else "ok", seen)
