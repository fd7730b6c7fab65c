"""A trace as a report for the engine's maintainers, who know nothing of this suite: what is
expected and seen, how to see it with the engine alone, and whether a client can get there.

It is text to be pasted. Nothing is posted.
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
    "evict": "eviction comes when memory runs short",
    "retract": "a retraction comes when memory runs short, or with a pause in mode “retract”",
    "accept": "what a round accepts the drafts decide",
}
"""Commands that no client can send, and when what they do happens in a server."""


@dataclass(frozen=True)
class Elsewhere:
    """What the trace does on a release whose environment is there."""

    release: str
    says: str
    versions: str = ""


def render(view: View, releases: Sequence[Elsewhere] = ()) -> str:
    """Return the whole report. Raises :class:`NoForm`."""
    trace, config = view.trace, view.trace.config
    family, harness = harness_of(trace)
    first, *others = causes_first(trace.violations)
    used = {command["do"] for command in trace.commands}
    also = {
        f"{config.rows} rows": "rows" in harness.arguments,
        f"chunks of {config.chunk}": config.chunk,
        "overlap scheduling": config.overlap,
        f"speculation, {config.draft} steps": config.draft,
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
            f"{config.running} requests may run",
            *(name for name, on in also.items() if on),
        ],
        releases=releases,
        refused=objections(trace, harness),
        used=used | ({"max_new"} if "submit" in used else set()),
        sentences=sentences,
        alone=alone,
    )


def objections(trace: Record, harness: Harness) -> list[str]:
    """Return a line for each command that the front end, before its scheduler, would refuse."""
    found = []
    for command in trace.commands:
        if command["do"] in NO_CLIENTS:
            found += [f"{describe(command)}: no client sends it; {NO_CLIENTS[command['do']]}"]
        if command["do"] == "submit":
            tokens, context = len(command["tokens"]), trace.config.context_len
            why = harness.refuses(trace, command)
            if tokens >= context:
                why = f"{tokens} tokens are not less than the context of {context}"
            found += [f"{command['rid']}: refused, {why}"] if why else []
    return found
