"""Requests and answers follow the message types, and the schemas are made from the types."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from slotproof.engines.pipe import Pipe
from slotproof.engines.process import ProcessEngine
from slotproof.protocol import messages
from slotproof.protocol.commands import COMMAND, FIELDS
from slotproof.protocol.config import CONFIG, CONFIGS, EngineConfig
from slotproof.protocol.shapes import Shape
from slotproof.protocol.snapshot import SNAPSHOTS
from slotproof.search import campaign
from slotproof.search.plan import Plan
from slotproof.spec_documents.schemas import schemas

POOL = {"total": 4, "available": 4, "evictable": 0, "protected": 0, "free": []}
TOY = Path(__file__).parents[2] / "slotproof" / "drivers" / "examples" / "toy.py"


def test_commands_of_the_schema_are_those_of_the_code() -> None:
    definitions = json.loads(schemas("")["schemas/protocol.schema.json"])["$defs"]
    tags: dict[str, str] = definitions["command"]["discriminator"]["mapping"]
    commands = {name: definitions[ref.rpartition("/")[2]] for name, ref in tags.items()}
    assert {name: (*schema["properties"],) for name, schema in commands.items()} == {
        name: ("do", *fields) for name, fields in FIELDS.items()
    }
    assert all(set(schema["required"]) == set(schema["properties"]) for schema in commands.values())


def test_configurations_of_the_schema_are_those_of_the_code() -> None:
    definitions = json.loads(schemas("")["schemas/protocol.schema.json"])["$defs"]
    assert set(definitions["Config"]["properties"]) == set(vars(EngineConfig()))
    assert [CONFIG.misfit(config.to_json()) for config in CONFIGS.values()] == [None] * len(CONFIGS)


def test_everything_that_is_sent_follows_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run over a pipe: hello, reset, every command, bye, and every answer."""
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
        campaign.run(engine, "cmd:", Plan({"p1": CONFIGS["p1"]}, 4, steps=20))
    finally:
        engine.close()
    assert {messages.REQUEST.line(json.loads(request)) for request in sent} == {None}
    assert {messages.ANSWER.line(json.loads(answer)) for answer in heard} == {None}
    ops = {json.loads(request)["op"] for request in sent}
    assert ops == {"hello", "reset", "do", "bye"}


HELLO = {"protocol": 2, "engine": {"name": "x", "version": ""}}
REFUSED = {"id": 1, "ok": False, "kind": "crash", "error": "x"}


@pytest.mark.parametrize(
    ("shape", "value", "text"),
    [
        (messages.REQUEST, {"op": "sing", "id": 1}, "request: Input tag 'sing'"),
        (COMMAND, {"do": "step"}, "step/n: Field required"),
        (messages.ANSWER, {"ok": True, "result": {}}, "id: Field required"),
        (messages.ANSWER, {**REFUSED, "id": None}, "id: Input should be a valid integer, not null"),
        (messages.ANSWER, {**REFUSED, "error": 64.0}, "error: Input should be a valid string"),
        (messages.ANSWER, {**REFUSED, "trace": []}, "trace: Input should be a valid string"),
        (messages.ANSWER, {**REFUSED, "error": "x" * 100_001}, "at most 100000 characters"),
        (CONFIG, {"page_size": 1}, "total_tokens: Field required"),
        (messages.HELLO, HELLO, "capabilities: Field required"),
        (messages.RECOMPUTED, {"tokens": [1, 64.0]}, "tokens/1: Input should be a valid integer"),
        (SNAPSHOTS, {"snapshots": [{"iter": True}]}, "snapshots/0"),
        (SNAPSHOTS, {"snapshots": 3}, "snapshots: Input should be a valid list, not 3"),
    ],
)
def test_what_does_not_follow_it_is_told_in_one_line(shape: Shape, value: Any, text: str) -> None:
    wrong = shape.line(value)
    assert wrong is not None and text in wrong and "\n" not in wrong


@pytest.mark.parametrize(
    ("pool", "text"),
    [
        ({**POOL, "free": [1, True]}, "free/1: Input should be a valid integer, not true"),
        ({**POOL, "total": 64.0}, "total: Input should be a valid integer, not 64.0"),
        ({**POOL, "free": [1 << 60]}, "free/0: Input should be less than or equal to"),
        ({**POOL, "pages": 1}, "pages: Extra inputs are not permitted"),
    ],
)
def test_numbers_of_a_snapshot_are_integers(pool: Any, text: str, scene: Any) -> None:
    snapshot = json.loads(json.dumps(scene().snapshot))
    assert SNAPSHOTS.misfit({"snapshots": [snapshot]}) is None
    snapshot["pools"]["full"] = pool
    wrong = SNAPSHOTS.line({"snapshots": [snapshot]})
    assert wrong is not None and wrong.startswith(f"snapshots/0/pools/full/{text}")
