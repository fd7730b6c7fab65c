"""A trace as a report for the engine's maintainers, who know nothing of this suite: what is
expected and seen, how to see it with the engine alone, and whether a client can get there.

It is text to be pasted. Nothing is posted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slotproof.protocol.commands import describe
from slotproof.protocol.family import Harness
from slotproof.reports import alone
from slotproof.reports.asked import Question, scrubbed
from slotproof.reports.calls import harness_of
from slotproof.reports.front_end import objections
from slotproof.reports.markdown import details, fenced
from slotproof.reports.questions import question
from slotproof.reports.view import View
from slotproof.support.markup import code, text
from slotproof.traces.record import Record

FIGURES = {
    "waiting": "requests that are not answered while nothing runs",
    "available": "KV tokens that the allocator can give out",
    "tree": "KV tokens of the prefix tree, evictable or protected",
    "slots": "KV tokens that idle sessions' slots own: allocated less those of the tree",
    "requests": "the same of requests that run",
    "check": "the scheduler's memory check, idle and busy, as assertions",
    "slot": "what a streaming session keeps between turns, with its row and its lengths",
    "in flight": "the session's own flag that a turn of it is not over; 0.5.10 has none, and there "
    "it is whether one of its requests has not finished",
    "history": "what the session puts before the next turn's tokens",
}


@dataclass(frozen=True)
class Elsewhere:
    """What the trace does on a release whose environment is there."""

    release: str
    says: str
    versions: str = ""


def render(view: View, releases: Sequence[Elsewhere] = ()) -> str:
    """The whole report. Raises :class:`NoForm`."""
    family, harness = harness_of(view.trace)
    asked = question(view, harness)
    return "\n".join(_lines(view, family.title, harness, asked, releases)) + "\n"


def _lines(
    view: View, title: str, harness: Harness, asked: Question, releases: Sequence[Elsewhere]
) -> Iterator[str]:
    trace = view.trace
    release = trace.engine.partition(" ")[2]
    yield f"# {text(f'{asked.title} ({title} {release})')}"
    yield ""
    yield f"**Expected:** {text(asked.expected)}"
    yield ""
    yield f"**Seen:** {text(asked.seen)}"
    yield ""
    yield "## What happens"
    yield ""
    yield f"{_configuration(trace, harness)}:"
    yield ""
    for number, row in enumerate(trace.rows, 1):
        yield f"{number}. {text(describe(row.command))}"
    yield ""
    yield "## With the engine alone"
    yield ""
    yield (
        "The scheduler on a CPU, with random weights and no sockets. The script below needs an "
        f"environment that has {title}, and nothing else. It prints `BUG: …` and ends with "
        "status 1 where the bug is, `not seen` and 0 where it is not, 2 if anything else is wrong."
    )
    yield from fenced(list(alone.finding(trace, asked)), "python")
    yield from details("The whole script", alone.render(view), "python")
    yield "## Releases"
    yield ""
    yield from _releases(title, release, releases)
    yield ""
    yield "## Through the API"
    yield ""
    yield from _reachable(trace, harness)
    yield ""
    yield "## Words"
    yield ""
    yield from _legend(trace, harness, asked)


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


def _releases(title: str, release: str, found: Sequence[Elsewhere]) -> Iterator[str]:
    if not found:
        yield text(f"Seen on {title} {release}; other releases were not tried.")
        yield "The script prints the versions of torch and Python."
        return
    yield "| release | seen | with |"
    yield "|---|---|---|"
    for each in found:
        yield f"| {code(each.release)} | {text(scrubbed(each.says))} | {text(each.versions)} |"


def _reachable(trace: Record, harness: Harness) -> Iterator[str]:
    found = objections(trace, harness)
    if not found:
        yield "Everything is what clients can send: the front end's checks let it pass."
        return
    yield "Not all of it comes through the front end:"
    yield ""
    yield from (f"- {text(each)}" for each in found)


def _legend(trace: Record, harness: Harness, asked: Question) -> Iterator[str]:
    done = {row.command["do"] for row in trace.rows}
    done |= {"max_new"} if "submit" in done else set()
    for word, means in harness.words.items():
        if word in done:
            yield f"- {code('scheduler iteration' if word == 'step' else word)}: {means}"
    for word in asked.figures:
        yield f"- {code(word)}: {FIGURES[word]}"
