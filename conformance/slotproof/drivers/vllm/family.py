"""vLLM's family record. Only slotproof imports this module: the driver runs without slotproof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slotproof.protocol.commands import Command
from slotproof.protocol.family import Played, family


def _unlike(trace: Played) -> str | None:
    if options := trace.config.options:
        return f"the script has no server options, but the trace needs {', '.join(options)}"
    drafts = trace.config.draft
    return "the trace's rounds accept some drafts, but the script accepts all" if drafts else None


def _also(trace: Played) -> dict[str, Any]:
    """Return the stages of the worker's pipeline. It runs without asynchronous scheduling."""
    batches = trace.config.batches
    return {"stages": batches, "ahead": False} if batches > 2 else {}


def _lacks(trace: Played, index: int) -> str | None:
    stops = trace.rows[index].command.get("stop")
    return "a turn has stop tokens, but the script's model samples other tokens" if stops else None


def _sent(trace: Played, index: int) -> Command | None:
    """Return the command to send, or None. A session is one request, sent with its first turn."""
    command: Command = trace.rows[index].command
    sent = [row.command for row in trace.rows[:index] if row.command["do"] == "submit"]
    match command["do"]:
        case "open" | "tick":
            return None
        case "close":
            sent_turn = any(turn["session"] == command["session"] for turn in sent)
            return command if sent_turn else None
        case "abort":
            session = next((turn["session"] for turn in sent if turn["rid"] == command["rid"]), "")
            return {**command, "rid": session or command["rid"]}
        case "submit" if _refuses(trace, command):
            return None
    return command


def _refuses(trace: Played, command: Command) -> str | None:
    """Return the recorded refusal by `SamplingParams` or `InputProcessor`, or None."""
    told = (note for row in trace.rows for frame in row.frames for note in frame.told)
    said = next((note.get("message") for note in told if note.get("rid") == command["rid"]), None)
    if command["max_new"] < 1 or not command["tokens"]:
        said = "max_tokens is below 1, or the prompt is empty"
    elif not said or not said.startswith(_EARLY):
        return None
    return f"{said}; the script omits the request"


_EARLY = ("max_tokens must be", "the prompt is empty", "a prompt of up to", "the session is not")
"""The driver's messages about requests that never reach the scheduler begin with these words."""

FAMILY = family(
    Path(__file__).parent, unlike=_unlike, lacks=_lacks, sent=_sent, refuses=_refuses, also=_also
)
