"""A trace as a bug report for the engine's maintainers: expected and actual behavior, a script for
the engine alone, and the commands that clients can send.

The report is text to paste into an issue. slotproof posts nothing. Readers need not know slotproof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotproof.lockstep.observation import causes_first
from slotproof.protocol.commands import describe
from slotproof.protocol.family import Harness
from slotproof.reports import alone, sentences
from slotproof.reports.alone import harness_of
from slotproof.reports.view import View
from slotproof.support.markup import templates
from slotproof.traces.record import Record

NO_CLIENTS = {
    "evict": "the server evicts when memory is short",
    "retract": "the server retracts when memory is short, or on a pause in mode “retract”",
    "accept": "the draft tokens decide how many tokens a decoding round accepts",
}
"""Commands that no client can send, each with the situation in which a server acts so by itself."""


@dataclass(frozen=True)
class Elsewhere:
    """Result of running the trace on an installed release."""

    release: str
    says: str
    versions: str = ""


def render(view: View, releases: Sequence[Elsewhere] = ()) -> str:
    """Return the bug report. Raises :class:`NoForm`."""
    trace, config = view.trace, view.trace.config
    family, harness = harness_of(trace)
    first, *others = causes_first(trace.violations)
    used = {command["do"] for command in trace.commands}
    also = {
        f"{config.rows} rows": "rows" in harness.arguments,
        f"chunks of {config.chunk}": config.chunk,
        "overlap scheduling": config.overlap,
        f"speculative decoding with {config.draft} steps": config.draft,
    }
    environment = templates("reports")
    environment.filters |= {"scrubbed": alone.scrubbed, "describe": describe}
    return environment.get_template("issue.md.jinja").render(
        view=view,
        trace=trace,
        family=family,
        harness=harness,
        first=first,
        others=others,
        configuration=[
            f"P{config.size[1:]}",
            f"a context of {config.context_len}",
            f"at most {config.running} running requests",
            *(name for name, on in also.items() if on),
        ],
        releases=releases,
        refused=objections(trace, harness),
        used=used | ({"max_new"} if "submit" in used else set()),
        sentences=sentences,
        alone=alone,
    )


def objections(trace: Record, harness: Harness) -> list[str]:
    """Return a line for each command that no client can send, or that the front end refuses."""
    reasons = []
    for command in trace.commands:
        if command["do"] in NO_CLIENTS:
            reasons += [f"{describe(command)}: no client sends it; {NO_CLIENTS[command['do']]}"]
        if command["do"] == "submit":
            tokens, context = len(command["tokens"]), trace.config.context_len
            why = harness.refuses(trace, command)
            if tokens >= context:
                why = f"the prompt has {tokens} tokens, and must have fewer than {context}"
            reasons += [f"{command['rid']}: refused, {why}"] if why else []
    return reasons
