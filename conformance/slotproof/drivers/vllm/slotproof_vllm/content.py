"""Content without weights: plain numbers replace the results of a model.

The KV of a position depends on its token, its position and all earlier KV. A sampled token depends
on all KV before it. A request that reads a wrong block therefore gets wrong tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

TOKENS = 240
"""Number of possible answer tokens, 1 to 240."""


def computed(prefix: int, token: int, position: int) -> int:
    """Return the KV of a token, given the prefix that was read before it."""
    return crc32(b"%d %d %d" % (prefix, token, position))


def read(prefix: int, kv: int) -> int:
    """Return the prefix that results from reading one more position."""
    return crc32(b"%d" % kv, prefix)


def sampled(prefix: int) -> int:
    """Return the token that follows a prefix."""
    return 1 + prefix % TOKENS


def continued(prefix: int, tokens: list[int], count: int) -> list[int]:
    """Return the next ``count`` tokens. ``prefix`` covers all of ``tokens`` except the last."""
    token, position, answer = tokens[-1], len(tokens) - 1, list[int]()
    while len(answer) < count:
        prefix = read(prefix, computed(prefix, token, position))
        token, position = sampled(prefix), position + 1
        answer.append(token)
    return answer


def follows(tokens: Iterable[int], count: int) -> list[int]:
    """Return the next ``count`` tokens, at least one, computed without a cache.

    >>> first, second = follows([1, 2, 3], 2)
    >>> [first] == follows([1, 2, 3], 1), [second] == follows([1, 2, 3, first], 1)
    (True, True)
    """
    prefix, known = 0, list(tokens)
    for position, token in enumerate(known):
        prefix = read(prefix, computed(prefix, token, position))
    first = sampled(prefix)
    return [first, *continued(prefix, [*known, first], count - 1)]
