"""A finding on disk: the scripts of its round, the messages of clients, and the log's place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import FailFast, Field
from typing_extensions import TypedDict

from slotproof.frontend.running import FrontEndFinding, Plan
from slotproof.frontend.scripts import MOST_CLIENTS, Script
from slotproof.protocol.config import BadConfig, EngineConfig
from slotproof.protocol.shapes import Shape, Text, shape
from slotproof.support import bounds, jsontext
from slotproof.support.files import slug, write_whole
from slotproof.support.terminal import json_text

_Name = Annotated[Text, Field(min_length=1)]
_Small = Annotated[int, Field(ge=0, le=10_000)]
_Token = Annotated[int, Field(ge=1, le=bounds.TOKENS)]


class BadRound(ValueError):
    """No round of a front end; one line that says why."""


@shape
class _Action(TypedDict):
    """What a client does: the fields of `open`, `close`, `turn`, `abort` and `pause`."""

    do: Literal["open", "close", "turn", "abort", "pause"]
    session: NotRequired[_Name]
    rid: NotRequired[_Name]
    tokens: NotRequired[Annotated[list[_Token], FailFast()]]
    max_new: NotRequired[_Small]
    wait: NotRequired[bool]
    stream: NotRequired[bool]
    http: NotRequired[bool]
    insists: NotRequired[bool]
    leaves: NotRequired[_Small]
    ms: NotRequired[_Small]


@shape
class _File(TypedDict):
    slotproof_frontend: Literal[1]
    engine: _Name
    mends: Annotated[list[_Name], FailFast()]
    config: dict[str, Any]
    id: _Name
    scripts: Annotated[list[Annotated[list[_Action], FailFast()]], Field(max_length=MOST_CLIENTS)]


_FILE = Shape("the file", _File)
NEEDS = {
    "open": ("session",),
    "close": ("session",),
    "turn": ("rid", "tokens", "max_new", "wait"),
    "abort": ("rid",),
    "pause": ("ms",),
}
"""The fields that an action can't be without."""


@dataclass(frozen=True)
class SavedRound:
    """A saved round, to be played again."""

    engine: str
    mends: tuple[str, ...]
    config: EngineConfig
    id: str
    scripts: list[Script]


def save(found: FrontEndFinding, plan: Plan, engine: str, folder: Path) -> Path:
    """Write it; where. Raises ``OSError``."""
    path = folder / f"{slug(engine)}-seed{plan.seed}-{slug(found.id, 100, '@_')}.json"
    played = found.round
    document = {
        "slotproof_frontend": 1,
        "engine": engine,
        "mends": list(plan.build.mends),
        "config": plan.configs[played.config].to_json(),
        "seed": plan.seed,
        "round": played.number,
        "id": found.id,
        "sentence": found.sentence,
        "also": found.also,
        "replayed": {"times": found.replayed, "seen": found.again},
        "log": found.log.name,
        "scripts": played.scripts,
        "heard": played.noted,
    }
    write_whole(path, json_text(document) + "\n")
    return path


def load(path: Path) -> SavedRound:
    """Read it. Raises :class:`BadRound`, one line."""
    try:
        data = jsontext.read(path, bounds.TRACE_BYTES)
    except jsontext.BadJson as bad:
        raise BadRound(f"{path}: {bad}") from None
    names = _File.__annotations__
    known = {name: data[name] for name in names if name in data} if isinstance(data, dict) else data
    wrong = _FILE.line(known)
    if wrong is not None:
        raise BadRound(f"{path}: {wrong}")
    for action in (each for script in known["scripts"] for each in script):
        lacks = [name for name in NEEDS[action["do"]] if name not in action]
        if lacks:
            raise BadRound(f"{path}: an action {action['do']!r} has no {lacks[0]}")
    try:
        config = EngineConfig.from_json(known["config"])
    except BadConfig as bad:
        raise BadRound(f"{path}: {bad}") from None
    return SavedRound(known["engine"], tuple(known["mends"]), config, known["id"], known["scripts"])
