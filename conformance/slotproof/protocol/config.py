"""Configuration of an engine under test, and the suite's default configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal, NotRequired, get_type_hints

from pydantic import Field
from typing_extensions import TypedDict

from slotproof.protocol.shapes import Shape, shape
from slotproof.support import bounds


class BadConfig(ValueError):
    """An impossible configuration. The message is one line with the reason."""


PoolTokens = Annotated[int, Field(ge=0, le=bounds.POOL_TOKENS)]
Tokens = Annotated[int, Field(ge=0, le=bounds.CONTEXT)]
Rows = Annotated[int, Field(ge=1, le=bounds.ACTORS)]


@dataclass(frozen=True)
class EngineConfig:
    """Configuration that ``reset`` sends. Lengths are in tokens, times in seconds."""

    page_size: Annotated[int, Field(ge=1, le=bounds.PAGE_TOKENS)] = 1
    total_tokens: PoolTokens = 64
    swa_tokens: PoolTokens = 0
    window: Tokens = 0
    max_running: Rows = 4
    rows: Rows = 4
    context_len: Annotated[int, Field(ge=1, le=bounds.CONTEXT)] = 48
    chunk: Tokens = 0
    draft: Tokens = 0
    topk: Tokens = 1
    reserve: Tokens = 0
    retract: Literal["keep", "wipe"] = "keep"
    timeout: Annotated[int, Field(ge=0, le=bounds.SECONDS)] = 300
    aligned_reuse: bool = False
    overlap: bool = False
    """The scheduler launches a batch before the previous result is known, as SGLang does."""
    loan_publishes: bool = False
    """A turn publishes KV while its slot is on loan. vLLM sets this field and the next three."""
    drops_last: bool = False
    """The history of a session lacks the last token of each answer."""
    queues_turns: bool = False
    """A new turn, and a close, wait until the session's turn in flight ends."""
    keeps_slack: bool = False
    """KV that a decoding round allocated past the end of a turn stays with the turn's slot."""
    batches: Annotated[int, Field(ge=2, le=3)] = 2
    """Number of batches under way with overlap scheduling."""
    priority: bool = False
    """Requests have priorities, derived from their names. Important requests preempt others. This
    field and all later fields are server options: see :data:`OPTIONS`."""
    queue: Annotated[int, Field(ge=0, le=bounds.ACTORS)] = 0
    """Largest number of waiting requests. The engine ends every request above it. 0: no limit."""
    waiting_timeout: Annotated[int, Field(ge=0, le=bounds.SECONDS)] = 0
    """Longest wait of a request in seconds. 0: no limit. The next field limits its running time."""
    running_timeout: Annotated[int, Field(ge=0, le=bounds.SECONDS)] = 0
    pause_retracts: bool = False
    """A pause retracts the running requests."""
    mixed: bool = False
    """Decoding requests join the batches of prefills."""
    longest_match: bool = False
    """The scheduler prefers requests with the longest prefix in the prefix tree."""
    logprobs: bool = False
    """Requests ask for the logprobs of their prompts, so each prompt is computed completely."""
    stream: bool = False
    """Clients get their tokens as a stream."""
    own_timeouts: bool = False
    """Each session has its own timeout: see :meth:`timeout_of`."""
    branching: bool = False
    """A request without a session is a turn in a session that has no slot. The engine builds the
    request's prompt from earlier prompts."""
    no_tree: bool = False
    """No prefix tree: requests share no KV."""

    def __post_init__(self) -> None:
        SOME.demand(vars(self), BadConfig)
        for name in ("total_tokens", "swa_tokens"):
            tokens = getattr(self, name)
            if tokens % self.page_size:
                raise BadConfig(f"{name}={tokens} is no multiple of page_size={self.page_size}")
        if self.total_tokens < self.page_size:
            raise BadConfig(
                f"total_tokens={self.total_tokens} is less than one page of {self.page_size} tokens"
            )
        if self.batches > 2 and not self.overlap:
            raise BadConfig(f"batches={self.batches} needs overlap")
        if bool(self.window) != bool(self.swa_tokens):
            raise BadConfig("window and swa_tokens come together: both 0, or both positive")

    @property
    def mode(self) -> str:
        """Kind of decoding, in words.

        >>> EngineConfig().mode, EngineConfig(overlap=True, draft=3).mode
        ('plain', 'overlap, speculation')
        """
        on = {"overlap": self.overlap, "speculation": self.draft > 0}
        return ", ".join(name for name in on if on[name]) or "plain"

    @property
    def depth(self) -> int:
        """Number of batches under way: a batch is launched before earlier results are known.

        >>> EngineConfig().depth, EngineConfig(overlap=True).depth
        (1, 2)
        """
        return self.batches if self.overlap else 1

    @property
    def running(self) -> int:
        """Largest number of requests that can run at once. Each running request needs a row."""
        return min(self.max_running, self.rows)

    @property
    def options(self) -> list[str]:
        """Names of the server options that are on.

        >>> EngineConfig().options, SERVED["p1-priority"].options
        ([], ['priority'])
        """
        return [name for name in OPTIONS if getattr(self, name)]

    def timeout_of(self, session: str) -> int:
        """Return the idle time, in seconds, after which the engine may close a session. 0: never.

        >>> [EngineConfig(timeout=20, own_timeouts=True).timeout_of(f"s{n}") for n in (1, 2, 3)]
        [60, 20, 40]
        """
        return self.timeout * (1 + sum(session.encode()) % 3 if self.own_timeouts else 1)

    @property
    def size(self) -> str:
        """Page size, pools and options, as reports print them.

        >>> EngineConfig(page_size=4).size
        'page size 4, pool of 64 tokens'
        >>> SERVED["p1-stream"].size
        'page size 1, pool of 96 tokens, with stream'
        """
        window = f", sliding window {self.window} with {self.swa_tokens} tokens"
        pools = f"{self.total_tokens} tokens{window if self.window else ''}"
        options = f", with {', '.join(self.options)}" if self.options else ""
        if self.branching:
            options += " (requests without a session are turns of a session without a slot)"
        return f"page size {self.page_size}, pool of {pools}{options}"

    def too_large(self) -> str | None:
        """Return the reason why a configuration from a file is too large to build, or None."""
        for name in ("total_tokens", "swa_tokens"):
            if getattr(self, name) > bounds.BUILT_TOKENS:
                return f"{name}={getattr(self, name)} is more than {bounds.BUILT_TOKENS}"
        if self.rows * self.context_len > bounds.BUILT_CELLS:
            cells = f"rows={self.rows} × context_len={self.context_len}"
            return f"{cells} is more than {bounds.BUILT_CELLS}"
        return None

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as ``reset`` sends it, without newer fields at their default.

        >>> "overlap" in EngineConfig().to_json(), EngineConfig(overlap=True).to_json()["overlap"]
        (False, True)
        """
        said = asdict(self)
        return {k: v for k, v in said.items() if k not in LATER or v != getattr(type(self), k)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> EngineConfig:
        """Return the configuration of a trace or a log. Raises :class:`BadConfig` for invalid data.

        >>> EngineConfig.from_json({"page_size": 4}) == CONFIGS["p4"]
        False
        """
        SOME.demand(data, BadConfig)
        return cls(**data)


CHOSEN = frozenset({"overlap", "loan_publishes", "drops_last", "queues_turns", "keeps_slack"})
"""Choices of a profile that are also fields of a configuration."""
_names = list(EngineConfig.__annotations__)
OPTIONS = tuple(_names[_names.index("priority") :])
"""Server options that hold back, delay or end requests. With an option, the engine makes the same
transitions at other times, and names the option in the snapshot's ``options``."""
LATER = CHOSEN | {*OPTIONS, "batches"}
"""Fields added to the protocol later. An engine gets a field only if its capabilities list it."""

_fields = get_type_hints(EngineConfig, include_extras=True)
_told = {name: NotRequired[kind] if name in LATER else kind for name, kind in _fields.items()}
CONFIG = Shape("config", shape(TypedDict("Config", _told)))  # type: ignore[operator]
"""Whole configuration, as ``reset`` sends it."""
SOME = Shape("config", shape(TypedDict("SomeConfig", _fields, total=False)))  # type: ignore[operator]
"""Part of a configuration. Each missing field has its default."""

CONFIGS: dict[str, EngineConfig] = {
    "p1": EngineConfig(),
    "p1-tight": EngineConfig(total_tokens=20, rows=3, max_running=3, context_len=32),
    "p1-wipe": EngineConfig(total_tokens=20, rows=3, max_running=3, context_len=32, retract="wipe"),
    "p1-one": EngineConfig(max_running=1, rows=3),
    "p1-chunk": EngineConfig(chunk=4, reserve=50),
    "p1-draft": EngineConfig(draft=3, topk=4),
    "p4": EngineConfig(page_size=4, max_running=2),
    "p4-tight": EngineConfig(page_size=4, total_tokens=32, rows=3, context_len=32, chunk=8),
    "p4-draft": EngineConfig(page_size=4, draft=4, topk=2, total_tokens=80, timeout=30),
    "p4-rounds": EngineConfig(page_size=4, draft=2, total_tokens=48, chunk=8, reserve=50),
    "p4-wipe": EngineConfig(page_size=4, total_tokens=32, retract="wipe", draft=2, timeout=1),
    "p16": EngineConfig(page_size=16, total_tokens=128, chunk=16),
    "p1-swa": EngineConfig(window=2, swa_tokens=40, draft=5),
    "p4-swa": EngineConfig(page_size=4, window=6, swa_tokens=48, chunk=8),
    "p16-swa": EngineConfig(
        page_size=16, window=8, total_tokens=128, swa_tokens=96, draft=2, topk=3
    ),
    "p4-aligned": EngineConfig(page_size=4, aligned_reuse=True, chunk=6),
}
"""Configurations by name: page sizes 1, 4, 16, with and without SWA pool, chunks, drafts."""
for _name in ("p1", "p1-tight", "p1-chunk", "p1-draft", "p4-tight", "p4-rounds", "p16", "p4-swa"):
    CONFIGS[f"{_name}-overlap"] = replace(CONFIGS[_name], overlap=True)
CONFIGS |= {
    "p1-swa-chunk": EngineConfig(
        window=3, swa_tokens=40, chunk=3, rows=2, max_running=2, timeout=0
    ),
    "p4-swa-odd": EngineConfig(
        page_size=4, window=5, swa_tokens=32, total_tokens=48, chunk=6, rows=3
    ),
}
"""Further configurations: idle slots that can hold every row, no timeout, chunks with a window."""
_lending = EngineConfig(
    retract="wipe", loan_publishes=True, drops_last=True, queues_turns=True, keeps_slack=True
)
CONFIGS |= {"p4-vllm": replace(_lending, page_size=4, total_tokens=56, chunk=8, draft=2)}
"""Configuration with all choices of the profile `vllm`."""
SERVED: dict[str, EngineConfig] = {
    "p1-priority": EngineConfig(priority=True, max_running=2, rows=8, total_tokens=96),
    "p4-queue": EngineConfig(
        page_size=4, priority=True, queue=2, max_running=2, rows=8, total_tokens=128
    ),
    "p1-timeouts": EngineConfig(
        waiting_timeout=30, running_timeout=60, max_running=1, rows=8, total_tokens=96
    ),
    "p4-pause": EngineConfig(page_size=4, pause_retracts=True, chunk=8, rows=8, total_tokens=128),
    "p4-mixed": EngineConfig(
        page_size=4, mixed=True, chunk=8, reserve=50, rows=8, total_tokens=128
    ),
    "p1-match": EngineConfig(longest_match=True, max_running=2, rows=8, total_tokens=96),
    "p4-logprobs": EngineConfig(page_size=4, logprobs=True, rows=8, total_tokens=128),
    "p1-stream": EngineConfig(stream=True, max_running=2, rows=8, total_tokens=96),
    "p4-own-timeouts": EngineConfig(
        page_size=4, own_timeouts=True, timeout=20, rows=8, total_tokens=128
    ),
    "p1-branching": EngineConfig(branching=True, max_running=2, rows=8, total_tokens=96),
}
"""Configurations with server options, for engines that offer those options."""
