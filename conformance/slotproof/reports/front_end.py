"""What an engine's front end, before its scheduler, would refuse of a trace's commands: who reads
a report wants to know whether a client can do this."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.protocol.commands import Command, describe
from slotproof.reports.calls import refused
from slotproof.traces.record import Record

NO_CLIENTS = {
    "evict": "eviction comes when memory runs short",
    "retract": "a retraction comes when memory runs short, or with a pause in mode “retract”",
    "accept": "what a round accepts the drafts decide",
}
"""Commands that no client can send, and when what they do happens in a server."""


def objections(trace: Record, engine: str) -> list[str]:
    """A line for each command that would not come that far; none if all do."""
    return list(_objections(trace, engine))


def _objections(trace: Record, engine: str) -> Iterator[str]:
    for row in trace.rows:
        command = row.command
        if command["do"] in NO_CLIENTS:
            yield f"{describe(command)}: no client sends it; {NO_CLIENTS[command['do']]}"
        if command["do"] == "submit":
            why = _REFUSES[engine](trace, command)
            if why:
                yield f"{command['rid']}: {why}"


def _sglang(trace: Record, command: Command) -> str | None:
    """As `TokenizerManager` and `GenerateReqInput` look at it: a turn by its own tokens."""
    tokens, context = len(command["tokens"]), trace.config.context_len
    if not tokens:
        return "refused, “input_ids cannot be empty”"
    if tokens >= context:
        return f"refused, {tokens} tokens are not less than the context of {context}"
    if tokens + command["max_new"] > context:
        asked = f"{tokens} tokens and {command['max_new']} new ones"
        return f"refused, {asked} are more than the context of {context}"
    return None


def _vllm(trace: Record, command: Command) -> str | None:
    """As `SamplingParams` and `InputProcessor` look at it."""
    tokens, context = len(command["tokens"]), trace.config.context_len
    if tokens >= context:
        return f"refused, {tokens} tokens are not less than the context of {context}"
    why = refused(trace, command)
    return f"refused, {why}; it is not in the script" if why else None


_REFUSES = {"sglang": _sglang, "vllm": _vllm}
