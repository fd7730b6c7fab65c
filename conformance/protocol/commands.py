"""Client commands: one line of a trace each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Command: TypeAlias = dict[str, Any]

FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "open": {"session": str},
    "submit": {
        "session": (str, type(None)),
        "rid": str,
        "tokens": list,
        "max_new": int,
        "stop": list,
    },
    "abort": {"rid": str},
    "close": {"session": str},
    "step": {"n": int},
    "tick": {"seconds": int},
    "evict": {"tokens": int},
    "retract": {},
    "draft": {"rid": str, "allocate": int, "commit": int},
    "flush": {},
    "pause": {},
    "continue": {},
    "abort_all": {},
}
"""Every command and the fields it has."""


MOST = {"n": 10_000, "seconds": 1_000_000_000}
"""Upper bounds of numbers where they are not a million: traces are untrusted."""


def check(command: Mapping[str, Any], least_token: int = 1) -> Command:
    """The command itself if it is one; ``ValueError`` with one line if not.

    The suite never uses token 0; what a live server was sent may hold it.

    >>> check({"do": "step", "n": 1})
    {'do': 'step', 'n': 1}
    >>> check({"do": "stpe", "n": 1})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: unknown command 'stpe'; there are: open, submit, ...
    """
    name = command.get("do")
    if not isinstance(name, str) or name not in FIELDS:
        raise ValueError(f"unknown command {name!r}; there are: {', '.join(FIELDS)}")
    wanted = FIELDS[name]
    if set(command) - {"do"} != set(wanted):
        raise ValueError(f"{name} takes {sorted(wanted)}, not {sorted(set(command) - {'do'})}")
    for field, kind in wanted.items():
        value = command[field]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{name}: {field} can't be {value!r}")  # noqa: TRY004  # it is input
        if isinstance(value, int) and not 0 <= value <= MOST.get(field, 1_000_000):
            raise ValueError(f"{name}: {field} must be 0 to {MOST.get(field, 1_000_000)}")
        if isinstance(value, list) and not all(
            type(each) is int and each >= least_token for each in value
        ):
            raise ValueError(f"{name}: {field} must be positive token ids")
    return dict(command)


def describe(command: Mapping[str, Any]) -> str:
    """The command as a person would say it.

    >>> describe({"do": "submit", "session": "s1", "rid": "r1", "tokens": [1, 2, 3],
    ...           "max_new": 4, "stop": []})
    'submit r1 to s1: 3 tokens, at most 4 new'
    """
    name = command["do"]
    if name == "submit":
        where = f"to {command['session']}" if command["session"] else "without a session"
        stop = f", stop at {command['stop']}" if command["stop"] else ""
        return (
            f"submit {command['rid']} {where}: {len(command['tokens'])} tokens, "
            f"at most {command['max_new']} new{stop}"
        )
    if name == "draft":
        return (
            f"draft for {command['rid']}: allocate {command['allocate']}, "
            f"commit {command['commit']} (injected)"
        )
    rest = " ".join(str(command[field]) for field in FIELDS[name])
    return f"{name} {rest}".strip()
