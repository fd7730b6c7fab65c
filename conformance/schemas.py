"""The package's JSON Schemas (draft 2020-12): where a value does not fit them, and how."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import jsonschema_rs

LONGEST = 200
"""Characters of a message: it quotes what does not fit, which can be a whole snapshot."""


@dataclass(frozen=True)
class Misfit:
    """What of a value does not fit; the first of it."""

    path: tuple[str | int, ...]
    """Keys and indices down to it; empty for the value itself."""
    message: str

    def at(self, root: str) -> str:
        """One line; ``root`` is what the value itself is called.

        >>> Misfit(("rows", 0), "true is not an integer").at("snapshot")
        'rows/0: true is not an integer'
        """
        return f"{'/'.join(map(str, self.path)) or root}: {self.message}"


@dataclass(frozen=True)
class Schema:
    """A schema file: the package it is in, and its name there.

    >>> BASELINE.misfit({"slotproof_baseline": 1}).at("the file")
    'the file: "findings" is a required property'
    >>> BASELINE.misfit({"slotproof_baseline": 1, "findings": []}) is None
    True
    """

    package: str
    file: str

    def misfit(self, value: object, definition: str | None = None) -> Misfit | None:
        """Where a value does not fit the schema, or one of its ``$defs``.

        Takes what a JSON reader gives; anything else does not fit.
        """
        try:
            error = next(iter(_validator(self, definition).iter_errors(value)), None)
        except ValueError as problem:  # a lone surrogate, a key that is no text
            return Misfit((), str(problem)[:LONGEST])
        if error is None:
            return None
        return Misfit(tuple(error.instance_path), error.message[:LONGEST])

    def definition(self, name: str) -> dict[str, object]:
        """One of the ``$defs``, as it is in the file."""
        found: dict[str, object] = _document(self)["$defs"][name]
        return found


PROTOCOL = Schema("slotproof.conformance.protocol", "protocol.schema.json")
LOG = Schema("slotproof.conformance.logs", "log.schema.json")
TRACE = Schema("slotproof.conformance.traces", "itf.schema.json")
BASELINE = Schema("slotproof.conformance", "baseline.schema.json")


@cache
def _document(schema: Schema) -> dict[str, dict[str, dict[str, object]]]:
    text = files(schema.package).joinpath(schema.file).read_text(encoding="utf-8")
    document: dict[str, dict[str, dict[str, object]]] = json.loads(text)
    return document


@cache
def _validator(schema: Schema, definition: str | None) -> jsonschema_rs.Draft202012Validator:
    start = {} if definition is None else {"$ref": f"#/$defs/{definition}"}
    return jsonschema_rs.Draft202012Validator({**_document(schema), **start})
