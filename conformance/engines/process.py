"""An engine behind a pipe: the protocol as JSON lines to a driver in its own process."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any

from slotproof.conformance import schemas
from slotproof.conformance.engines.base import PROTOCOL, Capabilities, EngineFailed, EngineUnusable
from slotproof.conformance.engines.pipe import Pipe
from slotproof.conformance.protocol.commands import Command, describe
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.protocol.snapshot import Snapshot
from slotproof.model.profiles import PROFILES

START_TIMEOUT = 120.0
"""Seconds a driver has to say hello or to build an engine: real ones import and load."""
HELLO = {"op": "hello", "protocol": PROTOCOL}


def misfit(definition: str, value: Any) -> str | None:
    """Where a value does not follow a definition of the protocol, and how; one line."""
    wrong = schemas.PROTOCOL.misfit(value, definition)
    return None if wrong is None else wrong.at(definition)[:300]


def last_words(failure: EngineFailed) -> str:
    """The last line of what the driver wrote on standard error, or of its traceback."""
    lines = [line.strip() for line in failure.trace.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


class ProcessEngine:
    """Drives an engine through the JSON lines of its driver.

    A driver that dies or hangs is started again at the next :meth:`reset`; what
    it wrote on standard error since then is part of the failure. Times in seconds.
    """

    def __init__(
        self,
        argv: Sequence[str],
        step_timeout: float = 10.0,
        env: dict[str, str] | None = None,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        self._argv = list(argv)
        self._timeout = step_timeout
        self._start_timeout = start_timeout
        self._env = env
        self._pipe: Pipe | None = None
        self._next = 0
        self.name = "unknown"
        self.version = ""
        self.capabilities = Capabilities(commands=frozenset())
        self._start()

    # The driver's life -------------------------------------------------------

    def _start(self) -> None:
        self._kill()
        self._pipe = Pipe(self._argv, self._env)
        try:
            hello = self._ask(HELLO, self._start_timeout)
        except EngineFailed as failure:
            raise EngineUnusable(not_started(failure)) from None
        except EngineUnusable as refusal:
            self._kill()
            raise EngineUnusable(
                f"the driver refuses the hello (protocol {PROTOCOL}): {refusal}"
            ) from None
        try:
            self._welcome(hello)
        except EngineUnusable:
            self._kill()
            raise

    def _welcome(self, hello: dict[str, Any]) -> None:
        """Take in who the driver is; :class:`EngineUnusable` for a hello that will not do."""
        if hello.get("protocol") != PROTOCOL:
            raise EngineUnusable(
                f"the driver speaks protocol {hello.get('protocol')!r}, this is {PROTOCOL}"
            )
        wrong = misfit("hello", hello)
        if wrong is not None:
            raise EngineUnusable(f"the driver's hello: {wrong}")
        self.name = hello["engine"]["name"]
        self.version = hello["engine"]["version"]
        self.capabilities = Capabilities.from_json(hello["capabilities"])
        if self.capabilities.profile not in PROFILES:
            raise EngineUnusable(
                f"the driver's hello: there is no profile {self.capabilities.profile!r}; "
                f"there are: {', '.join(PROFILES)}"
            )

    def _kill(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.kill()

    # Messages ------------------------------------------------------------------

    def _ask(self, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        if self._pipe is None:
            raise EngineFailed("crash", "the driver is not running")
        try:
            return self._exchange(self._pipe, message, timeout)
        except EngineFailed as failure:
            if failure.broken:
                self._kill()
            raise

    def _exchange(self, pipe: Pipe, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        self._next += 1
        pipe.send(json.dumps({**message, "id": self._next}, separators=(",", ":")), timeout)
        line = pipe.line(timeout)
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise pipe.failed("crash", f"garbage on the wire: {line[:80]!r}")
        if answer.get("id") not in (self._next, None):
            raise pipe.failed("crash", f"the driver answered message {answer.get('id')!r}")
        if answer.get("ok") is True and isinstance(answer.get("result"), dict):
            result: dict[str, Any] = answer["result"]
            return result
        if answer.get("ok") is False and isinstance(answer.get("error"), str):
            if answer.get("kind") == "usage":
                raise EngineUnusable(answer["error"])
            trace = str(answer.get("trace") or pipe.stderr())
            raise EngineFailed("crash", answer["error"], trace, broken=False)
        raise pipe.failed("crash", "the driver's answer is neither a result nor an error")

    # The engine ------------------------------------------------------------------

    def reset(self, config: EngineConfig, seed: int) -> None:
        reason = self.capabilities.refuses(config)
        if reason is not None:
            raise EngineUnusable(f"{self.name} {self.version}: {reason}")
        if self._pipe is None:
            self._start()
        message = {"op": "reset", "config": config.to_json(), "seed": seed}
        self._ask(message, self._start_timeout)

    def do(self, command: Command) -> list[Snapshot]:
        count = max(1, command.get("n", 1))
        try:
            result = self._ask({"op": "do", "command": command}, self._timeout * count)
        except EngineUnusable as refusal:
            text = f"{self.name} refuses a legal command, {describe(command)}: {refusal}"
            raise EngineUnusable(text) from None
        wrong = misfit("snapshots", result)
        if wrong is not None:
            raise EngineFailed("crash", f"garbage on the wire: {wrong}"[:300])
        snapshots: list[Snapshot] = result["snapshots"]
        wanted = command["n"] if command["do"] == "step" else int(command["do"] == "tick")
        if len(snapshots) != wanted:
            text = f"{len(snapshots)} snapshots after {command['do']}, not {wanted}"
            raise EngineFailed("crash", f"garbage on the wire: {text}")
        return snapshots

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        if not self.capabilities.recompute:
            return None
        message = {"op": "recompute", "tokens": tokens, "count": count}
        result = self._ask(message, self._timeout * count)
        wrong = misfit("recomputed", result)
        if wrong is not None:
            raise EngineFailed("crash", f"garbage on the wire: {wrong}"[:300])
        found: list[int] | None = result["tokens"]
        return found

    def close(self) -> None:
        if self._pipe is not None:
            with contextlib.suppress(EngineFailed, EngineUnusable):
                self._ask({"op": "bye"}, 2.0)
        self._kill()


def not_started(failure: EngineFailed) -> str:
    """One line for a driver that did not get through the handshake."""
    said = last_words(failure)
    if failure.how == "hang":
        said = f"{said} (on standard error)" if said else "nothing on standard error"
        return (
            f"the driver does not start: {failure}; sent {json.dumps(HELLO)}, expected one line "
            "of JSON with its protocol, engine and capabilities; it says: "
            f"{said}; --start-timeout sets the limit"
        )
    return f"the driver does not start: {failure}{': ' + said if said else ''}"
