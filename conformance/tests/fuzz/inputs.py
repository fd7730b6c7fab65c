"""Inputs of every kind: a file, and the command line that reads it.

Half of the changes are to a chosen part (a command, an event, a figure). The other half treat the
file as arbitrary JSON, or as bytes.
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
    """Return an input of the kind. The same state of ``rng`` makes the same input."""
    return KINDS[kind](rng)


def untouched() -> list[Input]:
    """Return the unchanged corpus, every file with the command lines that read it."""
    inputs = [
        Input("traces", data, argv, right="reference" in argv and "--against" not in argv)
        for name, data in seeds.files("traces").items()
        for argv in READ_TRACE
        if not name.startswith("spec-") or argv == ("show", FILE)
        if "issue" not in argv or b"sglang==" in data  # the reference has no maintainers
    ]
    inputs += [
        Input("logs", data, ("validate", FILE), right=True) for data in seeds.files("logs").values()
    ]
    baselines = seeds.files("baselines").values()
    inputs += [Input("baselines", data, READ_BASELINE) for data in baselines]
    inputs += [
        Input("journals", data, argv)
        for data in seeds.files("journals").values()
        for argv in reading(data)
    ]
    inputs += [
        Input("messages", b"".join(conversations.answers(life)), argv, life, right=True)
        for life in seeds.LIVES
        for argv in HEAR
        if "--against" not in argv
    ]
    return inputs
