"""SGLang's record. Only slotproof imports this module: the driver runs without slotproof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from slotproof.protocol.commands import Command
from slotproof.protocol.family import Played, family

_ROUNDS = Version("0.5.15")
"""The first release whose rounds the script can answer."""
_BY_HAND = Version("0.5.12")
"""Up to this one the driver has no rounds either."""


def _release(trace: Played) -> Version:
    return Version(trace.engine.partition(" ")[2])


def _rounds(trace: Played) -> dict[str, Any]:
    """Arguments that are no field of a configuration."""
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
        return "the rounds of this release can't be run by the script"
    if config.retract != "keep" or config.aligned_reuse:
        return "its configuration is not SGLang's"
    if config.options:
        return f"the script has no option of a server, and the trace needs {config.options[0]}"
    return None


def _lacks(trace: Played, index: int) -> str | None:
    """SGLang aborts whoever's id begins so, where the driver ends ids with a mark of its own.

    Of several requests the driver retracts one, and the harness all that run.
    """
    command = trace.rows[index].command
    if command["do"] == "abort":
        rid = command["rid"]
        sent = {row.command["rid"] for row in trace.rows if row.command["do"] == "submit"}
        if any(other != rid and other.startswith(rid) for other in sent):
            return f"an abort of {rid} aborts every request whose id begins so"
    if command["do"] == "retract":
        before = trace.rows[index - 1].requests if index else {}
        running = [each for each in before.values() if each.get("phase") == "running"]
        if len(running) > 1 or not trace.states:
            return "it retracts one of several requests, and the script can only retract all"
    return None


def _refuses(trace: Played, command: Command) -> str | None:
    """As `TokenizerManager` and `GenerateReqInput` look at it: a turn by its own tokens."""
    tokens, new, context = len(command["tokens"]), command["max_new"], trace.config.context_len
    if tokens and tokens + new > context:
        return f"{tokens} tokens and {new} new ones are more than the context of {context}"
    return None if tokens else "“input_ids cannot be empty”"


FAMILY = family(Path(__file__).parent, also=_rounds, unlike=_unlike, lacks=_lacks, refuses=_refuses)
