"""What an engine's front end, before its scheduler, would refuse of a trace's commands: who reads
a report wants to know whether a client can do this."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.protocol.commands import describe
from slotproof.protocol.family import Harness
from slotproof.traces.record import Record

NO_CLIENTS = {
    "evict": "eviction comes when memory runs short",
    "retract": "a retraction comes when memory runs short, or with a pause in mode “retract”",
    "accept": "what a round accepts the drafts decide",
}
"""Commands that no client can send, and when what they do happens in a server."""


def objections(trace: Record, harness: Harness) -> list[str]:
    """A line for each command that would not come that far; none if all do."""
    return list(_objections(trace, harness))


def _objections(trace: Record, harness: Harness) -> Iterator[str]:
    for row in trace.rows:
        command = row.command
        if command["do"] in NO_CLIENTS:
            yield f"{describe(command)}: no client sends it; {NO_CLIENTS[command['do']]}"
        if command["do"] == "submit":
            tokens, context = len(command["tokens"]), trace.config.context_len
            why = harness.refuses(trace, command)
            if tokens >= context:
                why = f"{tokens} tokens are not less than the context of {context}"
            if why:
                yield f"{command['rid']}: refused, {why}"
