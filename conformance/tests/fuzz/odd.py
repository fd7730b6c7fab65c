"""Unexpected values, as JSON texts: some have no equivalent in Python."""

from __future__ import annotations

import json
import re
from typing import Any

BAIT = f"{__package__}.bait:spring"
"""An engine named by the file: starting it means running code from a file meant for reading."""

STRINGS = (
    "",
    " ",
    "x",
    "s1",
    "r1",
    "s2",
    "-",
    "--help",
    "null",
    "0-3",
    "5-2",
    "0-999999999",
    "line\nbreak",
    "return\rback",
    "tab\there",
    "nul\x00",
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x9b2J",
    "\x85next",
    "\u2028",
    "\u202egnp.exe",
    "\u2066",
    "\u200f",
    "\u061c",
    "\ufeff",
    "\U000e0041",
    "\u0663\u0664",
    "0.5.1\u0663",
    "e\u0301",
    "</script><script>owned()</script>",
    "{{7*7}}{%raw%}",
    "`|`\n| x |",
    "[x](javascript:a)",
    "'''\"\"\"\\",
    "../../../etc/passwd",
    "/dev/full",
    "$(id)",
    "%s%n",
    "reference",
    "reference:leak-full",
    "reference:no-such",
    "reference-transformer",
    "cmd:touch owned",
    "sglang:bait",
    "sglang",
    "sglang==9.9.9",
    "sglang==\u0663.1",
    BAIT,
    "T-OPEN",
    "T-SAVE",
    "INV-OWNER.lost",
    "INV-ALIVE.crash",
    "full",
    "swa",
    "step",
    "submit",
    "x" * 300,
    "9" * 40,
    "-1",
    "1e3",
    "0x10",
    "1_000",
    " 7 ",
    "+7",
)
NUMBERS = (
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "-7",
    "3",
    "4",
    "16",
    "17",
    "64",
    "10000",
    "10001",
    "1000000",
    "1000001",
    "10000000",
    "10000001",
    "100000000",
    "1000000000",
    str(2**31),
    str(2**32),
    str(2**53 + 1),
    str(2**63),
    str(-(2**63) - 1),
    "1" + "0" * 30,
    "9" * 4300,
    "9" * 4301,
    "64.0",
    "0.5",
    "-0.0",
    "1e2",
    "1e999",
    "-1e999",
    "NaN",
    "Infinity",
    "-Infinity",
)
OTHERS = (
    "true",
    "false",
    "null",
    "[]",
    "{}",
    "[[]]",
    "[null]",
    '{"": {}}',
    "[0, 1]",
    '["a", "b"]',
    '"\\ud800"',
    '"a\\udfff"',
    '{"\\ud800": 1}',
    '"\\u0000"',
    '{"\\u001b[31m": 1}',
    '{"#bigint": "5"}',
    '{"#bigint": "-1"}',
    '{"#bigint": "\u0663"}',
    '{"#bigint": 5}',
    '{"#bigint": "1e9"}',
    '{"#map": []}',
    '{"#map": [["a", 1], ["a", 2]]}',
    '{"#map": [[[1], 2]]}',
    '{"#map": [[{"a": 1}, 2]]}',
    '{"#unserializable": "x"}',
    '{"do": "step", "n": 1}',
    '{"rid": "r9"}',
    '{"n": 10000}',
)
HEAVY = (
    *("[" * depth + "]" * depth for depth in (100, 490, 700, 960, 100_000)),
    *('{"a":' * depth + "1" + "}" * depth for depth in (490, 960, 100_000)),
    json.dumps("x" * 1_000_000),
    json.dumps("\u202e\x1b" * 50_000),
    "7" * 100_000,
    json.dumps(list(range(100_000))),
    json.dumps([[page, 0] for page in range(20_000)]),
    json.dumps({f"k{number}": number for number in range(10_000)}),
    json.dumps(["x"] * 50_000),
    json.dumps([{}] * 20_000),
)
"""Deep, long or numerous values, slow to read."""
LIGHT = (*map(json.dumps, STRINGS), *NUMBERS, *NUMBERS, *OTHERS)


def raw(text: str) -> str:
    """Return a string written by :func:`dumps` as the JSON text in it."""
    return f"\ue000{text}\ue001"


_RAW = re.compile(r'"\\ue000((?:[^"\\]|\\.)*?)\\ue001"')


def dumps(value: Any) -> str:
    r"""Return JSON, with the texts of :func:`raw` inserted.

    >>> dumps({"n": raw("NaN"), "x": [raw('"\\ud800"')]})
    '{"n":NaN,"x":["\\ud800"]}'
    """
    text = json.dumps(value, separators=(",", ":"))
    return _RAW.sub(lambda match: str(json.loads(f'"{match[1]}"')), text)
