"""One input of each kind from one source of chance: a file, and the command line that reads it.

Half of the changes know what they change (a command, an event, a figure), the others know that
it is JSON, or nothing at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random

from tests.fuzz import conversations, seeds
from tests.fuzz.drivers import HEAR, driver, message
from tests.fuzz.files import READ_BASELINE, READ_TRACE, baseline, log, trace
from tests.fuzz.given import FILE, Input
from tests.fuzz.journals import journal, reading

KINDS: Mapping[str, Callable[[Random], Input]] = {
    "traces": trace,
    "logs": log,
    "baselines": baseline,
    "journals": journal,
    "messages": message,
    "drivers": driver,
}


def make(kind: str, rng: Random) -> Input:
    """An input of the kind; the same source of chance makes the same one."""
    return KINDS[kind](rng)


def untouched() -> list[Input]:
    """The whole corpus as it is, each with what reads it."""
    found = [
        Input("traces", data, argv, right="reference" in argv and "--against" not in argv)
        for name, data in seeds.files("traces").items()
        for argv in READ_TRACE
        if not name.startswith("spec-") or argv == ("show", FILE)
        if "issue" not in argv or b"sglang==" in data  # the reference has no maintainers
    ]
    found += [
        Input("logs", data, ("validate", FILE), right=True) for data in seeds.files("logs").values()
    ]
    found += [Input("baselines", data, READ_BASELINE) for data in seeds.files("baselines").values()]
    found += [
        Input("journals", data, argv)
        for data in seeds.files("journals").values()
        for argv in reading(data)
    ]
    found += [
        Input("messages", b"".join(conversations.answers(life)), argv, life, right=True)
        for life in seeds.LIVES
        for argv in HEAR
        if "--against" not in argv
    ]
    return found
