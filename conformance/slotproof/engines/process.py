"""Engine behind a pipe: a driver in a separate process speaks the protocol in JSON lines."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from slotproof.engines.base import Capabilities, EngineFailed, EngineUnusable, built, miscounted
from slotproof.engines.pipe import Pipe
from slotproof.protocol.build import Build
from slotproof.protocol.commands import Command, describe
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.messages import HELLO, PROTOCOL, RECOMPUTED, REFUSAL, RESULT
from slotproof.protocol.shapes import Shape, quoted
from slotproof.protocol.snapshot import SNAPSHOTS, Snapshot
from slotproof.support import bounds, jsontext
from slotproof.support.jsontext import BadJson

START_TIMEOUT = 120.0
"""Time limit in seconds for hello and reset: a real engine imports modules and loads a model."""
_HELLO = {"op": "hello", "protocol": PROTOCOL}

_RAISED = re.compile(
    r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)\b(?::|$)|Fatal Python error:"
)
_TRACEBACK = "Traceback (most recent call last):"
_WARNING = re.compile(r"\b\w*Warning:|\bWARN(?:ING)?\b|^warning\b|^\[?W\d{4}\b|\bwarn\(")


def last_words(failure: EngineFailed) -> str:
    """Return the line of standard error, or of a traceback, that names the failure.

    The line is the last exception in a traceback, or else the last line outside a warning.
    """
    raised = plain = ""
    inside = ignored = warned = False
    for line in failure.trace.splitlines():
        text, indented = line.strip(), line[:1].isspace()
        if text.endswith(_TRACEBACK):
            inside = True
        elif inside and (indented or not text):
            continue
        elif text and (inside or (not indented and _RAISED.match(text))):
            # Exceptions in destructors are printed while Python exits. They do not end the driver.
            raised = raised if ignored else text
            inside = ignored = warned = False
        elif _WARNING.search(text):
            warned = True
        elif text and not (warned and indented):
            plain, warned = text, False
            ignored = text.startswith("Exception ignored in")
    return (raised or plain)[:300]


class ProcessEngine:
    """An engine driven through the JSON lines of its driver.

    A driver that died or hung is started again at the next :meth:`reset`. A failure carries the
    driver's standard error since the driver's start. Times are in seconds.
    """

    identity: Callable[[], Build] | None = None
    """Function that returns the build's identity. Its first call reads all files of the build."""

    def __init__(
        self,
        argv: Sequence[str],
        step_timeout: float = 10.0,
        env: dict[str, str] | None = None,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        self._argv, self._env = list(argv), env
        self._timeout, self._start_timeout = step_timeout, start_timeout
        self._pipe: Pipe | None = None
        self._next = 0
        self.name, self.version = "unknown", ""
        self.capabilities = Capabilities(commands=frozenset())
        self._start()

    def _start(self) -> None:
        self._kill()
        self._pipe = Pipe(self._argv, self._env)
        try:
            hello = introduced(lambda: self._ask(_HELLO, self._start_timeout))
            HELLO.demand(hello, _unfit)
            self.name, self.version = hello["engine"]["name"], hello["engine"]["version"]
            self.capabilities = Capabilities.from_json(hello["capabilities"])
            if (wrong := self.capabilities.senseless()) is not None:
                raise _unfit(wrong)
        except EngineUnusable:
            self._kill()
            raise

    def _kill(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.kill()

    def _ask(self, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        if self._pipe is None:
            raise EngineFailed("crash", "the driver is not running", fault="death")
        try:
            return self._exchange(self._pipe, message, timeout)
        except BaseException as error:
            # After Ctrl-C the pending answer would be mistaken for the answer to the next message.
            if not isinstance(error, EngineUnusable) and getattr(error, "broken", True):
                self._kill()
            raise

    def _exchange(self, pipe: Pipe, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Send a message and return the answer's result. The shape of the result is not checked."""
        self._next += 1
        pipe.send(json.dumps({**message, "id": self._next}, separators=(",", ":")), timeout)
        line = pipe.line(timeout)
        try:
            answer = jsontext.parse(line)
        except BadJson as bad:
            raise pipe.failed("garbage", f"garbage on the wire: {line[:80]!r} ({bad})") from None
        refused = isinstance(answer, dict) and answer.get("ok") is False
        if (wrong := (REFUSAL if refused else RESULT).line(answer)) is not None:
            raise pipe.failed("garbage", f"garbage on the wire: {wrong}")
        if answer["id"] != self._next:
            raise pipe.failed("garbage", f"the driver answered message {answer['id']}")
        if not refused:
            return cast("dict[str, Any]", answer["result"])
        if answer["kind"] == "usage":
            raise EngineUnusable(answer["error"])
        trace = answer.get("trace") or pipe.stderr()
        raise EngineFailed("crash", answer["error"], trace, broken=False)

    def _result(self, shape: Shape, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Return the result of a message. A result of a wrong shape is a failure of the engine."""
        result = self._ask(message, timeout)
        shape.demand(result, _garbage)
        return result

    def reset(self, config: EngineConfig, seed: int) -> None:
        if (reason := self.capabilities.refuses(config)) is not None:
            raise EngineUnusable(f"{built(self).title}: {reason}")
        if self._pipe is None:
            self._start()
        self._ask({"op": "reset", "config": config.to_json(), "seed": seed}, self._start_timeout)

    def do(self, command: Command) -> list[Snapshot]:
        message, count = {"op": "do", "command": command}, max(1, command.get("n", 1))
        try:
            result = self._result(SNAPSHOTS, message, self._timeout * count)
        except EngineUnusable as refusal:
            text = f"{self.name} refuses a legal command, {describe(command)}: {refusal}"
            raise EngineUnusable(text) from None
        snapshots: list[Snapshot] = result["snapshots"]
        if (wrong := miscounted(command, snapshots)) is not None:
            raise _garbage(wrong)
        return snapshots

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        if not self.capabilities.recompute:
            return None
        message = {"op": "recompute", "tokens": tokens, "count": count}
        result = self._result(RECOMPUTED, message, self._timeout * count)
        return cast("list[int] | None", result["tokens"])

    def close(self) -> None:
        if self._pipe is not None:
            with contextlib.suppress(EngineFailed, EngineUnusable):
                self._ask({"op": "bye"}, 2.0)
        self._kill()


def _garbage(wrong: str) -> EngineFailed:
    """Return the failure for valid JSON that does not answer the message."""
    return EngineFailed("crash", f"garbage on the wire: {wrong}", broken=False, fault="garbage")


def _unfit(wrong: str) -> EngineUnusable:
    return EngineUnusable(f"the driver's hello: {wrong}")


def introduced(ask: Callable[[], Any]) -> dict[str, Any]:
    """Return a driver's hello. On any failure, raise :class:`EngineUnusable` with one line."""
    try:
        hello = ask()
    except EngineFailed as failure:
        raise EngineUnusable(not_started(failure)) from None
    except EngineUnusable as refusal:
        said = str(refusal)
        why = said if len(said) <= bounds.REASON_CHARS else f"{said[: bounds.REASON_CHARS]}…"
        raise EngineUnusable(f"the driver refuses the hello (protocol {PROTOCOL}): {why}") from None
    if not isinstance(hello, dict):
        raise EngineUnusable(f"the driver's hello is not a JSON object but {quoted(hello)}")
    if (spoken := hello.get("protocol")) != PROTOCOL:
        raise EngineUnusable(f"the driver speaks protocol {quoted(spoken)}, expected {PROTOCOL}")
    return hello


def not_started(failure: EngineFailed) -> str:
    said = last_words(failure)
    nothing = f"{'warnings only' if failure.trace.strip() else 'nothing'} on standard error"
    if failure.how == "hang":
        said = f"{said} (on standard error)" if said else nothing
        return (
            f"the driver does not start: {failure}; sent {json.dumps(_HELLO)}, expected one line "
            "of JSON with protocol, engine and capabilities; the driver printed: "
            f"{said}; --step-timeout raises the limit"
        )
    hint = f" before it answered hello, and printed {nothing}; run its command in a shell"
    return f"the driver does not start: {failure}{f': {said}' if said else hint}"
