"""An ITF trace that is none of ours: what Apalache, TLC's front ends or Quint write, as a table.

Nothing is known of its variables. Each state is shown with what changed in it, values as TLA+
writes them. It is untrusted, as every file: what is no ITF is one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, NotRequired

from pydantic import FailFast, Field
from typing_extensions import TypedDict

from slotproof.protocol.shapes import Count, Name, Shape, Text, open_shape
from slotproof.support import bounds
from slotproof.support.terminal import plain
from slotproof.traces.itf import BadTrace

LONGEST = 2_000
"""Characters of a value that are shown."""
_ACTION = "mbt::actionTaken"
_INTEGER = re.compile(r"-?[0-9]{1,1000}")
_Open = TypedDict("_Open", {"#meta": NotRequired[dict[Name, Any]]})


@open_shape
class ForeignDocument(_Open):
    vars: list[Name]
    states: Annotated[
        list[dict[Name, Any]], FailFast(), Field(min_length=1, max_length=bounds.COMMANDS)
    ]
    loop: NotRequired[Count]
    """The state that follows the last one."""
    source: NotRequired[Text]


FOREIGN = Shape("the document", ForeignDocument)


def is_one(document: Any) -> bool:
    """Whether it is an ITF document, and not of slotproof: that one says so in its ``#meta``."""
    if not isinstance(document, dict) or not {"vars", "states"} <= document.keys():
        return False
    meta = document.get("#meta", {})
    return not (isinstance(meta, dict) and {"slotproof", "slotproof-spec"} & meta.keys())


def render(document: Any) -> str:
    """It as text. Raises :class:`BadTrace`.

    >>> states = [{"n": 0, "s": {"#set": []}}, {"n": {"#bigint": "1"}, "s": {"#set": ["a"]}}]
    >>> print(render({"vars": ["n", "s"], "states": states}), end="")
    2 states of 2 variables
    <BLANKLINE>
      0  n = 0
         s = {}
      1  n = 1
         s = {"a"}
    """
    wrong = FOREIGN.line(document)
    if wrong is not None:
        raise BadTrace(f"an ITF trace: {wrong}")
    return "\n".join(map(plain, _lines(document))) + "\n"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    states, variables = document["states"], document["vars"]
    source = f", from {document['source']}" if document.get("source") else ""
    yield f"{_count(len(states), 'state')} of {_count(len(variables), 'variable')}{source}"
    yield ""
    before: dict[str, str] = {}
    for number, state in enumerate(states):
        now = dict(_values(number, state, variables))
        changed = [f"{name} = {text}" for name, text in now.items() if before.get(name) != text]
        head = [state[_ACTION]] if isinstance(state.get(_ACTION), str) else []
        for index, line in enumerate([*head, *changed] or ["nothing changes"]):
            yield f"{number if index == 0 else '':>3}  {line}"
        before = now
    loop = document.get("loop")
    if loop is not None:
        if loop >= len(states):
            raise BadTrace(f"an ITF trace: loop: there is no state {loop}")
        yield ""
        yield f"after the last state comes state {loop} again"


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _values(number: int, state: dict[str, Any], names: list[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        if name not in state:
            raise BadTrace(f"an ITF trace: states/{number}: it has no {name!r}")
        try:
            text = value(state[name])
        except BadTrace as bad:
            raise BadTrace(f"an ITF trace: states/{number}/{name}: {bad}") from None
        yield name, text if len(text) <= LONGEST else text[:LONGEST] + "…"


def value(of: Any) -> str:
    """A value of ITF as TLA+ writes it.

    >>> value([1, True, "a"]), value({"#tup": []}), value({"x": {"#set": [2]}})
    ('<<1, TRUE, "a">>', '<<>>', '[x |-> {2}]')
    >>> value({"#map": [[1, "a"], [2, "b"]]}), value({"#map": []})
    ('(1 :> "a" @@ 2 :> "b")', '<<>>')
    """
    match of:
        case bool():
            return "TRUE" if of else "FALSE"
        case int():
            return str(of)
        case str():
            return f'"{of}"'
        case list():
            return f"<<{', '.join(map(value, of))}>>"
        case dict():
            return _tagged(of)
    raise BadTrace(f"{'null' if of is None else 'a broken number'} is no value of ITF")


def _tagged(of: dict[str, Any]) -> str:
    tags = [key for key in of if key.startswith("#")]
    if not tags:
        return f"[{', '.join(f'{key} |-> {value(each)}' for key, each in of.items())}]"
    tag, inner = tags[0], of[tags[0]]
    match tag, inner:
        case "#bigint", str() if _INTEGER.fullmatch(inner):
            return inner
        case "#unserializable", str():
            return inner
        case "#tup", list():
            return value(inner)
        case "#set", list():
            return "{" + ", ".join(map(value, inner)) + "}"
        case "#map", list():
            pairs = " @@ ".join(map(_pair, inner))
            return f"({pairs})" if pairs else "<<>>"
    raise BadTrace(f"no {tag} of ITF")


def _pair(of: Any) -> str:
    if not (isinstance(of, list) and len(of) == 2):
        raise BadTrace("#map: a pair is a list of a key and its value")
    return f"{value(of[0])} :> {value(of[1])}"
