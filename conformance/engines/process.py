"""An engine behind a pipe: the protocol as JSON lines to a driver in its own process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema

from slotproof.conformance.engines.base import PROTOCOL, Capabilities, EngineFailed, EngineUnusable
from slotproof.conformance.protocol.commands import Command
from slotproof.conformance.protocol.config import EngineConfig
from slotproof.conformance.protocol.snapshot import Snapshot
from slotproof.model.profiles import PROFILES

START_TIMEOUT = 120.0
"""Seconds a driver has to say hello or to build an engine: real ones import and load."""


@cache
def validator(definition: str) -> Any:
    """The validator of one definition of the protocol's JSON Schema."""
    text = files("slotproof.conformance.protocol").joinpath("protocol.schema.json").read_text()
    schema = json.loads(text)
    return jsonschema.Draft202012Validator({**schema, "$ref": f"#/$defs/{definition}"})


class ProcessEngine:
    """Drives an engine through the JSON lines of its driver.

    A driver that dies or hangs is started again at the next :meth:`reset`; what
    it wrote on standard error since then is part of the failure.
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
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._next = 0
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the driver
        self.name = "unknown"
        self.version = ""
        self.capabilities = Capabilities(commands=frozenset())
        self._start()

    # The driver's life -------------------------------------------------------

    def _start(self) -> None:
        self._kill()
        self._stderr.seek(0)
        self._stderr.truncate()
        try:
            self._process = subprocess.Popen(  # noqa: S603  # the user names the program
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._stderr,
                env=self._env,
                start_new_session=True,
            )
        except OSError as error:
            raise EngineUnusable(f"can't start {self._argv[0]}: {error.strerror}") from None
        try:
            hello = self._ask({"op": "hello", "protocol": PROTOCOL}, self._start_timeout)
        except EngineFailed as failure:
            raise EngineUnusable(f"the driver does not start: {self._said(str(failure))}") from None
        if hello.get("protocol") != PROTOCOL:
            raise EngineUnusable(
                f"the driver speaks protocol {hello.get('protocol')!r}, this is {PROTOCOL}"
            )
        try:
            validator("hello").validate(hello)
        except jsonschema.ValidationError as error:
            where = "/".join(map(str, error.absolute_path)) or "hello"
            raise EngineUnusable(f"the driver's hello: {where}: {error.message}") from None
        self.name = hello["engine"]["name"]
        self.version = hello["engine"]["version"]
        self.capabilities = Capabilities.from_json(hello["capabilities"])
        if self.capabilities.profile not in PROFILES:
            raise EngineUnusable(
                f"the driver's hello: there is no profile {self.capabilities.profile!r}; "
                f"there are: {', '.join(PROFILES)}"
            )

    def _kill(self) -> None:
        process, self._process, self._buffer = self._process, None, b""
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _said(self, fallback: str) -> str:
        """The last line of the driver's standard error, or something else to say."""
        lines = [line for line in self.stderr().splitlines() if line.strip()]
        return f"{fallback}: {lines[-1].strip()[:300]}" if lines else fallback

    def stderr(self) -> str:
        """What the driver wrote on standard error since it was started."""
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")

    # Messages ------------------------------------------------------------------

    def _ask(self, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        process = self._process
        if process is None or process.stdin is None:
            raise EngineFailed("crash", "the driver is not running")
        self._next += 1
        line = json.dumps({**message, "id": self._next}, separators=(",", ":")) + "\n"
        try:
            process.stdin.write(line.encode())
            process.stdin.flush()
        except OSError:
            raise self._broken("crash", "the driver exited") from None
        answer = self._read(timeout)
        if answer.get("id") not in (self._next, None):
            raise self._broken("crash", f"the driver answered message {answer.get('id')!r}")
        if answer.get("ok") is True and isinstance(answer.get("result"), dict):
            result: dict[str, Any] = answer["result"]
            return result
        if answer.get("ok") is False and isinstance(answer.get("error"), str):
            if answer.get("kind") == "usage":
                raise EngineUnusable(answer["error"])
            raise EngineFailed("crash", answer["error"], str(answer.get("trace", "")))
        raise self._broken("crash", "the driver's answer is neither a result nor an error")

    def _read(self, timeout: float) -> dict[str, Any]:
        """The next line of the driver, parsed. Does not wait longer than the timeout."""
        process = self._process
        assert process is not None and process.stdout is not None
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            rest = deadline - time.monotonic()
            if rest <= 0 or not select.select([process.stdout], [], [], rest)[0]:
                raise self._broken("hang", f"no answer within {timeout:g} s")
            chunk = os.read(process.stdout.fileno(), 1 << 16)
            if not chunk:
                status = process.wait()
                raise self._broken("crash", f"the driver exited with status {status}")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        try:
            answer = json.loads(line)
        except (ValueError, RecursionError):
            raise self._broken("crash", f"garbage on the wire: {line[:80]!r}") from None
        if not isinstance(answer, dict):
            raise self._broken("crash", f"garbage on the wire: {line[:80]!r}")
        return answer

    def _broken(self, how: str, text: str) -> EngineFailed:
        failure = EngineFailed("hang" if how == "hang" else "crash", text, self.stderr()[-4000:])
        self._kill()
        return failure

    # The engine ------------------------------------------------------------------

    def reset(self, config: EngineConfig, seed: int) -> None:
        reason = self.capabilities.refuses(config)
        if reason is not None:
            raise EngineUnusable(f"{self.name} {self.version}: {reason}")
        if self._process is None:
            self._start()
        message = {"op": "reset", "config": config.to_json(), "seed": seed}
        self._ask(message, self._start_timeout)

    def do(self, command: Command) -> list[Snapshot]:
        count = max(1, command.get("n", 1))
        result = self._ask({"op": "do", "command": command}, self._timeout * count)
        error = next(validator("snapshots").iter_errors(result), None)
        if error is not None:
            where = "/".join(map(str, error.absolute_path))
            raise EngineFailed("crash", f"garbage on the wire: {where}: {error.message}"[:300])
        snapshots: list[Snapshot] = result["snapshots"]
        wanted = command["n"] if command["do"] == "step" else int(command["do"] == "tick")
        if len(snapshots) != wanted:
            text = f"{len(snapshots)} snapshots after {command['do']}, not {wanted}"
            raise EngineFailed("crash", f"garbage on the wire: {text}")
        return snapshots

    def recompute(self, tokens: list[int], count: int) -> list[int] | None:
        """Not offered over the pipe in protocol 1."""
        del tokens, count
        return None

    def close(self) -> None:
        if self._process is not None:
            with contextlib.suppress(EngineFailed, EngineUnusable):
                self._ask({"op": "bye"}, 2.0)
        self._kill()
        self._stderr.close()
