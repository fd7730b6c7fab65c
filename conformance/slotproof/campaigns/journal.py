"""A journal: a folder whose ``journal.jsonl`` says all that a campaign did, line by line.

Each line is written whole and is on the disk before the next thing is done; one that was cut short
is the last, and is dropped. One process writes at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from slotproof.campaigns.lines import HEAD, LINE, Head
from slotproof.campaigns.state import CampaignState
from slotproof.support import bounds, jsontext
from slotproof.support.jsontext import BadJson

NAME = "journal.jsonl"
LOCK = "journal.lock"

_ODD = (ValueError, LookupError, TypeError, AttributeError)
"""What a line raises that is of its type and makes no sense."""


class BadJournal(ValueError):
    """No journal, or one of something else; one line that says why."""


def lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The whole lines of a journal, each with the bytes up to its end. Raises :class:`BadJournal`.

    The last one is left out where it was cut short.
    """
    end = 0
    try:
        with path.open("rb") as file:
            number, text = 1, file.readline(bounds.LINE_BYTES + 1)
            while text:
                following = file.readline(bounds.LINE_BYTES + 1)
                end += len(text)
                try:
                    if not text.endswith(b"\n"):
                        raise BadJson("the line is cut short, or too long")
                    line = jsontext.parse(text)
                    if (wrong := (HEAD if number == 1 else LINE).misfit(line)) is not None:
                        raise BadJson(wrong.at("line"))
                except BadJson as bad:
                    # It was being written when the process or the machine stopped.
                    if not following and (number > 1 or not text.endswith(b"\n")):
                        return
                    raise BadJournal(f"{path}, line {number}: {bad}") from None
                yield end, line
                number, text = number + 1, following
    except OSError as error:
        raise BadJournal(f"{path}: {error.strerror}") from None


def load(folder: Path) -> CampaignState:
    """What a journal says, while another process may write to it. Raises :class:`BadJournal`."""
    state, _ = _load(folder / NAME)
    if state is None:
        raise BadJournal(f"{folder / NAME}: nothing is in it yet")
    return state


def _load(path: Path) -> tuple[CampaignState | None, int]:
    state, whole = None, 0
    for number, (end, line) in enumerate(lines(path), 1):
        try:
            if state is None:
                state = CampaignState(Head.from_json(line))
            else:
                state.read(line)
        except _ODD as error:
            raise BadJournal(f"{path}, line {number}: {error}") from None
        whole = end
    return state, whole


def head_of(folder: Path) -> Head | None:
    """What the journal of that folder is of; ``None`` where there is none. Raises
    :class:`BadJournal`."""
    if not (folder / NAME).exists():
        return None
    first = next((line for _, line in lines(folder / NAME)), None)
    try:
        return None if first is None else Head.from_json(first)
    except _ODD as error:
        raise BadJournal(f"{folder / NAME}, line 1: {error}") from None


class Journal:
    """The journal of a campaign that goes on. Raises :class:`BadJournal` where it can't, and
    ``OSError`` where its folder can't be made."""

    def __init__(self, folder: Path, head: Head) -> None:
        self.folder, self.path = folder, folder / NAME
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(folder / LOCK)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise BadJournal(f"{folder}: another campaign writes to this journal") from None
        self._file = -1
        try:
            self._open(head)
        except BaseException:
            self.close()
            raise

    def _open(self, head: Head) -> None:
        state, self._end = _load(self.path) if self.path.exists() else (None, 0)
        if state is not None and (differs := difference(state.head, head)) is not None:
            raise BadJournal(
                f"{self.path}: {differs}; go on as it was begun, or name another --journal"
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        self._file = os.open(self.path, flags, 0o666)
        os.ftruncate(self._file, self._end)
        os.lseek(self._file, self._end, os.SEEK_SET)
        if state is None:
            state = CampaignState(head)
            self._write(_encoded(head.to_json()))
            _settle(self.folder)
        self.state = state

    def add(self, line: Mapping[str, Any]) -> None:
        """Take a line in as a reader would, and write it.

        Raises :class:`BadJournal` where that can't be done: then it is not in the journal, and this
        is of no use any more.
        """
        data = _encoded(line)
        again = jsontext.parse(data)
        wrong = LINE.misfit(again)
        assert wrong is None, wrong
        self.state.read(again)
        self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(self._file, left) :]
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._end)
            raise BadJournal(
                f"{self.path} can't be written to: {error.strerror}; what is in it is whole, and "
                "the same command goes on from there"
            ) from None
        self._end += len(data)

    def close(self) -> None:
        """Let another process write."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._lock.release()


def _encoded(line: Mapping[str, Any]) -> bytes:
    """A line; what has no UTF-8 (a lone surrogate) is a question mark."""
    text = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _settle(folder: Path) -> None:
    """The file itself is there after a power cut, too."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


_SAID: dict[str, Callable[[Head], object]] = {
    "slotproof": lambda head: f"{head.slotproof} (sources {head.sources})",
    "engine": lambda head: head.title,
    "--engine": lambda head: head.spec,
    "what the engine is started with": lambda head: head.options or "nothing",
    "what the engine offers": lambda head: sorted(map(repr, head.offers.items())),
    "--profile": lambda head: head.chosen_profile or "none",
    "profile": lambda head: head.profile,
    "--seed": lambda head: head.seed,
    "--config": lambda head: ", ".join(head.configs),
    "a configuration": lambda head: [each.to_json() for each in head.configs.values()],
    "steps": lambda head: head.steps,
    "--ignore": lambda head: ", ".join(head.set_aside) or "none",
    "--baseline": lambda head: head.known or "none",
    "--task": lambda head: head.examples_of_task,
    "--round": lambda head: head.tasks_of_round,
    "replays of shrinking": lambda head: head.shrink,
}
SHARED = ("slotproof", "engine", "what the engine offers", "--profile", "profile", "--ignore")
"""What journals have in common that are merged."""


def difference(journal: Head, here: Head, names: tuple[str, ...] = tuple(_SAID)) -> str | None:
    """What of them is not the same, in words; ``None`` where nothing is."""
    for name in names:
        was, now = (_SAID[name](each) for each in (journal, here))
        if was != now:
            plain = isinstance(was, list)
            return f"{name} is another one" if plain else f"{name} was {was}, and is {now} now"
    return None


def canonical(folder: Path) -> list[dict[str, Any]]:
    """A journal without times, and in an order of its own: the same for any number of workers, and
    however often it was stopped. Raises :class:`BadJournal`."""
    result = []
    for _, line in lines(folder / NAME):
        if line["kind"] not in ("begun", "seen", "shorter", "judged"):
            times = ("at", "seconds", "started")
            result.append({name: value for name, value in line.items() if name not in times})
    kinds = ("head", "joined", "round", "task", "closed", "shrunk")

    def place(line: dict[str, Any]) -> tuple[int, ...]:
        kind = kinds.index(line["kind"])
        if "part" in line:
            kind = 0
        number = line.get("task", line.get("group", 0))
        return (line.get("part", -1), line.get("round", -1), kind, number)

    return sorted(result, key=place)
