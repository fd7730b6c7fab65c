"""The JSON Schemas, made from the types that everything from outside is checked by."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from slotproof.logs import lines
from slotproof.protocol import messages
from slotproof.protocol.commands import COMMAND
from slotproof.protocol.config import CONFIG
from slotproof.protocol.shapes import Shape
from slotproof.protocol.snapshot import SNAPSHOTS
from slotproof.search.baseline import BASELINE
from slotproof.traces.document import TRACE, encoded

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas(mark: str) -> dict[str, str]:
    """Every schema, by its name in the folder of documents; ``mark`` says that it is made.

    >>> list(schemas(""))[0]
    'schemas/protocol.schema.json'
    """
    protocol = _several(
        messages.REQUEST,
        messages.ANSWER,
        messages.HELLO,
        SNAPSHOTS,
        messages.RECOMPUTED,
        CONFIG,
        COMMAND,
    )
    log = _several(lines.HEADER, COMMAND, lines.SNAPSHOT, lines.FAILED, lines.END)
    found = {
        "protocol": ("slotproof engine protocol: messages, by name in $defs", protocol),
        "log": ("slotproof event log: what lines hold, by name in $defs", log),
        "itf": ("a slotproof counterexample in the Informal Trace Format", encoded(_whole(TRACE))),
        "baseline": ("slotproof baseline: findings that a team knows", _whole(BASELINE)),
    }
    return {
        f"schemas/{name}.schema.json": json.dumps(
            {"$schema": DIALECT, "$comment": mark, **schema, "title": title}, indent=1
        )
        + "\n"
        for name, (title, schema) in found.items()
    }


class _Plain(GenerateJsonSchema):
    """Without titles that only repeat the name of a field."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False


def _whole(shape: Shape) -> dict[str, Any]:
    return dict(TypeAdapter(shape.form).json_schema(schema_generator=_Plain))


def _several(*shapes: Shape) -> dict[str, Any]:
    """One document with a definition for each."""
    inputs: list[Any] = [(each.title, "validation", TypeAdapter(each.form)) for each in shapes]
    named, shared = TypeAdapter.json_schemas(inputs, schema_generator=_Plain)
    own = {title: schema for (title, _), schema in named.items()}
    return {"$defs": {**shared.get("$defs", {}), **own}}
