"""Shrinking of a failing input: parts are dropped as long as it fails with the same cause."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.fuzz.batches import bound
from tests.fuzz.given import Input
from tests.fuzz.judging import Failed, examine, prepared

SECONDS = 20.0


def shrunk(given: Input, cause: str, seconds: float = SECONDS) -> Input:
    """Return the input, or a smaller input with the same cause, found in a forked process.

    An input with a wrong figure stays: without the figure it is no longer wrong. A driver stays: it
    is a program.
    """
    if given.wrong or given.right or given.kind == "drivers":
        return given
    with tempfile.TemporaryDirectory() as name:
        best = Path(name) / "best"
        child = os.fork()
        if child == 0:
            try:
                bound()
                with prepared(Path(name)):
                    _shrink(given, cause, best, Path(name), time.monotonic() + seconds)
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        return replace(given, data=best.read_bytes()) if best.exists() else given


def _shrink(given: Input, cause: str, best: Path, folder: Path, deadline: float) -> None:
    """Replace the input with the first smaller candidate of the same cause, until none is left."""
    smaller = True
    while smaller:
        smaller = False
        for data in _less(given.data):
            if time.monotonic() > deadline:
                return
            if len(data) < len(given.data) and _fails(replace(given, data=data), cause, folder):
                given, smaller = replace(given, data=data), True
                temporary = best.with_suffix(".tmp")
                temporary.write_bytes(data)
                temporary.replace(best)
                break


def _fails(given: Input, cause: str, folder: Path) -> bool:
    try:
        examine(given, folder)
    except Failed as failed:
        return failed.cause == cause
    return False


def _less(data: bytes) -> Iterator[bytes]:
    """Yield smaller inputs: without lines, without parts of a value, without bytes."""
    lines = data.splitlines(keepends=True)
    if len(lines) > 1:
        for size in (len(lines) // 2, len(lines) // 4, 1):
            for start in range(0, len(lines), max(1, size)):
                yield b"".join(lines[:start] + lines[start + max(1, size) :])
    for index, line in enumerate(lines[:50]):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        for less in _without(value):
            try:
                text = json.dumps(less, separators=(",", ":")).encode("utf-8", "surrogatepass")
            except (ValueError, RecursionError):
                return
            yield b"".join([*lines[:index], text + b"\n", *lines[index + 1 :]])
    for size in (len(data) // 2, len(data) // 8, 64):
        for start in range(0, len(data), max(size, 1)):
            yield data[:start] + data[start + size :]


def _without(value: Any) -> Iterator[Any]:
    """Yield the value without one of its parts, outer parts first."""
    if not isinstance(value, dict | list):
        return
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    for key in keys[:200]:
        yield (
            {name: part for name, part in value.items() if name != key}
            if isinstance(value, dict)
            else value[:key] + value[key + 1 :]
        )
    for key in keys[:200]:
        for less in _without(value[key]):
            if isinstance(value, dict):
                yield {**value, key: less}
            else:
                yield [*value[:key], less, *value[key + 1 :]]
