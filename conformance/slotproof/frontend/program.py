"""The front end of a build, as a program behind a pipe: it is started, played on, and ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from slotproof.engines.base import EngineFailed, EngineUnusable
from slotproof.engines.pipe import Pipe
from slotproof.environments.processes import clean_environment
from slotproof.frontend.scripts import Action, Script
from slotproof.protocol.family import FrontEnd
from slotproof.support import interrupts, jsontext

LOG = "log.jsonl"
ANSWER = 30.0
"""Seconds that a client waits for an answer."""
_MEGABYTES, _FILES = 256, 64
"""Of a recording: the oldest files go, and each can be judged alone."""


@dataclass(frozen=True)
class Build:
    """Which front end, and how it is started."""

    python: Path
    driver: Path
    """The folder of the driver."""
    front_end: FrontEnd
    mends: tuple[str, ...] = ()
    start_timeout: float = 300.0


class Program:
    """One run of a front end; its scheduler is recorded into a folder. Ends with us.

    Raises :class:`EngineUnusable`, one line, where it does not start, and :class:`EngineFailed`
    where it broke.
    """

    def __init__(self, build: Build, config: dict[str, Any], folder: Path) -> None:
        self.log = folder / LOG
        self._numbers = count()
        environment = {
            **clean_environment(),
            "PYTHONPATH": str(build.driver),
            "SLOTPROOF_RECORD": str(self.log),
            "SLOTPROOF_RECORD_TOKENS": "1",
            "SLOTPROOF_RECORD_PAGES": "1",
            "SLOTPROOF_RECORD_MEGABYTES": str(_MEGABYTES),
            "SLOTPROOF_RECORD_FILES": str(_FILES),
            "TMPDIR": str(folder),
        }
        self._pipe = Pipe([str(build.python), "-m", build.front_end.package], environment)
        try:
            message = {"op": "start", "config": config, "mends": list(build.mends)}
            self.version = str(self._ask(message, build.start_timeout).get("version", ""))
        except EngineFailed as failure:
            self.end()
            raise EngineUnusable(f"its front end does not start: {failure}") from None
        except BaseException:
            self.end()
            raise

    def play(self, scripts: Sequence[Script]) -> list[dict[str, Any]]:
        """What the clients heard."""
        longest = max(map(len, scripts), default=0)
        message = {"op": "play", "scripts": list(scripts), "limit": ANSWER}
        return self._noted(message, ANSWER * (longest + 2))

    def alone(self, requests: list[Action]) -> dict[str, list[int]]:
        """What each request is answered, alone on an empty cache; by its id."""
        ids = {f"alone{next(self._numbers):07}": each["rid"] for each in requests}
        asked = [{**each, "rid": rid} for rid, each in zip(ids, requests, strict=True)]
        message = {"op": "alone", "requests": asked, "limit": ANSWER}
        noted = self._noted(message, ANSWER * (len(requests) + 1))
        return {ids[each["rid"]]: each["tokens"] for each in noted if each["what"] == "final"}

    def end(self) -> None:
        """End it and all it started."""
        self._pipe.kill()

    def _noted(self, message: dict[str, Any], limit: float) -> list[dict[str, Any]]:
        noted: list[dict[str, Any]] = self._ask(message, limit)["noted"]
        return noted

    def _ask(self, message: dict[str, Any], limit: float) -> dict[str, Any]:
        with interrupts.released():
            self._pipe.send(json.dumps(message), limit)
            line = self._pipe.line(limit)
        try:
            answer = jsontext.parse(line)
        except jsontext.BadJson as bad:
            raise self._pipe.failed("garbage", f"garbage on the wire: {bad}") from None
        if not answer["ok"]:
            raise EngineUnusable(answer["error"])
        result: dict[str, Any] = answer["result"]
        return result
