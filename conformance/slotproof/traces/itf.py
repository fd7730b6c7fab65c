"""Traces on disk, in the Informal Trace Format of Apalache and Quint (ADR 015).

A document has one state per command. Integers are written as ``{"#bigint": "…"}``, and plain
integers are read, too. Fields that are ``None`` are left out. A file is untrusted: slotproof checks
its types (:mod:`slotproof.traces.document`) and bounds before it runs or renders the trace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from slotproof.lockstep.explanations import Explanation, lasting
from slotproof.lockstep.observation import Holder, Violation
from slotproof.protocol.build import Build
from slotproof.protocol.commands import FIELDS, Command, check, check_recorded
from slotproof.protocol.config import BadConfig, EngineConfig
from slotproof.protocol.messages import PROTOCOL
from slotproof.protocol.shapes import quoted
from slotproof.support import bounds, jsontext
from slotproof.support.files import write_whole
from slotproof.support.jsontext import BadJson
from slotproof.support.terminal import json_text
from slotproof.traces.document import TRACE
from slotproof.traces.frames import Frame
from slotproof.traces.record import Later, Record, Recorded, Row

FIGURES = ("pools", "sessions", "slots", "requests")
VARS = ("transitions", *FIGURES, "iterations")
_BIGINT = re.compile("-?[0-9]{1,30}", re.ASCII)


class BadTrace(ValueError):
    """A trace that can't be read or run. The message gives the reason in one line."""


class NoForm(BadTrace):
    """Error: a form can't be made from a trace. The message gives the reason in one line."""


def encode(value: Any) -> Any:
    """Return a value as an ITF expression.

    >>> encode({"C": 5, "lent": True, "row": None})
    {'C': {'#bigint': '5'}, 'lent': True}
    """
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return {"#bigint": str(value)}
    if isinstance(value, list | tuple):
        return [encode(item) for item in value]
    if is_dataclass(value):
        return encode(vars(value))
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items() if item is not None}
    raise TypeError(f"{value!r} has no form in ITF")


def decode(value: Any) -> Any:
    """Return the value of an ITF expression. Raises :class:`BadTrace` for an invalid expression.

    >>> decode({"C": {"#bigint": "5"}, "x": {"#map": [["s1", 7]]}})
    {'C': 5, 'x': {'s1': 7}}
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "#bigint" in value:
        text = value["#bigint"]
        if not (isinstance(text, str) and _BIGINT.fullmatch(text)):
            raise BadTrace(f"#bigint: {quoted(text)} is not an integer of at most 30 digits")
        return int(text)
    if "#map" not in value:
        return {key: decode(item) for key, item in value.items()}
    if not isinstance(value["#map"], list):
        raise BadTrace(f"#map: expected a list of pairs, not {quoted(value['#map'])}")
    result = {}
    for pair in value["#map"]:
        key = decode(pair[0]) if isinstance(pair, list) and len(pair) == 2 else None
        if not isinstance(key, str | int):
            raise BadTrace("#map: each pair must be a list of a key and its value")
        result[key] = decode(pair[1])
    return result


def document_of(
    meta: dict[str, Any],
    names: Iterable[str],
    states: Iterable[tuple[str, dict[str, Any], dict[str, Any]]],
) -> dict[str, Any]:
    """Return an ITF document. A state is an action, the action's parameters, and the values of the
    variables in ITF."""
    about = "https://apalache-mc.org/docs/adr/015adr-trace.html"
    return {
        "#meta": {"format": "ITF", "format-description": about, **meta},
        "vars": list(names),
        "states": [
            {
                "#meta": {"index": index},
                "mbt::actionTaken": action,
                "mbt::nondetPicks": encode(picks),
                **values,
            }
            for index, (action, picks, values) in enumerate(states)
        ],
    }


def to_itf(trace: Record) -> dict[str, Any]:
    """Return the trace as an ITF document. A trace without states has no variables."""
    states = []
    for row in trace.rows:
        picks = {key: value for key, value in row.command.items() if key != "do"}
        seen = {
            "transitions": row.transitions,
            **{name: _map(getattr(row, name)) for name in FIGURES},
            "iterations": [
                _frame(frame, last=number == len(row.frames))
                for number, frame in enumerate(row.frames, 1)
            ],
        }
        states.append((row.command["do"], picks, seen if trace.states else {}))
    meta = {
        "protocol": PROTOCOL,
        "engine": trace.engine,
        "spec": trace.spec,
        "profile": trace.profile,
        "page_size": trace.config.page_size,
        "config": trace.config.to_json(),
        "config_name": trace.config_name,
        "seed": trace.seed,
        "chosen_profile": trace.chosen_profile or "",
        "ignored": list(trace.ignored),
        **encode({"build": trace.build}),
        **({"patches": list(trace.patches)} if trace.patches else {}),
        "length": len(trace.rows),
        "one_minimal": trace.minimal,
        "violated": [
            {
                "invariant": violation.invariant,
                "conjunct": violation.conjunct,
                "detail": violation.detail[: bounds.TEXT_CHARS],
                "transition": violation.transition or "",
                **encode({"said": (violation.said or "")[-bounds.TEXT_CHARS :] or None}),
                **encode(violation.shown),
            }
            for violation in trace.violations
        ],
        **encode({"explained": trace.explained, "recorded": trace.recorded}),
        **encode({"needs_example": trace.needs}),
    }
    return document_of({"slotproof": meta}, VARS if trace.states else (), states)


def _frame(frame: Frame, last: bool) -> dict[str, Any]:
    """Return an iteration in ITF. The last iteration's counts are left out: the state has them."""
    records = ("events", "told", "check", "differs")
    result: dict[str, Any] = {name: encode(getattr(frame, name)) for name in records}
    for name in (*(() if last else FIGURES), "shares", "pages"):
        result[name] = _map(getattr(frame, name))
    if not frame.check:  # The iteration comes from a log without the engine's own check.
        del result["check"]
    return {**result, "carried": True} if frame.carried else result


def _map(values: dict[str, Any]) -> dict[str, Any]:
    return {"#map": [[key, encode(value)] for key, value in values.items()]}


def from_itf(data: Any) -> Record:
    """Return the trace of an ITF document. Raises :class:`BadTrace`."""
    meta = data.get("#meta") if isinstance(data, dict) else None
    if not isinstance(meta, dict) or "states" not in data:
        raise BadTrace("this is not an ITF trace: #meta or states are missing")
    if "slotproof-spec" in meta:
        raise BadTrace("this is a trace of the spec, not of an engine; `slotproof show` renders it")
    own = meta.get("slotproof")
    if not isinstance(own, dict):
        raise BadTrace("slotproof did not write this ITF trace: #meta has no slotproof part")
    if own.get("protocol") != PROTOCOL:
        version = quoted(own.get("protocol"))
        raise BadTrace(f"the trace is of protocol {version}, and slotproof reads {PROTOCOL}")
    states = data["states"] if isinstance(data["states"], list) else []
    if len(states) > bounds.COMMANDS:
        count, most = len(states), bounds.COMMANDS
        raise BadTrace(f"{count} commands are too many; at most {most} can be run")
    shown = [state.get("iterations") for state in states if isinstance(state, dict)]
    _few_iterations(sum(len(iterations) for iterations in shown if isinstance(iterations, list)))
    document = {key: _decoded(key, data[key]) for key in ("#meta", "vars", "states") if key in data}
    if document["states"] == []:
        raise BadTrace("the trace has no states, so nothing can be run")
    TRACE.demand(document, BadTrace)
    own = document["#meta"]["slotproof"]
    recorded = own.get("recorded")
    checked = check if recorded is None else check_recorded
    rows = [_row(number, state, checked) for number, state in enumerate(document["states"], 1)]
    try:
        config = EngineConfig.from_json(own["config"])
    except BadConfig as bad:
        raise BadTrace(f"#meta/slotproof/config: {bad}") from None
    if recorded is None:
        _affordable(rows, config)
    else:
        later = tuple(Later(**finding) for finding in recorded["later"])
        recorded = Recorded(**{**recorded, "later": later})
    known = own.get("explained")
    explained = None if known is None else tuple(Explanation(**change) for change in known)
    return Record(
        engine=own["engine"],
        spec=own["spec"],
        profile=own["profile"],
        config=config,
        seed=own["seed"],
        rows=rows,
        violations=list(map(_violation, own["violated"])),
        minimal=own["one_minimal"],
        config_name=own["config_name"],
        chosen_profile=own["chosen_profile"] or None,
        ignored=tuple(own["ignored"]),
        patches=tuple(own.get("patches", ())),
        explained=explained,
        changes=lasting(explained),
        states=bool(document["vars"]),
        recorded=recorded,
        needs=own.get("needs_example"),
        build=Build(**own["build"]) if "build" in own else None,
    )


def _affordable(rows: list[Row], config: EngineConfig) -> None:
    """Raise :class:`BadTrace` if a replay would store more data than the bounds allow."""
    if (reason := config.too_large()) is not None:
        raise BadTrace(f"#meta/slotproof/config: {reason}")
    iterations = sum(row.command.get("n", 0) for row in rows)
    _few_iterations(iterations)
    iterations = max(iterations, sum(len(row.frames) for row in rows))
    names = {row.command.get(field) for row in rows for field in ("session", "rid")}
    pages = (config.total_tokens + config.swa_tokens) // config.page_size
    kept = iterations * (pages + config.rows + bounds.ACTOR_FIGURES * len(names))
    if kept > bounds.KEPT:
        raise BadTrace(
            f"{iterations} iterations of {pages} pages, {config.rows} rows and {len(names)} names "
            f"are too much to store: {kept} values, more than {bounds.KEPT}"
        )


def _violation(violated: dict[str, Any]) -> Violation:
    owners = tuple(Holder(**owner) for owner in violated.get("owners", ()))
    return Violation(**{**violated, "transition": violated["transition"] or None, "owners": owners})


def _decoded(name: str, value: Any) -> Any:
    """Return a part of the document, decoded. The error of an invalid state names the state."""
    if name == "states" and isinstance(value, list):
        return [_decoded(f"states/{index}", state) for index, state in enumerate(value)]
    try:
        return decode(value)
    except BadTrace as bad:
        raise BadTrace(f"{name}: {bad}") from None


def _few_iterations(count: int) -> None:
    if count > bounds.ITERATIONS:
        raise BadTrace(f"{count} iterations are too many; at most {bounds.ITERATIONS} can be run")


def _row(number: int, state: dict[str, Any], checked: Callable[[Any], Command]) -> Row:
    name = state["mbt::actionTaken"]
    command: Command = {"do": name, **state["mbt::nondetPicks"]}
    if "session" in FIELDS.get(name, ()):
        command.setdefault("session", None)  # A plain request has no session, and ITF has no null.
    if isinstance(command.get("tokens"), dict):
        command["tokens"] = {"hash": None, **command["tokens"]}
    try:
        command = checked(command)
    except ValueError as bad:
        raise BadTrace(f"command {number}: {bad}") from None
    rest = {key: state.get(key, {}) for key in FIGURES}
    frames = [Frame(**{**rest, **frame}) for frame in state.get("iterations", [])]
    return Row(command, list(state.get("transitions", [])), **rest, frames=frames)


def save(trace: Record, path: Path) -> None:
    """Write the trace, and replace an old file only by a complete new one. Raises ``OSError``.

    >>> from tempfile import TemporaryDirectory
    >>> rows = [Row({"do": "open", "session": "s1"})]
    >>> trace = Record("mine 1", "cmd:mine", "reference", EngineConfig(), 0, rows, [], False)
    >>> with TemporaryDirectory() as folder:
    ...     save(trace, Path(folder) / "mine.itf.json")
    ...     load(Path(folder) / "mine.itf.json") == trace
    True
    """
    write_whole(path, text_of(trace))


def text_of(trace: Record) -> str:
    """Return the document as text. If the text exceeds the bound for reading, leave out the states.
    A trace from a log loses its first rows instead."""
    while True:
        text = json_text(to_itf(trace))
        halves = trace.recorded is not None and len(trace.rows) > 1
        fits = len(text.encode(errors="backslashreplace")) <= bounds.TRACE_BYTES
        if fits or not (halves or trace.states):
            return text
        trace = trace.last(len(trace.rows) // 2) if halves else trace.without_states()


def load(path: str | Path, to_run: bool = True) -> Record:
    """Read a trace from a file. Raises :class:`BadTrace`, with one line that names the file. With
    ``to_run``, a trace from a log is refused, because it can't be run."""
    try:
        trace = from_itf(jsontext.read(Path(path), bounds.TRACE_BYTES))
    except (BadJson, BadTrace) as bad:
        hint = "; a trace is a file *.itf.json, which `slotproof run` writes for each finding"
        raise BadTrace(f"{path}: {bad}{hint * isinstance(bad, BadJson)}") from None
    if to_run and trace.recorded is not None:
        raise BadTrace(f"{path}: this trace is from a log: it can be shown, but not run again")
    return trace
