"""Manners of the wire: what a driver answers, and to whom it listens."""

from __future__ import annotations

import time
from collections.abc import Iterator

from slotproof.conformance.driver_checks.guest import Guest, refused
from slotproof.conformance.engines.base import EngineFailed
from slotproof.conformance.engines.process import last_words
from slotproof.conformance.protocol.messages import HELLO, PROTOCOL

OTHER = 999
"""A protocol that nobody speaks."""
PATIENCE = 1.0
"""Seconds that a driver may take to end."""


def handshake(guest: Guest) -> Iterator[str]:
    """Who the driver is was asked before anything else; here is whether it said so well."""
    wrong = HELLO.line(guest.welcome.get("result"))
    if wrong is not None:
        yield wrong
    elif guest.capabilities is not None and (problem := guest.capabilities.senseless()):
        yield problem


def versions(guest: Guest) -> Iterator[str]:
    """Never agree to a protocol that one does not speak."""
    answer = guest.ask({"op": "hello", "protocol": OTHER}, guest.start_timeout)
    result = answer.get("result")
    if answer["ok"] and (not isinstance(result, dict) or result.get("protocol") != PROTOCOL):
        said = result.get("protocol") if isinstance(result, dict) else result
        yield f"hello for protocol {OTHER} is answered with protocol {said!r}"


def unknown_message(guest: Guest) -> Iterator[str]:
    for message in ({"op": "sing"}, {"op": None}, {}):
        wrong = refused(guest.ask(message))
        if wrong is not None:
            yield f"{message} is {wrong}"


def bad_line(guest: Guest) -> Iterator[str]:
    for line in ('{"op": "do", ', "[1, 2]", "7"):
        wrong = refused(guest.say(line))
        if wrong is not None:
            yield f"the line {line!r} is {wrong}"


def unknown_command(guest: Guest) -> Iterator[str]:
    guest.fresh()
    for command in ({"do": "dance"}, {"do": "__init__"}, {}):
        wrong = refused(guest.do(command))
        if wrong is not None:
            yield f"command {command} is {wrong}"


def bad_arguments(guest: Guest) -> Iterator[str]:
    guest.fresh()
    before = guest.one()
    for command in (
        {"do": "submit", "session": None},
        {"do": "abort"},
        {"do": "open", "session": 3},
        {"do": "step", "n": "two"},
    ):
        wrong = refused(guest.do(command))
        if wrong is not None:
            yield f"{command} is {wrong}"
    after = guest.one()
    if after["consumed"] or after["messages"] or after["iter"] != before["iter"] + 1:
        yield "after refused commands the next step is not one that had nothing to do"


def impossible(guest: Guest) -> Iterator[str]:
    good = guest.config.to_json()
    for change in ({"page_size": 0}, {"total_tokens": -1}, {"rows": "many"}):
        wrong = refused(guest.reset({**good, **change}))
        if wrong is not None:
            yield f"a configuration with {change} is {wrong}"
    answer = guest.reset()
    if not answer["ok"]:
        yield f"a good reset after them is answered with: {answer.get('error')}"


def ids(guest: Guest) -> Iterator[str]:
    yield from guest.numbered


def quiet(guest: Guest) -> Iterator[str]:
    yield from (f"a line that is no answer: {line}" for line in guest.noise)


def bye(guest: Guest) -> Iterator[str]:
    guest.again()
    answer = guest.ask({"op": "bye"})
    if not answer["ok"]:
        yield f"bye is answered with: {answer.get('error')}"
    yield from _gone(guest, "bye")


def end_of_input(guest: Guest) -> Iterator[str]:
    guest.again().end_input()
    yield from _gone(guest, "the end of its input")


def _gone(guest: Guest, what: str) -> Iterator[str]:
    started = time.monotonic()
    status = guest.start().wait(PATIENCE)
    if status is None:
        yield f"it still runs {time.monotonic() - started:.0f} s after {what}"
    elif status:
        yield f"after {what} it exits with status {status}"
    guest.leave()


def failed(failure: EngineFailed) -> str:
    """What is seen where there is no answer."""
    said = last_words(failure)
    return f"{failure}: {said}" if said else str(failure)
