"""SGLang's family record. Only slotproof imports this module: the driver runs without slotproof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from slotproof.protocol.commands import Command
from slotproof.protocol.family import Played, family

_ROUNDS = Version("0.5.15")
"""First release whose speculative rounds can be replayed by the standalone script of a trace."""
_BY_HAND = Version("0.5.12")
"""Last release for which the driver runs no speculative rounds."""


def _release(trace: Played) -> Version:
    return Version(trace.engine.partition(" ")[2])


def _rounds(trace: Played) -> dict[str, Any]:
    """Return the script's arguments for speculative rounds and the reserved share."""
    draft = trace.config.draft if _release(trace) > _BY_HAND else 0
    topk = trace.config.topk if draft else 0
    reserve = trace.config.reserve / 100
    return {"draft": draft, "topk": topk, "lucky": draft > 0, "reserve": reserve}


def _unlike(trace: Played) -> str | None:
    config = trace.config
    try:
        release = _release(trace)
    except InvalidVersion:
        return f"{trace.engine!r} names no release"
    if config.draft and _BY_HAND < release < _ROUNDS:
        return "the script can't run the speculative rounds of this release"
    if config.retract != "keep" or config.aligned_reuse:
        return "SGLang can't have the trace's configuration"
    if config.options:
        return f"the script has no server options, but the trace needs {config.options[0]}"
    return None


def _lacks(trace: Played, index: int) -> str | None:
    """Return the reason why the script can't replay a command, or None.

    Unlike the driver, the script retracts all requests at once, and aborts by ID prefix.
    """
    command = trace.rows[index].command
    if command["do"] == "abort":
        rid = command["rid"]
        sent = {row.command["rid"] for row in trace.rows if row.command["do"] == "submit"}
        if any(other != rid and other.startswith(rid) for other in sent):
            return f"an abort of {rid} aborts every request whose ID begins with {rid}"
    if command["do"] == "retract":
        before = trace.rows[index - 1].requests if index else {}
        running = [request for request in before.values() if request.get("phase") == "running"]
        if len(running) > 1 or not trace.states:
            return "the trace retracts one of several requests: the script can only retract all"
    return None


def _refuses(trace: Played, command: Command) -> str | None:
    """Return why `TokenizerManager` or `GenerateReqInput` refuses a turn's own tokens, or None."""
    tokens, new, context = len(command["tokens"]), command["max_new"], trace.config.context_len
    if tokens and tokens + new > context:
        return f"{tokens} tokens and {new} new tokens exceed the context of {context}"
    return None if tokens else "“input_ids cannot be empty”"


FAMILY = family(Path(__file__).parent, also=_rounds, unlike=_unlike, lacks=_lacks, refuses=_refuses)
