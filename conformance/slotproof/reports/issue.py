"""A trace as a report for the engine's maintainers, who know nothing of this suite: what is
expected and seen, how to see it with the engine alone, and whether a client can get there.

It is text to be pasted. Nothing is posted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slotproof.lockstep.observation import causes_first
from slotproof.protocol.commands import describe
from slotproof.protocol.family import Harness
from slotproof.reports import alone, sentences
from slotproof.reports.alone import scrubbed
from slotproof.reports.calls import harness_of
from slotproof.reports.markdown import details, fenced
from slotproof.reports.view import View
from slotproof.support.markup import code, text
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
    return "\n".join(_lines(view, releases)) + "\n"


def _lines(view: View, releases: Sequence[Elsewhere]) -> Iterator[str]:
    trace = view.trace
    family, harness = harness_of(trace)
    release = trace.identity.number
    first, *others = causes_first(trace.violations)
    yield from (f"# {text(scrubbed(f'{sentences.headline(view)} ({family.title} {release})'))}", "")
    yield from (f"**Expected:** {text(sentences.sentence(first))}", "")
    yield from (f"**Seen:** {text(scrubbed(first.detail))}", "")
    if others:
        yield from (f"- {text(scrubbed(each.detail))}" for each in others)
        yield ""
    yield from ("## What happens", "")
    yield from (f"{_configuration(trace, harness)}:", "")
    for number, row in enumerate(trace.rows, 1):
        yield f"{number}. {text(describe(row.command))}"
    yield ""
    yield from ("## With the engine alone", "")
    yield (
        "The scheduler on a CPU, with random weights and no sockets. The script below needs an "
        f"environment that has {family.title}, and nothing else. It makes these calls and prints "
        "the state after them. It ends with status 0, or with a traceback and 2 if a call raises."
    )
    yield from fenced(list(alone.finding(view)), "python")
    yield from details("The whole script", alone.render(view), "python")
    yield from ("## Releases", "")
    if releases:
        yield from ("| release | seen | with |", "|---|---|---|")
        for each in releases:
            yield f"| {code(each.release)} | {text(scrubbed(each.says))} | {text(each.versions)} |"
    else:
        yield text(f"Seen on {family.title} {release}; other releases were not tried.")
        yield "The script prints the versions of torch and Python."
    yield ""
    yield from ("## Through the API", "")
    if refused := objections(trace, harness):
        yield from ("Not all of it comes through the front end:", "")
        yield from (f"- {text(each)}" for each in refused)
    else:
        yield "Everything is what clients can send: the front end's checks let it pass."
    yield ""
    yield from ("## Words", "")
    done = {command["do"] for command in trace.commands}
    done |= {"max_new"} if "submit" in done else set()
    for word, means in harness.words.items():
        if word in done:
            yield f"- {code('scheduler iteration' if word == 'step' else word)}: {means}"


def _configuration(trace: Record, harness: Harness) -> str:
    config = trace.config
    also = {
        f"chunks of {config.chunk}": config.chunk,
        "overlap scheduling": config.overlap,
        f"speculation, {config.draft} steps": config.draft,
    }
    said = [f"P{config.size[1:]}", f"a context of {config.context_len}"]
    said += [f"{config.running} requests may run"]
    said += [f"{config.rows} rows"] if "rows" in harness.arguments else []
    return ", ".join([*said, *(name for name, on in also.items() if on)])


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
