"""Page numbers as text and as runs: ``4-6 9`` is two runs, however long they are."""

from __future__ import annotations

import re
from collections.abc import Iterable

Run = tuple[int, int]
"""The first and the last page."""

_PAGE = "-?[0-9]{1,16}"
"""Any integer that an engine may show: a wild page number is in the trace that shows it."""
_RUN = re.compile(f"({_PAGE})(?:-({_PAGE}))?", re.ASCII)
PATTERN = f"^({_PAGE}(-{_PAGE})?( |$))*$"
"""What :func:`spans` writes."""


def spans(pages: Iterable[int]) -> str:
    """Pages in their order, runs joined.

    >>> spans([4, 5, 6, 9, 9, 2])
    '4-6 9 9 2'
    """
    return text(joined((page, page) for page in pages))


def joined(runs: Iterable[Run]) -> list[Run]:
    """The same pages in as few runs as their order allows.

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
    """Runs as :func:`spans` writes them.

    >>> text([(4, 6), (9, 9)])
    '4-6 9'
    """
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def runs_in(written: str) -> list[Run]:
    """The runs of :func:`spans`; ``ValueError`` for anything else.

    >>> runs_in("4-6 9 9 2"), runs_in("")
    ([(4, 6), (9, 9), (9, 9), (2, 2)], [])
    """
    runs = []
    for part in written.split():
        found = _RUN.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first:
            raise ValueError(f"{part[:20]!r} is no run of pages")
        runs.append((first, last))
    return runs


def count(runs: Iterable[Run]) -> int:
    """How many pages they have.

    >>> count([(4, 6), (9, 9)])
    4
    """
    return sum(last - first + 1 for first, last in runs)
