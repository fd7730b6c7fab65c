"""Types of all data from outside. Pydantic checks the data strictly.

Messages, snapshots, logs, traces and baselines are defined only by Pydantic types. The types also
give the JSON Schemas in the documents. Valid data stays as it is: plain dictionaries and lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, Union

from pydantic import ConfigDict, FailFast, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from slotproof.support import bounds

shape = with_config(ConfigDict(extra="forbid", strict=True))
"""Option for a dictionary with exactly the given keys. ``64.0`` and ``true`` are no integers."""
open_shape = with_config(ConfigDict(extra="allow", strict=True))
"""Option for a dictionary that may have further keys. slotproof ignores them."""

Int = Annotated[int, Field(strict=True, ge=-bounds.INTEGER, le=bounds.INTEGER)]
Count = Annotated[int, Field(strict=True, ge=0, le=bounds.INTEGER)]
Name = Annotated[str, Field(strict=True, max_length=bounds.NAME_CHARS)]
Text = Annotated[str, Field(strict=True, max_length=bounds.TEXT_CHARS)]
Ints = Annotated[list[Int], FailFast()]
Hash = Annotated[int, Field(strict=True, ge=0, le=0xFFFFFFFF)]
"""A CRC-32."""

QUOTED = 60
"""Largest number of characters in a quoted value."""


@dataclass(frozen=True)
class Misfit:
    """First error in a value from outside."""

    path: tuple[str | int, ...]
    """Keys and indices that lead from the value to the error. Empty if the whole value is bad."""
    message: str

    def at(self, root: str) -> str:
        """Return the error in one line. ``root`` is the name of the value itself.

        >>> Misfit(("rows", 0), "not an integer").at("snapshot")
        'rows/0: not an integer'
        """
        where = "/".join(str(part)[:QUOTED] for part in self.path)
        return f"{where or root}: {self.message}"


class Shape:
    """A type that checks values from outside, and that has a JSON Schema.

    >>> numbers = Shape("numbers", Ints)
    >>> numbers.misfit([1, 2]), numbers.misfit([1, 2.0]).at("numbers")
    (None, '1: Input should be a valid integer, not 2.0')
    """

    def __init__(self, title: str, form: Any) -> None:
        self.title, self.form = title, form

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.form)

    def misfit(self, value: object) -> Misfit | None:
        """Return the first error in a value that was read from JSON, or None."""
        try:
            self._adapter.validate_python(value)
        except ValidationError as error:
            return misfit_of(error)
        return None

    def line(self, value: object) -> str | None:
        """Return the first error in one line, or None."""
        wrong = self.misfit(value)
        return None if wrong is None else wrong.at(self.title)

    def demand(self, value: object, problem: Callable[[str], Exception]) -> None:
        """Raise ``problem`` with the first error in one line, if the value has an error."""
        if wrong := self.line(value):
            raise problem(wrong)


def tagged(tag: str, titles: str, types: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return the type of a dictionary in one of several forms. The field ``tag`` chooses the form.

    ``titles`` is the pattern of the titles: the value of ``tag`` in each form replaces ``{}``.
    """
    forms: list[Any] = []
    for name, fields in types.items():
        title = titles.format(name.title().replace("_", ""))
        forms.append(shape(TypedDict(title, {tag: Literal[name], **fields})))  # type: ignore[operator]
    return Annotated[Union[tuple(forms)], Field(discriminator=tag)]  # noqa: UP007  # made, not written


def misfit_of(error: ValidationError) -> Misfit:
    """Return the first error of a validation."""
    first = error.errors(include_url=False)[0]
    message, path = first["msg"], first["loc"]
    # The message quotes the whole tag, which can have any length.
    if first["type"] == "union_tag_invalid":
        tag = str(first["ctx"]["tag"])
        message = message.replace(tag, tag if len(tag) <= QUOTED else f"{tag[: QUOTED - 1]}…")
    elif first["type"] not in ("missing", "extra_forbidden"):
        message += f", not {quoted(first['input'])}"
    return Misfit(tuple(path), message)


def quoted(value: object) -> str:
    """Return the beginning of a value in ASCII, as a message quotes it.

    >>> quoted("a" * 100), quoted([1] * 10_000_000), quoted({"a": 1}), quoted(True)
    ('"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…', 'a list', 'an object', 'true')
    """
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = f'"{ascii(value[:QUOTED])[1:-1]}"' if isinstance(value, str) else str(value)
    return text if len(text) <= QUOTED else f"{text[: QUOTED - 1]}…"
