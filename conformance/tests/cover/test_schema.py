"""The JSON Schema says of requests what the code says, and answers of drivers follow it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slotproof.conformance import campaign
from slotproof.conformance.engines.pipe import Pipe
from slotproof.conformance.engines.process import ProcessEngine, misfit
from slotproof.conformance.protocol.commands import FIELDS
from slotproof.conformance.protocol.config import CONFIGS, EngineConfig
from slotproof.conformance.schemas import PROTOCOL

POOL = {"total": 4, "available": 4, "evictable": 0, "protected": 0, "free": []}
TOY = Path(__file__).parents[2] / "drivers" / "examples" / "toy.py"


def definition(name: str) -> dict[str, Any]:
    found: dict[str, Any] = PROTOCOL.definition(name)
    return found


def test_commands_of_the_schema_are_those_of_the_code() -> None:
    there = {each["properties"]["do"]["const"]: each for each in definition("command")["oneOf"]}
    assert {name: set(each["properties"]) - {"do"} for name, each in there.items()} == {
        name: set(fields) for name, fields in FIELDS.items()
    }
    assert all(set(each["required"]) == set(each["properties"]) for each in there.values())


def test_configurations_of_the_schema_are_those_of_the_code() -> None:
    assert set(definition("config")["properties"]) == set(EngineConfig().to_json())
    assert [misfit("config", each.to_json()) for each in CONFIGS.values()] == [None] * len(CONFIGS)


def test_everything_that_is_sent_follows_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run over a pipe: hello, reset, every command it makes, bye; and every answer."""
    sent: list[str] = []
    heard: list[bytes] = []
    send, line = Pipe.send, Pipe.line

    def sending(pipe: Pipe, text: str, timeout: float) -> None:
        sent.append(text)
        send(pipe, text, timeout)

    def hearing(pipe: Pipe, timeout: float) -> bytes:
        heard.append(line(pipe, timeout))
        return heard[-1]

    monkeypatch.setattr(Pipe, "send", sending)
    monkeypatch.setattr(Pipe, "line", hearing)
    engine = ProcessEngine([sys.executable, str(TOY)], 60.0)
    try:
        campaign.run(engine, "cmd:", campaign.Plan({"p1": CONFIGS["p1"]}, 4, steps=20))
    finally:
        engine.close()
    assert {misfit("request", json.loads(each)) for each in sent} == {None}
    assert {misfit("answer", json.loads(each)) for each in heard} == {None}
    ops = {json.loads(each)["op"] for each in sent}
    assert ops == {"hello", "reset", "do", "bye"}


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("request", {"op": "sing"}, "request: "),
        ("command", {"do": "step"}, "command: "),
        ("answer", {"ok": False, "error": "what"}, "answer: "),
        ("config", {"page_size": 1}, 'config: "total_tokens" is a required property'),
        ("hello", {"protocol": 1}, 'hello: "engine" is a required property'),
        ("snapshots", {"snapshots": [{"iter": True}]}, "snapshots/0"),
        ("pool", {**POOL, "free": [1, True]}, 'free/1: true is not of type "integer"'),
        ("pool", {**POOL, "total": float("nan")}, 'total: null is not of type "integer"'),
        ("pool", {**POOL, "\ud800": 1}, "surrogates not allowed"),
    ],
)
def test_what_does_not_follow_it_is_told_in_one_line(name: str, value: Any, text: str) -> None:
    wrong = misfit(name, value)
    assert wrong is not None and text in wrong and "\n" not in wrong
