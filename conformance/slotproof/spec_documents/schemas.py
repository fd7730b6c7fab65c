"""The JSON Schemas, generated from the types that slotproof uses to check its input."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from slotproof.logs import lines
from slotproof.protocol.commands import COMMAND
from slotproof.protocol.config import CONFIG
from slotproof.protocol.messages import ANSWER, HELLO, RECOMPUTED, REQUEST
from slotproof.protocol.shapes import Shape
from slotproof.protocol.snapshot import SNAPSHOTS
from slotproof.search.baseline import BASELINE
from slotproof.traces.document import TRACE, encoded

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas(mark: str) -> dict[str, str]:
    """Return every schema by file name. ``mark`` is a comment for the head of generated files.

    >>> list(schemas(""))[0]
    'schemas/protocol.schema.json'
    """
    protocol = _several(REQUEST, ANSWER, HELLO, SNAPSHOTS, RECOMPUTED, CONFIG, COMMAND)
    log = _several(lines.HEADER, COMMAND, lines.SNAPSHOT, lines.FAILED, lines.END)
    named_schemas = {
        "protocol": ("slotproof engine protocol: messages, by name in $defs", protocol),
        "log": ("slotproof event log: lines, by name in $defs", log),
        "itf": ("a slotproof counterexample in the Informal Trace Format", encoded(_whole(TRACE))),
        "baseline": ("slotproof baseline: accepted findings", _whole(BASELINE)),
    }
    return {
        f"schemas/{name}.schema.json": json.dumps(
            {"$schema": DIALECT, "$comment": mark, **schema, "title": title}, indent=1
        )
        + "\n"
        for name, (title, schema) in named_schemas.items()
    }


class _Plain(GenerateJsonSchema):
    """A schema generator without field titles. A title would only repeat the name of its field."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False


def _whole(shape: Shape) -> dict[str, Any]:
    return dict(TypeAdapter(shape.form).json_schema(schema_generator=_Plain))


def _several(*shapes: Shape) -> dict[str, Any]:
    """Return one schema document with a definition for each shape."""
    inputs: list[Any] = [(shape.title, "validation", TypeAdapter(shape.form)) for shape in shapes]
    named, shared = TypeAdapter.json_schemas(inputs, schema_generator=_Plain)
    own = {title: schema for (title, _), schema in named.items()}
    return {"$defs": {**shared.get("$defs", {}), **own}}
