"""Commands and configurations as calls of a scheduler alone: the harness of a finding's own script.

One to one, or not at all: what the harness does otherwise than the driver is refused, in a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from slotproof.environments.recipes import RECIPES
from slotproof.protocol.commands import Command
from slotproof.reports.scripted import literal
from slotproof.traces.itf import NoForm
from slotproof.traces.record import Record, Row


@dataclass(frozen=True)
class Harness:
    """An engine's scheduler alone, and what it takes."""

    engine: str
    parts: tuple[Path, ...]
    """Files that make up a script, in the order of their use."""
    arguments: Callable[[Record], dict[str, Any]]
    unlike: Callable[[Record], str | None]
    """Why a trace's configuration can't be had."""
    call: Callable[[Record, int], str | None]
    """The call that a command (by its index) is; ``None`` where the engine is told nothing."""

    @property
    def title(self) -> str:
        return RECIPES[self.engine].title


def harness_of(trace: Record) -> Harness:
    """The scheduler that a trace can be run on alone. Raises :class:`NoForm`."""
    family, _, _ = trace.found_on.partition("==")
    harness = HARNESSES.get(family)
    if harness is None or trace.recorded is not None:
        of = "a log" if trace.recorded is not None else repr(trace.spec)
        raise NoForm(f"it is made for {' and '.join(HARNESSES)}, and this trace is of {of}")
    if trace.mends:
        raise NoForm(f"bugs were mended when it was found ({', '.join(trace.mends)})")
    if (unlike := harness.unlike(trace)) is not None:
        raise NoForm(unlike)
    return harness


def calls(trace: Record) -> list[str | None]:
    """By command, the call. Raises :class:`NoForm`."""
    harness = harness_of(trace)
    return [harness.call(trace, index) for index in range(len(trace.rows))]


def written(name: str, *args: Any, **options: Any) -> str:
    """A call of the engine with literals.

    >>> written("submit", "r1", [1, 2], 3, session="s1")
    'engine.submit("r1", [1, 2], 3, session="s1")'
    """
    given = [*map(_literal, args), *(f"{key}={literal(value)}" for key, value in options.items())]
    return f"engine.{name}({', '.join(given)})"


def _literal(value: Any) -> str:
    """A long list of tokens in a few characters.

    >>> _literal([3] * 9), _literal(list(range(1, 10))), _literal([1, 3])
    ('[3] * 9', 'list(range(1, 10))', '[1, 3]')
    """
    if isinstance(value, list) and len(value) > 8:
        first, end = value[0], value[0] + len(value)
        if value == [first] * len(value):
            return f"[{first}] * {len(value)}"
        if value == list(range(first, end)):
            return f"list(range({first}, {end}))"
    return literal(value)


def _submit(command: Command) -> str:
    said = {"session": command["session"], "stop": command["stop"]}
    options = {name: value for name, value in said.items() if value}
    return written("submit", command["rid"], command["tokens"], command["max_new"], **options)


def _untaken(name: str) -> NoForm:
    return NoForm(f"the engine alone has nothing that does what {name!r} does")


# SGLang ------------------------------------------------------------------------------------------


_ROUNDS = Version("0.5.15")
"""The first release whose rounds the script can answer."""
_BY_HAND = Version("0.5.12")
"""Up to this one the driver has no rounds either."""


def _draft(trace: Record) -> int:
    return trace.config.draft if _release(trace) > _BY_HAND else 0


def _release(trace: Record) -> Version:
    return Version(trace.engine.partition(" ")[2])


def _sglang_arguments(trace: Record) -> dict[str, Any]:
    config, draft = trace.config, _draft(trace)
    always = {
        "tokens": config.total_tokens,
        "page_size": config.page_size,
        "running": min(config.max_running, config.rows),
        "rows": config.rows,
        "context": config.context_len,
    }
    also = {
        "window": config.window,
        "swa_tokens": config.swa_tokens,
        "chunk": config.chunk,
        "overlap": config.overlap,
        "draft": draft,
        "topk": config.topk if draft else 0,
        "lucky": draft > 0,
        "reserve": config.reserve / 100,
    }
    return always | {name: value for name, value in also.items() if value}


def _sglang_unlike(trace: Record) -> str | None:
    config = trace.config
    try:
        release = _release(trace)
    except InvalidVersion:
        return f"{trace.engine!r} names no release"
    if config.draft and _BY_HAND < release < _ROUNDS:
        return "the rounds of this release can't be run by the script"
    if config.retract != "keep" or config.aligned_reuse:
        return "its configuration is not SGLang's"
    if config.options:
        return f"the script has no option of a server, and the trace needs {config.options[0]}"
    return None


def _sglang_call(trace: Record, index: int) -> str | None:
    command = trace.rows[index].command
    match command["do"]:
        case "open" | "close":
            return written(command["do"], command["session"])
        case "submit":
            return _submit(command)
        case "abort":
            return _sglang_abort(trace, command["rid"])
        case "step":
            return written("step", command["n"])
        case "evict":
            return written("evict", command["tokens"])
        case "accept":
            return written("accept", command["rid"], command["tokens"])
        case "retract":
            return _sglang_retract(trace, index)
    raise _untaken(command["do"])


def _sglang_abort(trace: Record, rid: str) -> str:
    """SGLang aborts whoever's id begins so; the driver ends ids with a mark of its own."""
    sent = {row.command["rid"] for row in trace.rows if row.command["do"] == "submit"}
    if any(other != rid and other.startswith(rid) for other in sent):
        raise NoForm(f"an abort of {rid} aborts every request whose id begins so")
    return written("abort", rid)


def _sglang_retract(trace: Record, index: int) -> str:
    """Of several requests the driver retracts one, and the harness all that run."""
    before = trace.rows[index - 1] if index else Row({})
    running = [each for each in before.requests.values() if each.get("phase") == "running"]
    if len(running) > 1 or not trace.states:
        raise NoForm("it retracts one of several requests, and the script can only retract all")
    return written("retract")


# vLLM --------------------------------------------------------------------------------------------


def _vllm_arguments(trace: Record) -> dict[str, Any]:
    config = trace.config
    always = {
        "tokens": config.total_tokens,
        "block_size": config.page_size,
        "running": min(config.max_running, config.rows),
        "context": config.context_len,
    }
    also = {"chunk": config.chunk, "ahead": config.overlap}
    return always | {name: value for name, value in also.items() if value}


def _vllm_unlike(trace: Record) -> str | None:
    if trace.config.draft:
        return "its rounds accept some drafts, and those of the script all"
    return None


def _vllm_call(trace: Record, index: int) -> str | None:
    command = trace.rows[index].command
    match command["do"]:
        case "open" | "tick":
            return None  # a session begins with its first turn, and none times out
        case "close" | "abort":
            return _vllm_end(trace, index)
        case "submit":
            if command["stop"]:
                raise NoForm("it has stop tokens, and the script's model answers other tokens")
            return None if refused(trace, command) else _submit(command)
        case "step":
            return written("step", command["n"])
    raise _untaken(command["do"])


def _vllm_end(trace: Record, index: int) -> str | None:
    """A session is one request to vLLM, there from its first turn on."""
    command = trace.rows[index].command
    sent = [row.command for row in trace.rows[:index] if row.command["do"] == "submit"]
    if command["do"] == "close":
        there = any(each["session"] == command["session"] for each in sent)
        return written("close", command["session"]) if there else None
    session = next((each["session"] for each in sent if each["rid"] == command["rid"]), None)
    return written("abort", session or command["rid"])


def refused(trace: Record, command: Command) -> str | None:
    """Why vLLM's front end does not pass a request on, where its driver says that it does not."""
    told = (each for row in trace.rows for frame in row.frames for each in frame.told)
    mine = [each for each in told if each.get("rid") == command["rid"]]
    said = mine[0].get("message") if mine else None
    if command["max_new"] < 1 or not command["tokens"]:
        return "max_tokens is below 1, or the prompt is empty"
    early = ("max_tokens must be", "the prompt is empty", "a prompt of up to", "the session is not")
    return said if said and said.startswith(early) else None


def _folder(packed: str, beside: str) -> Path:
    """Where a harness is: in a checkout it lies beside the scripts of the findings."""
    package = Path(__file__).parents[1]
    inside, checkout = package / packed, package.parents[1] / "docs" / "findings"
    return inside if inside.is_dir() else checkout / beside


SGLANG = _folder("scripts", "scripts")
VLLM = _folder("scripts_vllm", "scripts-vllm")
HARNESSES: Mapping[str, Harness] = {
    "sglang": Harness(
        "sglang",
        (SGLANG / "stubs.py", SGLANG / "harness.py", SGLANG / "rounds.py"),
        _sglang_arguments,
        _sglang_unlike,
        _sglang_call,
    ),
    "vllm": Harness(
        "vllm",
        (SGLANG / "stubs.py", VLLM / "harness.py"),
        _vllm_arguments,
        _vllm_unlike,
        _vllm_call,
    ),
}
