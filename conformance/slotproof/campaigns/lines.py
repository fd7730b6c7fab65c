"""The lines of a journal: their types, and what they stand for.

Whatever is kept of a campaign goes through here both ways, also in the process that found it: a
campaign that goes on reads what one that was never stopped has.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from slotproof.engines.base import Capabilities
from slotproof.lockstep.coverage import Coverage
from slotproof.protocol.build import Build
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.messages import Offered
from slotproof.protocol.shapes import Count, Name, Shape, Text, shape
from slotproof.reports.trace import Trace, from_itf
from slotproof.search.findings import Finding, Mark
from slotproof.search.guided import CorpusEntry, Explored
from slotproof.traces import itf
from slotproof.traces.document import BuildFound
from slotproof.traces.itf import BadTrace
from slotproof_model.spec.profiles import profile_named

FORMAT = 1
"""Of journals."""
MANY = 10
"""Examples of a configuration after which a feature is not rare any more, and not counted."""

STATES_BYTES = 1 << 20
"""A trace that is longer is kept without its states: a replay makes them again."""

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Counts = dict[Name, Count]
Bits = Annotated[str, Field(pattern="^[0-9a-f]{1,1000}$")]


@shape
class MarkLine(TypedDict):
    """By what a finding is recognised."""

    clause: Name
    transitions: list[Name]
    command: Name
    what: Text
    certain: bool


@shape
class FindingLine(TypedDict):
    """A finding; its trace is an ITF document."""

    mark: MarkLine
    trace: dict[str, Any]
    first: Count


@shape
class CoverageLine(TypedDict):
    """:class:`~slotproof.lockstep.coverage.Coverage`."""

    transitions: Counts
    decoding: Counts
    checked: Counts
    set_aside: Counts
    by_choice: NotRequired[Counts]
    holds: Bits
    fails: Bits
    commands: Count
    iterations: Count
    reached: dict[Name, Counts]


@shape
class HeadLine(TypedDict):
    """The first line: of what build, by what slotproof, according to what plan."""

    kind: Literal["head"]
    format: Literal[1]
    slotproof: Name
    sources: Name
    engine: Name
    build: NotRequired[BuildFound | None]
    spec: Text
    options: Text
    profile: Name
    offers: Offered
    seed: Count
    configs: dict[Name, dict[str, Any]]
    skipped: dict[Name, Text]
    steps: Count
    shrink: Count
    set_aside: list[Name]
    chosen_profile: Name | None
    known: Name
    examples_of_task: Count
    tasks_of_round: Count
    started: Seconds
    parts: NotRequired[list[dict[str, Any]]]


class _Line(TypedDict):
    """When it was written; of a merged journal, whose part it is."""

    at: Seconds
    part: NotRequired[Count]


@shape
class BegunLine(_Line):
    """A process goes on with it."""

    kind: Literal["begun"]
    workers: Count


@shape
class RoundLine(_Line):
    """A round is dealt: of each task the configuration and how many examples."""

    kind: Literal["round"]
    round: Count
    tasks: list[list[Name | Count]]


@shape
class TaskLine(_Line):
    """A task of a round is done."""

    kind: Literal["task"]
    round: Count
    task: Count
    config: Name
    examples: Count
    coverage: CoverageLine
    findings: list[FindingLine]
    accepted: list[Name]
    shown: Counts
    kept: list[dict[str, Any]]
    reached: Counts
    seconds: Seconds


@shape
class SeenLine(_Line):
    """A finding, or a shorter one, before what showed it is done: should it never be."""

    kind: Literal["seen", "shorter"]
    finding: FindingLine


@shape
class ClosedLine(_Line):
    """The time is over: the round is what was done of it."""

    kind: Literal["closed"]
    round: Count


@shape
class ShrunkLine(_Line):
    """What the findings of one clause, all of a round, were shrunk to."""

    kind: Literal["shrunk"]
    round: Count
    group: Count
    results: list[FindingLine | None]
    seconds: Seconds


@shape
class JudgedLine(_Line):
    """Findings that belong to a group of the baseline, and why."""

    kind: Literal["judged"]
    known: dict[Name, Text]


@shape
class JoinedLine(TypedDict):
    """All lines of the parts of a merged journal are there."""

    kind: Literal["joined"]
    at: Seconds


HEAD = Shape("head", HeadLine)
LINE = Shape(
    "line",
    Annotated[
        BegunLine
        | RoundLine
        | TaskLine
        | SeenLine
        | ClosedLine
        | ShrunkLine
        | JudgedLine
        | JoinedLine,
        Field(discriminator="kind"),
    ],
)


@dataclass(frozen=True)
class Head:
    """What a campaign is of. Two journals of which it is the same are of the same campaign."""

    engine: str
    """The name and version that the engine gave."""
    spec: str
    """The ``--engine`` argument."""
    options: str
    """What else it was started with."""
    profile: str
    offers: dict[str, Any]
    """Its capabilities."""
    configs: dict[str, EngineConfig]
    """Those that it can take."""
    seed: int
    slotproof: str
    sources: str
    """A digest of slotproof's own code: another one draws other examples."""
    steps: int
    shrink: int
    set_aside: tuple[str, ...]
    chosen_profile: str | None
    known: str
    """A digest of the baseline; empty where there is none."""
    examples_of_task: int
    tasks_of_round: int
    """Of each configuration."""
    skipped: dict[str, str] = field(default_factory=dict)
    started: float = 0.0
    parts: tuple[Head, ...] = ()
    """Where it was merged: of which journals."""
    build: Build | None = None

    @property
    def title(self) -> str:
        """What reports call the engine."""
        return self.engine if self.build is None else self.build.title

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities.from_json(self.offers)

    def blank(self, config: str) -> Trace:
        """A trace without rows: of which engine and configuration."""
        return Trace(
            self.engine,
            self.spec,
            self.profile,
            self.configs[config],
            self.seed,
            config_name=config,
            chosen_profile=self.chosen_profile,
            set_aside=self.set_aside,
            mends=self.capabilities.mends,
            build=self.build,
        )

    def to_json(self) -> dict[str, Any]:
        """The first line of a journal."""
        said = {name: value for name, value in vars(self).items() if name != "parts"}
        said["configs"] = {name: each.to_json() for name, each in self.configs.items()}
        said["set_aside"] = list(self.set_aside)
        said["build"] = None if self.build is None else self.build.to_json()
        parts = {"parts": [each.to_json() for each in self.parts]} if self.parts else {}
        return {"kind": "head", "format": FORMAT, **said, **parts}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Head:
        """Of a line that fits :data:`HEAD`. Raises ``ValueError`` for what no engine can have."""
        said = {name: value for name, value in data.items() if name not in ("kind", "format")}
        parts = []
        for each in said.pop("parts", ()):
            if (wrong := HEAD.misfit(each)) is not None:
                raise ValueError(wrong.at("parts"))
            parts.append(cls.from_json(each))
        configs = {name: EngineConfig.from_json(each) for name, each in said["configs"].items()}
        if said.get("build"):
            said["build"] = Build(**said["build"])
        said |= {"configs": configs, "set_aside": tuple(said["set_aside"]), "parts": tuple(parts)}
        for name in (said["profile"], said["chosen_profile"]):
            if name is not None:
                profile_named(name)
        head = cls(**said)
        if problem := head.capabilities.senseless():
            raise ValueError(problem)
        return head


def finding_line(finding: Finding, states: bool) -> dict[str, Any]:
    """A finding; with its states only where a reader takes them."""
    document = itf.to_itf(finding.trace if states else finding.trace.without_states())
    if states and not _may_be_read(document):
        document = itf.to_itf(finding.trace.without_states())
    return {"mark": finding.mark.to_json(), "trace": document, "first": finding.first}


def _may_be_read(document: dict[str, Any]) -> bool:
    text = json.dumps(document)
    if len(text) > STATES_BYTES:
        return False
    try:
        from_itf(json.loads(text))
    except BadTrace:
        return False
    return True


def finding_of(line: Mapping[str, Any]) -> Finding:
    """The finding of a line. Raises ``ValueError``."""
    trace = from_itf(line["trace"])
    if not trace.violations:
        raise ValueError("a finding without a violation")
    return Finding(Mark.from_json(line["mark"]), trace, line["first"])


def explored_line(result: Explored, common: frozenset[str]) -> dict[str, Any]:
    """What came of a task, without the features that so many examples reached before."""
    return {
        "examples": result.examples,
        "coverage": result.coverage.to_json(),
        "findings": [finding_line(each, states=False) for each in result.findings],
        "accepted": sorted(result.accepted),
        "shown": dict(sorted(result.shown.items())),
        "kept": [each.to_json() for each in result.corpus],
        "reached": {
            name: count for name, count in sorted(result.reached.items()) if name not in common
        },
    }


def explored_of(line: Mapping[str, Any]) -> Explored:
    """The result of a line. Raises what the parts of it raise that make no sense."""
    return Explored(
        examples=line["examples"],
        coverage=Coverage.from_json(line["coverage"]),
        findings=list(map(finding_of, line["findings"])),
        accepted=set(line["accepted"]),
        corpus=list(map(CorpusEntry.from_json, line["kept"])),
        reached=Counter(line["reached"]),
        shown=Counter(line["shown"]),
        whole=True,
    )
