"""Changes that can be made to any JSON value and to any bytes."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from random import Random
from typing import Any

from tests.fuzz.odd import HEAVY, LIGHT, raw

Place = tuple[Any, Any]
"""A list or an object, and the index or key of one thing in it."""


def odd(rng: Random) -> str:
    """Anything that does not belong."""
    return raw(rng.choice(HEAVY) if rng.randrange(100) == 0 else rng.choice(LIGHT))


def place(rng: Random, root: Any) -> Place | None:
    """Somewhere in the value; ``None`` where there is nothing in it."""
    here, where = root, None
    while isinstance(here, dict | list) and here:
        key = rng.choice(list(here)) if isinstance(here, dict) else rng.randrange(len(here))
        where = here, key
        here = here[key]
        if rng.randrange(8) == 0:
            break
    return where


def changed(rng: Random, root: Any) -> Any:
    """The value with one change, in place where that is possible."""
    where = place(rng, root)
    if where is None or rng.randrange(200) == 0:
        return odd(rng)
    rng.choice(_CHANGES)(rng, root, where)
    return root


def _replace(rng: Random, root: Any, where: Place) -> None:
    del root
    here, key = where
    here[key] = odd(rng)


def _remove(rng: Random, root: Any, where: Place) -> None:
    del rng, root
    here, key = where
    del here[key]


def _add(rng: Random, root: Any, where: Place) -> None:
    """Something more beside it."""
    del root
    here, key = where
    if isinstance(here, list):
        here.insert(key, odd(rng))
    else:
        here[rng.choice(["x", "", "\x1b]0;a\x07", "id", "#bigint", "session", "n", key + " "])] = (
            odd(rng)
        )


def _rename(rng: Random, root: Any, where: Place) -> None:
    here, key = where
    if isinstance(here, dict):
        here[raw(rng.choice(LIGHT[:40]))] = here.pop(key)
    else:
        _remove(rng, root, where)


def _again(rng: Random, root: Any, where: Place) -> None:
    """Twice or many times."""
    here, key = where
    if isinstance(here, list):
        here[key:key] = [here[key]] * (rng.choice((1, 2, 30)) if rng.randrange(100) else 10_000)
    else:
        _replace(rng, root, where)


def _swap(rng: Random, root: Any, where: Place) -> None:
    """With a value from elsewhere."""
    here, key = where
    other = place(rng, root)
    if other is not None:
        there, name = other
        here[key] = copy.deepcopy(there[name])


def _nudge(rng: Random, root: Any, where: Place) -> None:
    """A number a little off; a string a little longer."""
    here, key = where
    value = here[key]
    if type(value) is int:
        here[key] = rng.choice((value + 1, value - 1, -value, value * 1000, float(value)))
    elif isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        here[key] = str(int(value) + rng.choice((1, -1, 10**6)))
    elif isinstance(value, str):
        here[key] = value + rng.choice(("\x1b]0;a\x07", "\u202e", "\n", "2", "x" * 1000))
    elif isinstance(value, bool):
        here[key] = not value
    else:
        _replace(rng, root, where)


def _wrap(rng: Random, root: Any, where: Place) -> None:
    del root
    here, key = where
    here[key] = rng.choice(([here[key]], {"a": here[key]}, {"#map": [["a", here[key]]]}))


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
    """An object's first key once more, with another value."""
    opened = list(re.finditer(r'\{("[^"\\]*":)', text))
    if not opened:
        return text
    found = rng.choice(opened)
    return f"{text[: found.start() + 1]}{found[1]}{rng.choice(LIGHT)},{text[found.start() + 1 :]}"


def broken(rng: Random, data: bytes) -> bytes:
    """The bytes with one change that knows nothing of their meaning."""
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
