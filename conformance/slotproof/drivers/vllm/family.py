"""vLLM's record. Only slotproof imports this module: the driver runs without slotproof."""

from __future__ import annotations

from pathlib import Path

from slotproof.protocol.commands import Command
from slotproof.protocol.family import Played, family


def _unlike(trace: Played) -> str | None:
    drafts = trace.config.draft
    return "its rounds accept some drafts, and those of the script all" if drafts else None


def _lacks(trace: Played, index: int) -> str | None:
    stops = trace.rows[index].command.get("stop")
    return "it has stop tokens, and the script's model answers other tokens" if stops else None


def _sent(trace: Played, index: int) -> Command | None:
    """A session is one request to vLLM, there from its first turn on. None times out."""
    command: Command = trace.rows[index].command
    sent = [row.command for row in trace.rows[:index] if row.command["do"] == "submit"]
    match command["do"]:
        case "open" | "tick":
            return None
        case "close":
            there = any(turn["session"] == command["session"] for turn in sent)
            return command if there else None
        case "abort":
            session = next((turn["session"] for turn in sent if turn["rid"] == command["rid"]), "")
            return {**command, "rid": session or command["rid"]}
        case "submit" if _refuses(trace, command):
            return None
    return command


def _refuses(trace: Played, command: Command) -> str | None:
    """As `SamplingParams` and `InputProcessor` look at it, where the driver says that they do."""
    told = (each for row in trace.rows for frame in row.frames for each in frame.told)
    said = next((each.get("message") for each in told if each.get("rid") == command["rid"]), None)
    if command["max_new"] < 1 or not command["tokens"]:
        said = "max_tokens is below 1, or the prompt is empty"
    elif not said or not said.startswith(_EARLY):
        return None
    return f"{said}; it is not in the script"


_EARLY = ("max_tokens must be", "the prompt is empty", "a prompt of up to", "the session is not")
"""The driver's words for requests that never come to the scheduler begin so."""

FAMILY = family(Path(__file__).parent, unlike=_unlike, lacks=_lacks, sent=_sent, refuses=_refuses)
