"""Content without weights: what a model would have computed, as numbers.

The KV of a position depends on its token, on where it is, and on all KV before it; the token that
is sampled depends on all KV that was read. So whoever reads a wrong block gets wrong tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

TOKENS = 240
"""Answers are 1 to 240."""


def computed(prefix: int, token: int, position: int) -> int:
    """The KV of a token, after a prefix that was read."""
    return crc32(b"%d %d %d" % (prefix, token, position))


def read(prefix: int, kv: int) -> int:
    """The prefix with one more position."""
    return crc32(b"%d" % kv, prefix)


def sampled(prefix: int) -> int:
    """The token that follows."""
    return 1 + prefix % TOKENS


def continued(prefix: int, tokens: list[int], count: int) -> list[int]:
    """The ``count`` tokens that follow ``tokens``, all but the last of which were read."""
    token, position, answer = tokens[-1], len(tokens) - 1, list[int]()
    while len(answer) < count:
        prefix = read(prefix, computed(prefix, token, position))
        token, position = sampled(prefix), position + 1
        answer.append(token)
    return answer


def follows(tokens: Iterable[int], count: int) -> list[int]:
    """The ``count`` tokens that follow ``tokens`` where nothing is cached.

    >>> first, second = follows([1, 2, 3], 2)
    >>> [first] == follows([1, 2, 3], 1), [second] == follows([1, 2, 3, first], 1)
    (True, True)
    """
    prefix, position, answer = 0, 0, list[int]()
    known = list(tokens)
    while len(answer) < count:
        while position < len(known):
            prefix = read(prefix, computed(prefix, known[position], position))
            position += 1
        answer.append(sampled(prefix))
        known.append(answer[-1])
    return answer
