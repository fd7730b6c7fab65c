"""How a word of the command line may go on: what a shell asks, answered by typer.

bash takes ``:`` and ``=`` for ends of words. What it asks then is put together again, and the
answer is only what comes after the last of them: bash has the rest.
"""

from __future__ import annotations

import io
import os
import re
import shlex
from contextlib import redirect_stdout

from slotproof.cli.commands import app
from slotproof.support.terminal import say_columns

_BREAKS = re.compile(r"[:=]+")
"""What bash makes a word of its own (``COMP_WORDBREAKS``)."""
_OPTION = re.compile(r"--[\w-]+=")


def complete() -> int:
    """Answer the shell that asks in the environment; the exit status."""
    begun = _joined() if "COMP_WORDS" in os.environ else ""
    told = io.StringIO()
    try:
        with redirect_stdout(told):
            app(prog_name="slotproof")
    except SystemExit as done:
        for line in _rests(told.getvalue(), begun):
            say_columns(line.split("\t"))  # fish has a tab before the help
        return done.code if isinstance(done.code, int) else 0
    return 0


def _joined() -> str:
    """Put bash's words together in the environment, for typer; what it has of the last already."""
    try:
        words = shlex.split(os.environ["COMP_WORDS"])
    except ValueError:  # a quote is open: typer makes of it what it can
        return ""
    at = int(os.environ.get("COMP_CWORD", "0"))
    whole, begun = join(words[: at + 1] if at < len(words) else [*words, ""])
    os.environ["COMP_WORDS"] = shlex.join(whole)
    os.environ["COMP_CWORD"] = str(len(whole) - 1)
    return begun


def join(words: list[str]) -> tuple[list[str], str]:
    """Words as they were typed, and what of the last one bash does not ask for.

    >>> join(["slotproof", "run", "--engine", "reference", ":", "22"])
    (['slotproof', 'run', '--engine', 'reference:22'], 'reference:')
    >>> join(["slotproof", "run", "--engine", "sglang", "=="])
    (['slotproof', 'run', '--engine', 'sglang=='], 'sglang==')
    >>> join(["slotproof", "show", ""])
    (['slotproof', 'show', ''], '')
    """
    whole: list[str] = []
    begun, glued = "", False
    for word in words:
        breaks = bool(_BREAKS.fullmatch(word))
        if whole and (breaks or glued):
            begun = whole[-1] + (word if breaks else "")
            whole[-1] += word
        else:
            whole.append(word)
            begun = ""
        glued = breaks
    return whole, begun


def _rests(answer: str, begun: str) -> list[str]:
    """Of each name what bash has not."""
    of_value = _OPTION.sub("", begun, count=1)
    return [name.removeprefix(of_value) for name in answer.splitlines()]
