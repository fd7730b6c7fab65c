"""Page numbers as text and as runs. The text ``4-6 9`` has two runs."""

from __future__ import annotations

import re
from collections.abc import Iterable

Run = tuple[int, int]
"""First and last page number of a run."""

_PAGE = "-?[0-9]{1,16}"
"""Pattern of any page number that an engine may report, even an impossible one."""
_RUN = re.compile(f"({_PAGE})(?:-({_PAGE}))?", re.ASCII)
PATTERN = f"^({_PAGE}(-{_PAGE})?( |$))*$"
"""Pattern of the texts that :func:`spans` returns."""


def spans(pages: Iterable[int]) -> str:
    """Return page numbers as text, in the given order. Consecutive numbers become one run.

    >>> spans([4, 5, 6, 9, 9, 2])
    '4-6 9 9 2'
    """
    return text(joined((page, page) for page in pages))


def joined(runs: Iterable[Run]) -> list[Run]:
    """Return the same pages in the same order, with adjacent runs joined.

    >>> joined([(1, 2), (3, 3), (9, 9)])
    [(1, 3), (9, 9)]
    """
    result: list[Run] = []
    for first, last in runs:
        if result and first == result[-1][1] + 1:
            result[-1] = (result[-1][0], last)
        else:
            result.append((first, last))
    return result


def text(runs: Iterable[Run]) -> str:
    """Return runs as text, in the format of :func:`spans`.

    >>> text([(4, 6), (9, 9)])
    '4-6 9'
    """
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def runs_in(written: str) -> list[Run]:
    """Parse a text in the format of :func:`spans`. Raises ``ValueError`` for any other text.

    >>> runs_in("4-6 9 9 2"), runs_in("")
    ([(4, 6), (9, 9), (9, 9), (2, 2)], [])
    """
    runs = []
    for part in written.split():
        match = _RUN.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first:
            raise ValueError(f"{part[:20]!r} is not a run of page numbers")
        runs.append((first, last))
    return runs


def count(runs: Iterable[Run]) -> int:
    """Return the number of pages in the runs.

    >>> count([(4, 6), (9, 9)])
    4
    """
    return sum(last - first + 1 for first, last in runs)
