"""Judges a log as it grows, in bounded memory, and goes on where it was: ``validate --follow``.

What a judge knows after a line is small: the spec's world, what clients are waiting for, the last
state, and what was counted. It is written to a file between two lines, whole, so that a judge that
was killed goes on from there as if nothing had happened; lines after it are read again.
"""

from __future__ import annotations

import json
import time
import zlib
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from slotproof.lockstep.client import Sent
from slotproof.logs.format import Header, Log, Place
from slotproof.logs.judging import ENDS, Judge, LogFinding, Recording, Verdict
from slotproof.protocol.hidden import hashed
from slotproof.protocol.snapshot import Tokens
from slotproof.support import interrupts, jsontext
from slotproof.support.files import write_whole
from slotproof.traces.record import Row
from slotproof_model.evaluation.world import World

VERSION = 2
POLL = 0.2
"""Seconds until one looks again whether there is more."""
SAVED = 1.0
"""Seconds between two states that are written."""
_MOST = 64 << 20
"""Bytes of a state that are read."""


class BadState(ValueError):
    """Not a state of a judge, or of another log; one line that says why."""


@dataclass
class _RecordingCheckpoint:
    """State of the recording that the log is in."""

    header: dict[str, Any]
    rows: list[Row]
    commands: int
    pending: list[dict[str, Any]]
    announced: int
    iteration: int
    ended: bool
    file: int
    before: int
    position: int
    start: dict[str, Any] | None
    lost: bool
    gap: bool
    injected: bool
    unheard: list[dict[str, Any]]
    consumed: int
    snapshot: dict[str, Any]
    world: tuple[list[int], dict[str, list[int]], dict[str, str]] | None
    requests: dict[str, Sent]
    history: dict[str, Tokens]
    unread: list[dict[str, Any]]
    waiting: tuple[bool, int, int]


@dataclass
class _JudgeCheckpoint:
    """State of a judge after a line."""

    choices: tuple[str | None, tuple[str, ...]]
    place: Place
    verdict: Verdict
    lines: int
    life: _RecordingCheckpoint | None


_ADAPTER = TypeAdapter(_JudgeCheckpoint)


def follow(
    named: list[Path],
    profile: str | None,
    set_aside: Collection[str],
    tell: Callable[[LogFinding, Verdict], None],
    progress: Callable[[Verdict, Log], None],
    resume: Path | None = None,
    wait: Callable[[], bool] | None = None,
) -> Verdict:
    """Judge a log as it grows, until an interrupt or until its recorder stopped; ``tell`` of each
    line that can't be explained, and go on. ``wait`` is asked where there is no more, whether to
    look again; ``None``: the log ends there.

    Raises :class:`~slotproof.logs.format.BadLog`, :class:`BadState` and ``OSError``.
    """
    log = Log(named)
    judge = Judge(log, profile, set_aside)
    if resume is not None and resume.exists():
        _restore(judge, resume)
    between, saved = True, time.monotonic()

    def save(least: float = 0.0) -> None:
        nonlocal saved
        if resume is not None and log.place is not None and time.monotonic() >= saved + least:
            write_whole(resume, _text(judge))
            saved = time.monotonic()

    def more() -> bool:
        over = judge.recording is not None and judge.recording.ended
        if wait is None or over:
            return False
        save()
        judge.done()
        progress(judge.verdict, log)
        return wait()

    log.wait = more
    findings = judge.findings()
    try:
        while True:
            between = False
            found = next(findings, judge)
            between = True
            if isinstance(found, Judge):
                break
            if found is not None:
                tell(found, judge.verdict)
            save(SAVED)
            progress(judge.verdict, log)
    except KeyboardInterrupt:
        pass  # what was found is told; a line that was not judged to its end is judged again
    judge.done()
    if between:
        save()
    return judge.verdict


def sleep() -> bool:
    """Wait for more, until an interrupt."""
    with interrupts.released():
        time.sleep(POLL)
    return True


# The state ------------------------------------------------------------------------------------


def _text(judge: Judge) -> str:
    assert judge.log.place is not None
    life = _checkpoint(judge.recording) if judge.recording is not None else None
    judge.done()
    state = _JudgeCheckpoint(judge.choices, judge.log.place, judge.verdict, judge.log.lines, life)
    text = _ADAPTER.dump_json(state).decode()
    return json.dumps({"slotproof-follow": VERSION, "crc": _crc(text), "state": text}) + "\n"


def _crc(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _checkpoint(recording: Recording) -> _RecordingCheckpoint:
    referee, client = recording.referee, recording.referee.client
    world = referee.world
    return _RecordingCheckpoint(
        **{name: getattr(recording, name) for name in _PLAIN},
        header=recording.header.raw,
        rows=list(recording.rows),
        **referee.memory(),
        world=None if world is None else (world.pools, world.actors, world.writers),
        requests=client.requests,
        history=client.history,
        unread=[{k: v for k, v in each.items() if k in _SAID} for each in client.unread],
        waiting=(client.paused, client.unheard, client.stalled),
    )


_SAID = ("do", "session", "rid")
_PLAIN = (
    "commands",
    "pending",
    "announced",
    "iteration",
    "ended",
    "file",
    "before",
    "position",
    "start",
    "lost",
)
"""Fields that are saved as they are."""


def _restore(judge: Judge, path: Path) -> None:
    """Put the judge where it was. Raises :class:`BadState`."""
    try:
        document = jsontext.read(path, _MOST)
        if document["slotproof-follow"] != VERSION or _crc(document["state"]) != document["crc"]:
            raise BadState(f"{path}: the state is of another version, or was changed")
        state = _ADAPTER.validate_json(document["state"])
    except (jsontext.BadJson, ValidationError, KeyError, TypeError, AttributeError) as error:
        why = str(error) if isinstance(error, jsontext.BadJson) else "no state of `validate`"
        raise BadState(f"{path}: {why}") from None
    if state.choices != judge.choices:
        raise BadState(f"{path}: was judged with another --profile or --ignore")
    file = str(Path(state.place.file).resolve())
    if not any(file.startswith(str(named.resolve())) for named in judge.log.named):
        raise BadState(f"{path}: is of another log, {state.place.file}")
    judge.verdict, judge.log.start, judge.log.place = state.verdict, state.place, state.place
    judge.verdict.log, judge.log.lines = str(judge.log), state.lines
    judge.verdict.ends = deque(state.verdict.ends, maxlen=ENDS)
    judge.verdict.broken = ""
    for row in state.verdict.found.rows if state.verdict.found else ():
        row.command.update(_with_tokens(row.command))
    if state.life is not None:
        _revive(judge, state.life)


def _revive(judge: Judge, saved: _RecordingCheckpoint) -> None:
    recording = judge.recording = judge.live(Header.of(saved.header))
    for name in _PLAIN:
        setattr(recording, name, getattr(saved, name))
    recording.rows.extend(saved.rows)
    for said in (*saved.unheard, *(row.command for row in saved.rows)):
        said.update(_with_tokens(said))
    referee, client = recording.referee, recording.referee.client
    referee.remember(vars(saved))
    if saved.world is not None:
        pools, actors, writers = saved.world
        referee.world = World(referee.constants, pools)
        for key, values in actors.items():
            referee.world.put(key, values)
        referee.world.writers = writers
    client.requests, client.history, client.unread = saved.requests, saved.history, saved.unread
    client.paused, client.unheard, client.stalled = saved.waiting


def _with_tokens(said: Mapping[str, Any]) -> dict[str, Any]:
    """The tokens of a command or a message, as a log's reader gives them."""
    return {"tokens": hashed(said["tokens"])} if "tokens" in said else {}
