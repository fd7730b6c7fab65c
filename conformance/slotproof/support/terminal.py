"""The only module that prints. No command's output can control the terminal.

Names, messages and file contents come from drivers, engines and strangers. Characters that control
a terminal (control characters, escape sequences, text direction) are escaped. No text can then move
the cursor or forge a line. Only :class:`Painted` adds color, after the escaping. The linter
(``pyproject.toml``) forbids ``typer.echo``, ``print`` and the standard streams elsewhere.
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
    """A line that is highlighted on a terminal, and plain elsewhere."""

    text: str
    red: bool = False
    bold: bool = False
    dim: bool = False


def plain(text: str) -> str:
    r"""Return the text as one line. Line ends and characters that control a terminal are escaped.

    >>> plain("a\x1b[2Jb\nconforms")
    'a\\x1b[2Jb\\nconforms'
    """
    return _escaped(text, lambda char: char.encode("unicode_escape").decode())


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else escape(char) for char in text)


def plain_lines(text: str) -> str:
    r"""Return the text escaped as by :func:`plain`, but with its line ends.

    >>> plain_lines("a\x1bb\nc")
    'a\\x1bb\nc'
    """
    return text if text.isprintable() else "\n".join(map(plain, text.split("\n")))


def labelled(label: str, text: object) -> str:
    """Return a line of a summary. A line that continues the subject above has an empty label.

    >>> labelled("engine", "toy 1"), labelled("", "and more")
    ('engine          toy 1', '                and more')
    """
    return f"{label:<15} {text}"


def duration(seconds: float) -> str:
    """
    >>> duration(59), duration(61), duration(36_061)
    ('59 s', '1 min 1 s', '10 h 1 min')
    """
    if (whole := round(seconds)) < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def json_text(value: Any) -> str:
    r"""Return a readable JSON document with a line end, escaped as by :func:`plain`.

    Raises ``ValueError`` for NaN and infinity.

    >>> json_text(["≠", "\x9b2J\U000e0001"])
    '[\n "≠",\n "\\u009b2J\\udb40\\udc01"\n]\n'
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    # Outside JSON strings, only the line ends are not printable.
    lines = (_escaped(line, lambda char: json.dumps(char)[1:-1]) for line in text.split("\n"))
    return "\n".join(lines) + "\n"


def say(line: str | Painted = "") -> None:
    """Print a line on standard output."""
    painted = line if isinstance(line, Painted) else Painted(line)
    text = plain(painted.text)
    terminal = sys.stdout is not None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if terminal and painted != Painted(painted.text):
        fg = "red" if painted.red else None
        text = typer.style(text, fg=fg, bold=painted.bold or None, dim=painted.dim or None)
    _write(sys.stdout, f"{text}\n")


def say_all(lines: Iterable[str | Painted]) -> None:
    """Print lines on standard output as they come."""
    for line in lines:
        say(line)


def say_text(text: str) -> None:
    """Print a text on standard output. The text's line ends must come from slotproof's own code."""
    say_all(text.removesuffix("\n").split("\n"))


def say_json(value: Any) -> None:
    """Print a JSON document on standard output."""
    _write(sys.stdout, json_text(value))


def complain(text: str) -> None:
    """Print a message in one line on standard error."""
    _write(sys.stderr, f"slotproof: {plain(' '.join(text.split()))}\n")


def complain_text(text: str) -> None:
    """Print lines on standard error, such as a traceback."""
    for line in text.removesuffix("\n").split("\n"):
        _write(sys.stderr, f"{plain(line)}\n")


def _write(stream: TextIO | None, text: str) -> None:
    if stream is not None:  # The stream is None if it was closed when the program started.
        stream.write(text)
        stream.flush()
