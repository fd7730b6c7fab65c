"""The one printer: all that a command says goes through here, and none of it is obeyed.

Names, messages and file contents come from drivers, engines and strangers. What a terminal would
obey in them (controls, escape sequences, marks that turn the direction of text) is shown as its
escape, so that text can neither move the cursor nor forge a line. Colour is put around what has
been made harmless, and only by :class:`Painted`. ``typer.echo``, ``print`` and the streams
themselves are forbidden elsewhere, by the linter (``pyproject.toml``).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TextIO

import typer


@dataclass(frozen=True)
class Painted:
    """A line that stands out on a terminal; elsewhere only its text is left."""

    text: str
    red: bool = False
    bold: bool = False
    dim: bool = False


def plain(text: str) -> str:
    """One line without anything that a terminal would obey; line ends are escaped too.

    >>> plain("a\\x1b[2Jb\\nconforms")
    'a\\\\x1b[2Jb\\\\nconforms'
    """
    return _escaped(text, lambda char: char.encode("unicode_escape").decode())


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else escape(char) for char in text)


def plain_lines(text: str) -> str:
    """A text whose line ends are its own, and which is :func:`plain` otherwise.

    >>> plain_lines("a\\x1bb\\nc")
    'a\\\\x1bb\\nc'
    """
    return text if text.isprintable() else "\n".join(map(plain, text.split("\n")))


def labelled(label: str, text: object) -> str:
    """A line of a summary: what it is about, or nothing below another line on that, and the text.

    >>> labelled("engine", "toy 1"), labelled("", "and more")
    ('engine          toy 1', '                and more')
    """
    return f"{label:<15} {text}"


def duration(seconds: float) -> str:
    """
    >>> duration(59), duration(61), duration(36_061)
    ('59 s', '1 min 1 s', '10 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def json_text(value: Any) -> str:
    """A JSON document with its line end: readable, and as harmless as :func:`plain` text.

    Raises ``ValueError`` for what JSON has no number for.

    >>> json_text(["≠", "\\x9b2J\\U000e0001"])
    '[\\n "≠",\\n "\\\\u009b2J\\\\udb40\\\\udc01"\\n]\\n'
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    # Between strings there is nothing that is not printable but the line ends.
    lines = (_escaped(line, lambda char: json.dumps(char)[1:-1]) for line in text.split("\n"))
    return "\n".join(lines) + "\n"


def say(line: str | Painted = "") -> None:
    """A line on standard output."""
    painted = line if isinstance(line, Painted) else Painted(line)
    text = plain(painted.text)
    terminal = sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if terminal and painted != Painted(painted.text):
        fg = "red" if painted.red else None
        text = typer.style(text, fg=fg, bold=painted.bold or None, dim=painted.dim or None)
    _write(sys.stdout, f"{text}\n")


def say_all(lines: Iterable[str | Painted]) -> None:
    """Lines on standard output, each as it comes."""
    for line in lines:
        say(line)


def say_text(text: str) -> None:
    """A text of many lines on standard output. Who made it vouches for its line ends."""
    say_all(text.removesuffix("\n").split("\n"))


def say_json(value: Any) -> None:
    """A JSON document on standard output."""
    _write(sys.stdout, json_text(value))


def complain(text: str) -> None:
    """What went wrong, in one line on standard error."""
    _write(sys.stderr, f"slotproof: {plain(' '.join(text.split()))}\n")


def complain_text(text: str) -> None:
    """Many lines on standard error, such as a traceback."""
    for line in text.removesuffix("\n").split("\n"):
        _write(sys.stderr, f"{plain(line)}\n")


def _write(stream: TextIO | None, text: str) -> None:
    if stream is not None:  # None: there was none when the program started
        stream.write(text)
        stream.flush()
