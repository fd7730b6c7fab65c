"""Changes to any JSON value and to any bytes."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from random import Random
from typing import Any

from tests.fuzz.odd import HEAVY, LIGHT, raw

Place = tuple[Any, Any]
"""A list or an object, and an index or key in it."""


def odd(rng: Random) -> str:
    """Return an unexpected value."""
    return raw(rng.choice(HEAVY) if rng.randrange(100) == 0 else rng.choice(LIGHT))


def place(rng: Random, root: Any) -> Place | None:
    """Return a random place in the value, or None if the value is empty."""
    node, where = root, None
    while isinstance(node, dict | list) and node:
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        where = node, key
        node = node[key]
        if rng.randrange(8) == 0:
            break
    return where


def changed(rng: Random, root: Any) -> Any:
    """Return the value with one change, made in place if possible."""
    where = place(rng, root)
    if where is None or rng.randrange(200) == 0:
        return odd(rng)
    rng.choice(_CHANGES)(rng, root, where)
    return root


def _replace(rng: Random, root: Any, where: Place) -> None:
    del root
    node, key = where
    node[key] = odd(rng)


def _remove(rng: Random, root: Any, where: Place) -> None:
    del rng, root
    node, key = where
    del node[key]


def _add(rng: Random, root: Any, where: Place) -> None:
    """Add an item beside it."""
    del root
    node, key = where
    if isinstance(node, list):
        node.insert(key, odd(rng))
    else:
        node[rng.choice(["x", "", "\x1b]0;a\x07", "id", "#bigint", "session", "n", key + " "])] = (
            odd(rng)
        )


def _rename(rng: Random, root: Any, where: Place) -> None:
    node, key = where
    if isinstance(node, dict):
        node[raw(rng.choice(LIGHT[:40]))] = node.pop(key)
    else:
        _remove(rng, root, where)


def _again(rng: Random, root: Any, where: Place) -> None:
    """Repeat an item once or many times."""
    node, key = where
    if isinstance(node, list):
        node[key:key] = [node[key]] * (rng.choice((1, 2, 30)) if rng.randrange(100) else 10_000)
    else:
        _replace(rng, root, where)


def _swap(rng: Random, root: Any, where: Place) -> None:
    """Replace a value with a copy from elsewhere."""
    node, key = where
    other = place(rng, root)
    if other is not None:
        source, name = other
        node[key] = copy.deepcopy(source[name])


def _nudge(rng: Random, root: Any, where: Place) -> None:
    """Make a number slightly wrong, or a string slightly longer."""
    node, key = where
    value = node[key]
    if type(value) is int:
        node[key] = rng.choice((value + 1, value - 1, -value, value * 1000, float(value)))
    elif isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        node[key] = str(int(value) + rng.choice((1, -1, 10**6)))
    elif isinstance(value, str):
        node[key] = value + rng.choice(("\x1b]0;a\x07", "\u202e", "\n", "2", "x" * 1000))
    elif isinstance(value, bool):
        node[key] = not value
    else:
        _replace(rng, root, where)


def _wrap(rng: Random, root: Any, where: Place) -> None:
    del root
    node, key = where
    node[key] = rng.choice(([node[key]], {"a": node[key]}, {"#map": [["a", node[key]]]}))


_CHANGES: tuple[Callable[[Random, Any, Place], None], ...] = (
    _replace,
    _replace,
    _replace,
    _remove,
    _add,
    _rename,
    _again,
    _swap,
    _nudge,
    _nudge,
    _nudge,
    _wrap,
)


def doubled(rng: Random, text: str) -> str:
    """Repeat an object's first key with another value."""
    opened = list(re.finditer(r'\{("[^"\\]*":)', text))
    if not opened:
        return text
    match = rng.choice(opened)
    return f"{text[: match.start() + 1]}{match[1]}{rng.choice(LIGHT)},{text[match.start() + 1 :]}"


def broken(rng: Random, data: bytes) -> bytes:
    """Return the bytes with one change, blind to their meaning."""
    at = rng.randrange(len(data) + 1)
    until = min(len(data), at + rng.choice((1, 2, 16, 400)))
    junk = rng.choice(
        (
            b"\xff",
            b"\xc3\x28",
            b"\xed\xa0\x80",
            b"\x00",
            b"\x1b[2J",
            b"\xef\xbb\xbf",
            b"\r\n",
            b"{",
            b"]",
            b'"',
            b",",
            b"\n",
            b"\\",
            b"NaN",
            b"1e9",
            b"\xe2\x80\xae",
            b"//",
            b"9" * 50,
        )
    )
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: data[:at],
        lambda: data[:at] + junk + data[at:],
        lambda: data[:at] + junk + data[until:],
        lambda: data[:at] + data[until:],
        lambda: data[:until] + data[at:],
        lambda: (
            data[:at] + bytes(byte ^ 1 << at % 8 for byte in data[at : at + 1]) + data[at + 1 :]
        ),
        lambda: b"\xef\xbb\xbf" + data,
        lambda: data.replace(b"\n", b"\r\n"),
        lambda: data.replace(b"\n", b"\r"),
        lambda: data.decode(errors="replace").encode("utf-16"),
        lambda: data + junk * 3,
        lambda: data + data,
        lambda: b"",
        lambda: data[at:],
    )
    return rng.choice(ways)()
