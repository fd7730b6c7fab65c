"""What an engine alone is asked: the end of a script, and what a report says of it."""

from __future__ import annotations

import builtins
import re
from dataclasses import dataclass

_PATH = re.compile(r"(?<![\w.:/\\])(?:~|[A-Za-z]:)?(?:[\\/]+[\w.@+~-]+){2,}")


@dataclass(frozen=True)
class Question:
    """What is looked at in the end."""

    title: str
    expected: str
    seen: str
    look: tuple[str, ...]
    """The last lines of ``finding()``: they return what is wrong, or None."""
    raises: str = ""
    """The type of the exception that ends the scheduler."""
    figures: tuple[str, ...] = ()
    """Words of the engine that a reader may want to have explained."""
    iteration: int | None = None
    """Of the last command, where it was seen."""


def catching(kind: str) -> tuple[str, ...]:
    """What follows the calls of which one raises it.

    >>> catching("AssertionError")[0], catching("OutOfBlocks")[0]
    ('except AssertionError as error:', 'except Exception as error:')
    """
    made = getattr(builtins, kind, None)
    known = isinstance(made, type) and issubclass(made, Exception)
    other = f'    if type(error).__name__ != "{kind}":', "        raise"
    return (
        f"except {kind if known else 'Exception'} as error:",
        *(() if known else other),
        f"    return f\"the scheduler ends: {kind}: {{' '.join(str(error).split())}}\"",
    )


def scrubbed(said: str) -> str:
    """Without paths of the machine it was seen on.

    >>> scrubbed("No such file: '/home/me/x/site-packages/sglang/a.py', 1/2 of s1")
    "No such file: 'sglang/a.py', 1/2 of s1"
    """

    def short(found: re.Match[str]) -> str:
        path = found[0].replace("\\", "/")
        return path.partition("-packages/")[2] or path.rpartition("/")[2]

    return _PATH.sub(short, said)
