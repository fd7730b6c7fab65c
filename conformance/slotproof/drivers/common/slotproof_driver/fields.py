"""Required fields of each command. A command with a wrong field is refused and has no effect."""

from __future__ import annotations

from typing import Any

from .usage import UsageError

_TEXT, _COUNT, _TOKENS = (str,), (int,), (list,)
FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "open": {"session": _TEXT},
    "submit": {
        "session": (str, type(None)),
        "rid": _TEXT,
        "tokens": _TOKENS,
        "max_new": _COUNT,
        "stop": _TOKENS,
    },
    "abort": {"rid": _TEXT},
    "close": {"session": _TEXT},
    "step": {"n": _COUNT},
    "tick": {"seconds": (int, float)},
    "tick_ms": {"ms": _COUNT},
    "evict": {"tokens": _COUNT},
    "accept": {"rid": _TEXT, "tokens": _COUNT},
    "draft": {"rid": _TEXT, "allocate": _COUNT, "commit": _COUNT},
}


def check(command: dict[str, Any]) -> None:
    """Raise `UsageError`, in one line, if a field of the command is missing or has a wrong type."""
    for field, kinds in FIELDS.get(str(command.get("do")), {}).items():
        if not isinstance(command.get(field, ...), kinds):
            raise UsageError(f"{command['do']}: {field} can't be {command.get(field, 'missing')!r}")
