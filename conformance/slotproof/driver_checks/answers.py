"""Checks of the driver's answers to messages, and of its exit."""

from __future__ import annotations

import time
from collections.abc import Iterator

from slotproof.driver_checks.driver import Driver, checks, refused
from slotproof.protocol.messages import HELLO, PROTOCOL

OTHER = 999
"""Protocol number that no driver supports."""
PATIENCE = 1.0
"""Seconds within which a driver must exit."""


@checks("see “Capabilities” in docs/reference/protocol.md for the fields")
def handshake(driver: Driver) -> Iterator[str]:
    """The hello message is answered with protocol, engine and capabilities."""
    if (wrong := HELLO.line(driver.welcome.get("result"))) is not None:
        yield wrong
    elif driver.capabilities is not None and (problem := driver.capabilities.senseless()):
        yield problem


@checks(f'compare "protocol" with {PROTOCOL}; answer a usage error if the number differs')
def versions(driver: Driver) -> Iterator[str]:
    """A hello for another protocol is refused, or answered with the driver's protocol."""
    answer = driver.ask({"op": "hello", "protocol": OTHER}, driver.start_timeout)
    result = answer.get("result")
    if answer["ok"] and (not isinstance(result, dict) or result.get("protocol") != PROTOCOL):
        number = result.get("protocol") if isinstance(result, dict) else result
        yield f"hello for protocol {OTHER} is answered with protocol {number!r}"


@checks("answer every unknown op with an error of kind usage")
def unknown_message(driver: Driver) -> Iterator[str]:
    """An unknown message is answered with a usage error."""
    for message in ({"op": "sing"}, {"op": None}, {}):
        yield from refused(driver.ask(message), f"{message}")


@checks("parse in the try block that turns errors into answers; answer a bad line with id null")
def bad_line(driver: Driver) -> Iterator[str]:
    """A line without a JSON object is answered with a usage error, and the driver continues."""
    for line in ('{"op": "do", ', "[1, 2]", "7"):
        yield from refused(driver.say(line), f"the line {line!r}")


@checks("look the command up in a table of the offered commands")
def unknown_command(driver: Driver) -> Iterator[str]:
    """An unknown command is answered with a usage error."""
    driver.fresh()
    for command in ({"do": "dance"}, {"do": "__init__"}, {}):
        yield from refused(driver.do(command), f"command {command}")


@checks("check fields and types before the command goes to the inbox")
def bad_arguments(driver: Driver) -> Iterator[str]:
    """A command with missing or wrong fields is answered with a usage error, without effect."""
    driver.fresh()
    before = driver.one()
    for command in (
        {"do": "submit", "session": None},
        {"do": "abort"},
        {"do": "open", "session": 3},
        {"do": "step", "n": "two"},
    ):
        yield from refused(driver.do(command), f"{command}")
    after = driver.one()
    if after["consumed"] or after["messages"] or after["iter"] != before["iter"] + 1:
        yield "the step after refused commands still has something to do"


@checks("check the configuration before an engine is built; name the field in the error")
def impossible_config(driver: Driver) -> Iterator[str]:
    """A reset with an impossible configuration is answered with a usage error."""
    good = driver.config.to_json()
    for change in ({"page_size": 0}, {"total_tokens": -1}, {"rows": "many"}):
        yield from refused(driver.reset({**good, **change}), f"a configuration with {change}")
    answer = driver.reset()
    if not answer["ok"]:
        yield f"a valid reset after refused resets is answered with: {answer.get('error')}"


@checks('copy "id" into every answer, also into errors')
def ids(driver: Driver) -> Iterator[str]:
    """Every answer repeats the id of its message."""
    yield from driver.numbered


@checks("print to standard error; move descriptor 1 aside before the engine is imported")
def quiet(driver: Driver) -> Iterator[str]:
    """Standard output carries answers and nothing else."""
    yield from (f"a line without an answer: {line}" for line in driver.noise)


@checks("leave the loop after the answer; end every process that the driver started")
def bye(driver: Driver) -> Iterator[str]:
    """The bye message is answered, and the driver exits within a second."""
    driver.again()
    answer = driver.ask({"op": "bye"})
    if not answer["ok"]:
        yield f"bye is answered with: {answer.get('error')}"
    yield from _gone(driver, "bye")


@checks("read until the end of standard input, then exit: no message can follow")
def end_of_input(driver: Driver) -> Iterator[str]:
    """At the end of its input the driver exits within a second, with status 0."""
    driver.again().end_input()
    yield from _gone(driver, "the end of its input")


def _gone(driver: Driver, what: str) -> Iterator[str]:
    started = time.monotonic()
    if (status := driver.start().wait(PATIENCE)) is None:
        yield f"the driver still runs {time.monotonic() - started:.0f} s after {what}"
    elif status:
        yield f"the driver exits with status {status} after {what}"
    driver.leave()
