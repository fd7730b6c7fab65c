"""Types of a trace on disk: an ITF document with its encodings decoded.

The documented JSON Schema is generated from these types, with the encodings of ITF restored.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import FailFast, Field
from typing_extensions import TypedDict

from slotproof.protocol.config import SOME
from slotproof.protocol.messages import PROTOCOL, PatchName
from slotproof.protocol.shapes import Count, Int, Name, Shape, Text, open_shape, shape
from slotproof.support import bounds
from slotproof.traces.runs import PATTERN

T = TypeVar("T")
Events = Annotated[list[T], FailFast(), Field(max_length=bounds.EVENTS)]
Few = Annotated[list[T], FailFast(), Field(max_length=bounds.VIOLATIONS)]
Numbers = dict[Name, Int]
Pages = Annotated[str, Field(pattern=PATTERN)]


@shape
class PoolFigures(TypedDict, total=False):
    total: Count
    available: Int
    evictable: Int
    protected: Int
    held: Int
    uncached: Int


@shape
class SessionFigures(TypedDict, total=False):
    open: bool
    closing: bool
    inflight: Name
    history: Int


@shape
class SlotFigures(TypedDict, total=False):
    row: Int
    C: Int
    A: Int
    Q: Int
    E: Int
    lent: bool


@shape
class RequestFigures(TypedDict, total=False):
    kind: Name
    phase: Name
    row: Int
    C: Int
    A: Int
    Q: Int
    E: Int
    prompt: Int
    output: Int


@shape
class EventShown(TypedDict):
    transition: Name
    session: NotRequired[Name]
    request: NotRequired[Name]
    params: Numbers


@shape
class Told(TypedDict):
    """A message to a client. ``tokens`` is the number of its tokens."""

    type: Name
    session: NotRequired[Name]
    rid: NotRequired[Name]
    reason: NotRequired[Name]
    message: NotRequired[Text]
    tokens: NotRequired[Count]


@shape
class Check(TypedDict):
    ran: bool
    verdict: Name
    message: NotRequired[Text]


@shape
class Differs(TypedDict):
    """A variable whose value differs from the spec. ``what`` names the actor and the variable."""

    what: Name
    spec: NotRequired[Int]
    engine: NotRequired[Int]
    at: NotRequired[Name]
    variable: NotRequired[Name]
    session: NotRequired[Name]
    rid: NotRequired[Name]


@shape
class Holding(TypedDict):
    kind: Literal["free", "tree", "slot", "request"]
    name: NotRequired[Name]
    locks: NotRequired[Int]
    pages: Pages
    reads: NotRequired[Pages]


Many = Field(max_length=bounds.ACTORS)


class Figures(TypedDict, total=False):
    pools: dict[Name, PoolFigures]
    sessions: Annotated[dict[Name, SessionFigures], Many]
    slots: Annotated[dict[Name, SlotFigures], Many]
    requests: Annotated[dict[Name, RequestFigures], Many]


@shape
class Iteration(Figures, total=False):
    events: Events[EventShown]
    told: Events[Told]
    check: Check
    differs: Events[Differs]
    pages: dict[Name, Annotated[list[Holding], FailFast(), Field(max_length=2 * bounds.ACTORS)]]
    shares: dict[Name, PoolFigures]
    carried: bool


_State = TypedDict("_State", {"mbt::actionTaken": Name, "mbt::nondetPicks": dict[Name, Any]})


@open_shape
class State(_State, Figures):
    """A state of the trace: a command, and the state of the engine after the command."""

    transitions: NotRequired[Events[Name]]
    iterations: NotRequired[
        Annotated[list[Iteration], FailFast(), Field(max_length=bounds.ITERATIONS)]
    ]


@shape
class Holder(TypedDict):
    """An owner of a page or a row."""

    kind: Name
    name: NotRequired[Name]


@shape
class Violated(TypedDict):
    invariant: Name
    conjunct: Name
    detail: Text
    transition: Name
    said: NotRequired[Text]
    variable: NotRequired[Name]
    spec: NotRequired[Int]
    engine: NotRequired[Int]
    guard: NotRequired[Name]
    iteration: NotRequired[Count]
    pool: NotRequired[Name]
    page: NotRequired[Int]
    owners: NotRequired[Few[Holder]]
    session: NotRequired[Name]
    rid: NotRequired[Name]
    pins: NotRequired[Name]
    fault: NotRequired[Name]


@shape
class Explained(TypedDict):
    transition: Name
    words: Text
    always: bool


@shape
class Later(TypedDict):
    """A kind of later finding in a log: place of the first occurrence, number of occurrences."""

    file: Count
    line: Count
    clause: Name
    words: Text
    times: Count


@shape
class Recorded(TypedDict):
    """The place of the trace in a log, and the clauses that can't be judged on the log."""

    file: Count
    line: Count
    before: Count
    later: Few[Later]
    not_judged: Annotated[dict[Name, Text], Field(max_length=bounds.VIOLATIONS)]


@shape
class BuildFound(TypedDict):
    """The identity of the build. ``argument`` is its ``--engine`` argument. ``release`` is empty
    for a build that matches no release. Engines without releases omit ``release``."""

    argument: Text
    name: Text
    version: Text
    release: NotRequired[Text]
    label: Text
    commit: Text
    fingerprint: Text


@open_shape
class TraceMetadata(TypedDict):
    """Metadata of a trace: engine, spec, configuration and violations."""

    protocol: Literal[PROTOCOL]  # type: ignore[valid-type]
    engine: Text
    spec: Text
    build: NotRequired[BuildFound]
    profile: Name
    config: SOME.form  # type: ignore[name-defined]
    seed: Count
    one_minimal: bool
    violated: Few[Violated]
    explained: NotRequired[Few[Explained]]
    chosen_profile: Name
    ignored: Few[Name]
    patches: NotRequired[Few[PatchName]]
    config_name: Name
    length: Count
    page_size: Count
    recorded: NotRequired[Recorded]
    needs_example: NotRequired[Count]


@open_shape
class Meta(TypedDict):
    slotproof: TraceMetadata
    format: NotRequired[Literal["ITF"]]


States = Annotated[list[State], FailFast(), Field(min_length=1, max_length=bounds.COMMANDS)]
Document = TypedDict("Document", {"#meta": Meta, "vars": list[Name], "states": States})
TRACE = Shape("the document", open_shape(Document))


def encoded(schema: Any) -> Any:
    """Return the JSON Schema of an ITF file, made from the schema of the file's decoded values.

    >>> encoded({"type": "boolean"})
    {'type': 'boolean'}
    """
    if isinstance(schema, list):
        return [encoded(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    form: Any
    inner = {key: encoded(value) for key, value in schema.items()}
    if schema.get("type") == "integer":
        key, form = "#bigint", {"type": "string", "pattern": "^-?[0-9]{1,30}$"}
    elif isinstance(schema.get("additionalProperties"), dict):
        pair = [{"type": "string"}, inner["additionalProperties"]]
        key, form = "#map", {"type": "array", "items": {"type": "array", "prefixItems": pair}}
    else:
        return inner
    return {"anyOf": [inner, {"type": "object", "properties": {key: form}, "required": [key]}]}
