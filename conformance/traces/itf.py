"""Traces on disk: the Informal Trace Format of Apalache and Quint (ADR 015).

One state per command. Integers are written as ``{"#bigint": "…"}`` and read
either way; what is missing (``None``) is left out. A file is untrusted: it is
checked against the schema in this package, and every command against the
protocol, before anything is run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slotproof.conformance import schemas
from slotproof.conformance.engines.base import PROTOCOL
from slotproof.conformance.files import write_whole
from slotproof.conformance.observation import Violation
from slotproof.conformance.protocol.commands import FIELDS, Command, check
from slotproof.conformance.protocol.config import BadConfig, EngineConfig
from slotproof.conformance.terminal import json_text
from slotproof.conformance.traces.frames import Frame
from slotproof.conformance.traces.trace import Row, Trace

FIGURES = ("pools", "sessions", "slots", "requests")
VARS = ("transitions", *FIGURES, "iterations")
LONGEST = 10_000
"""Commands in a trace at most."""


class BadTrace(ValueError):
    """Not a trace that can be run here; one line that says why."""


def encode(value: Any) -> Any:
    """A value in ITF.

    >>> encode({"C": 5, "lent": True, "row": None})
    {'C': {'#bigint': '5'}, 'lent': True}
    """
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return {"#bigint": str(value)}
    if isinstance(value, list | tuple):
        return [encode(each) for each in value]
    if isinstance(value, dict):
        return {key: encode(each) for key, each in value.items() if each is not None}
    raise TypeError(f"{value!r} has no form in ITF")


def decode(value: Any) -> Any:
    """The value that ITF stands for.

    >>> decode({"C": {"#bigint": "5"}, "x": {"#map": [["s1", 7]]}, "t": {"#tup": [1, "a"]}})
    {'C': 5, 'x': {'s1': 7}, 't': [1, 'a']}
    """
    if isinstance(value, list):
        return [decode(each) for each in value]
    if isinstance(value, dict):
        if "#bigint" in value:
            return int(value["#bigint"])
        if "#map" in value:
            return {decode(key): decode(each) for key, each in value["#map"]}
        for tag in ("#tup", "#set"):
            if tag in value:
                return [decode(each) for each in value[tag]]
        return {key: decode(each) for key, each in value.items()}
    return value


def to_itf(trace: Trace) -> dict[str, Any]:
    """The trace as an ITF document."""
    states = []
    for index, row in enumerate(trace.rows):
        picks = {key: value for key, value in row.command.items() if key != "do"}
        states.append(
            {
                "#meta": {"index": index},
                "mbt::actionTaken": row.command["do"],
                "mbt::nondetPicks": encode(picks),
                "transitions": row.transitions,
                **{name: _map(getattr(row, name)) for name in FIGURES},
                "iterations": [
                    _frame(frame, last=number == len(row.frames))
                    for number, frame in enumerate(row.frames, 1)
                ],
            }
        )
    return {
        "#meta": {
            "format": "ITF",
            "format-description": "https://apalache-mc.org/docs/adr/015adr-trace.html",
            "slotproof": {
                "protocol": PROTOCOL,
                "engine": trace.engine,
                "spec": trace.spec,
                "profile": trace.profile,
                "page_size": trace.config.page_size,
                "config": trace.config.to_json(),
                "config_name": trace.config_name,
                "seed": trace.seed,
                "chosen_profile": trace.chosen_profile or "",
                "set_aside": list(trace.set_aside),
                "length": len(trace.rows),
                "one_minimal": trace.minimal,
                "violated": [
                    {
                        "invariant": violation.invariant,
                        "conjunct": violation.conjunct,
                        "detail": violation.detail,
                        "transition": violation.transition or "",
                        **({"said": violation.said} if violation.said else {}),
                    }
                    for violation in trace.violations
                ],
            },
        },
        "vars": list(VARS),
        "states": states,
    }


def _frame(frame: Frame, last: bool) -> dict[str, Any]:
    """An iteration; the figures of the last are those of the state and are not repeated."""
    result: dict[str, Any] = {name: encode(getattr(frame, name)) for name in _RECORDS}
    for name in (*(() if last else FIGURES), "shares", "pages"):
        result[name] = _map(getattr(frame, name))
    return result


_RECORDS = ("events", "told", "check", "differs")


def _map(values: dict[str, Any]) -> dict[str, Any]:
    return {"#map": [[key, encode(value)] for key, value in values.items()]}


def from_itf(data: Any) -> Trace:
    """The trace of an ITF document. Raises :class:`BadTrace`."""
    meta = data.get("#meta") if isinstance(data, dict) else None
    if not isinstance(meta, dict) or "states" not in data:
        raise BadTrace("this is no ITF trace: there is no #meta or no states")
    mine = meta.get("slotproof")
    if not isinstance(mine, dict):
        raise BadTrace("this ITF trace is not of slotproof: #meta has no slotproof part")
    if mine.get("protocol") != PROTOCOL:
        raise BadTrace(f"the trace is of protocol {mine.get('protocol')!r}, this is {PROTOCOL}")
    states = data["states"]
    if isinstance(states, list) and len(states) > LONGEST:
        raise BadTrace(f"{len(states)} commands are too many; at most {LONGEST} can be run")
    wrong = schemas.TRACE.misfit(data)
    if wrong is not None:
        raise BadTrace(wrong.at("the document"))
    try:
        config = EngineConfig.from_json(mine["config"])
        rows = [_row(state) for state in data["states"]]
        if not rows:
            raise BadTrace("the trace has no states: there is nothing to run")
    except BadConfig as bad:
        raise BadTrace(f"#meta/slotproof/config: {bad}") from None
    except (ValueError, TypeError, KeyError) as bad:
        raise BadTrace(str(bad)) from None
    return Trace(
        engine=mine["engine"],
        spec=mine["spec"],
        profile=mine["profile"],
        config=config,
        seed=mine["seed"],
        rows=rows,
        violations=[
            Violation(
                v["invariant"],
                v["conjunct"],
                v["detail"],
                v["transition"] or None,
                said=v.get("said", ""),
            )
            for v in mine["violated"]
        ],
        minimal=mine["one_minimal"],
        config_name=mine.get("config_name", ""),
        chosen_profile=mine.get("chosen_profile") or None,
        set_aside=tuple(mine.get("set_aside", ())),
    )


def _row(state: dict[str, Any]) -> Row:
    name = state["mbt::actionTaken"]
    command: Command = {"do": name, **decode(state["mbt::nondetPicks"])}
    if "session" in FIELDS.get(name, {}):
        command.setdefault("session", None)  # a plain request: ITF has no null
    rest = {key: decode(state.get(key, {})) for key in FIGURES}
    frames = [Frame(**{**rest, **_decoded(each)}) for each in state.get("iterations", [])]
    return Row(check(command), list(state.get("transitions", [])), **rest, frames=frames)


def _decoded(frame: dict[str, Any]) -> dict[str, Any]:
    return {key: decode(value) for key, value in frame.items() if key != "#meta"}


def save(trace: Trace, path: Path) -> None:
    """Write the file; the old one stays until the new one is whole. Raises ``OSError``.

    >>> from tempfile import TemporaryDirectory
    >>> rows = [Row({"do": "open", "session": "s1"})]
    >>> trace = Trace("mine 1", "cmd:mine", "reference", EngineConfig(), 0, rows, [], minimal=False)
    >>> with TemporaryDirectory() as folder:
    ...     save(trace, Path(folder) / "mine.itf.json")
    ...     load(Path(folder) / "mine.itf.json") == trace
    True
    """
    write_whole(path, json_text(to_itf(trace)))


def load(path: Path) -> Trace:
    """Read a file. Raises :class:`BadTrace` with one line that names it.

    >>> load(Path("nowhere.itf.json"))
    Traceback (most recent call last):
        ...
    slotproof.conformance.traces.itf.BadTrace: nowhere.itf.json: No such file or directory
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadTrace(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadTrace(f"{path}: not JSON ({str(error)[:100]})") from None
    try:
        return from_itf(data)
    except BadTrace as bad:
        raise BadTrace(f"{path}: {bad}") from None
