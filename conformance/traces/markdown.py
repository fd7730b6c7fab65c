"""A trace as Markdown, to be put into an issue or a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.conformance.markup import code, text
from slotproof.conformance.terminal import plain
from slotproof.conformance.traces import mermaid, scripted, words
from slotproof.conformance.traces.beats import TERMS, Actor, Beat
from slotproof.conformance.traces.places import places
from slotproof.conformance.traces.story import Story
from slotproof.conformance.traces.text import SAID, again, commands


def render(story: Story, path: str = "TRACE") -> str:
    """The whole document. ``path`` is the file to name in the replay line."""
    return "\n".join(_lines(story, path)) + "\n"


def _lines(story: Story, path: str) -> Iterator[str]:
    trace = story.trace
    first = story.first
    yield f"## {text(words.headline(story))}"
    yield ""
    if first is not None:
        yield f"**{text(first.clause)}** is violated by {code(trace.engine)} in "
        yield f"{commands(len(trace.rows))}: *{text(words.sentence(first))}*"
        yield ""
        if words.detail(story):
            yield code(words.detail(story))
            yield ""
        yield words.kind(story)
        yield ""
        for line in words.whose(story):
            yield f"- {text(line)}"
        yield ""
        yield from _where_to_look(story)
    yield from _table(story)
    yield ""
    if trace.violations:
        yield "At the last command:"
        yield ""
        for violation in trace.violations:
            where = f" at {code(violation.transition)}" if violation.transition else ""
            yield f"- **{text(violation.clause)}**{where}: {code(violation.detail)}"
            yield from _fenced(violation.said.splitlines()[-SAID:], "")
        yield ""
    differs = [(beat, each) for beat in story.beats for each in beat.differs]
    if differs:
        yield "| step | field | spec | engine | last transition |"
        yield "|---|---|---|---|---|"
        for beat, each in differs:
            cells = (code(each["what"]), _known(each, "spec"), _known(each, "engine"))
            yield f"| {beat.label} | {' | '.join(cells)} | {code(each.get('at', '–'))} |"
        yield ""
    config = trace.config
    yield (
        f"Page size {config.page_size}, pool of {config.total_tokens} tokens"
        + (
            f", sliding window {config.window} with {config.swa_tokens} tokens"
            if config.window
            else ""
        )
        + f"; seed {trace.seed}, profile {code(trace.profile)}."
    )
    yield ""
    yield from _fenced([again(trace, path)], "sh")
    yield from _details("Sequence diagram", mermaid.render(story), "mermaid")
    yield from _details("The same as a pytest file", scripted.render(trace), "python")


def _where_to_look(story: Story) -> Iterator[str]:
    found = places(story)
    if not found:
        return
    yield "Where to look:"
    yield ""
    for place in found:
        also = f"; {', '.join(map(code, place.also))} moved it too" if place.also else ""
        yield f"- {code(place.why)}: {text(place.how)} {', '.join(map(code, place.events))}{also}"
    yield ""


def _table(story: Story) -> Iterator[str]:
    terms = " + ".join(TERMS)
    yield f"| | command | transitions | {terms} | what changed |"
    yield "|--:|---|---|---|---|"
    for beat in story.beats:
        if beat.repeats:
            continue
        mark = "✗ " if beat.violations else ""
        transitions = " ".join(
            f"**{text(arrow.label)}**" if arrow.bad else text(arrow.label)
            for arrow in beat.arrows
            if arrow.label.startswith("T-")
        )
        sums = "<br>".join(_sums(beat)) if beat.ran else ""
        changed = "<br>".join(map(_actor, beat.changed)) if beat.ran else ""
        if beat.died:
            changed = "the engine is gone"
        says = code(beat.says) + (f" and {beat.like_it} more like it" if beat.like_it else "")
        yield f"| {mark}{beat.label} | {says} | {transitions} | {sums} | {changed} |"


def _sums(beat: Beat) -> Iterator[str]:
    several = len(beat.pools) > 1
    for pool in beat.pools:
        owned, reported = words.equation(pool, "ownership"), words.equation(pool, "check")
        name = f"{pool.name}: " if several else ""
        if reported:
            said = " (the engine's check)" if owned and owned != reported else ""
            yield text(f"{name}{reported}{said}")
        if owned and owned != reported:
            yield text(f"{name}{owned} (by ownership)")


def _actor(actor: Actor) -> str:
    if actor.fate == "gone":
        return f"{code(actor.title)} gone"
    shown = [field for field in actor.fields if field.changed or actor.fate == "new"]
    return f"{code(actor.title)} " + " ".join(
        f"{text(field.name)}={text(field.before)}→**{text(field.value)}**"
        if field.changed
        else f"{text(field.name)}={text(field.value)}"
        for field in shown
    )


def _known(each: dict[str, object], key: str) -> str:
    return text(str(each[key])) if key in each else "not there"


def _fenced(lines: list[str], language: str) -> Iterator[str]:
    if not lines:
        return
    shown = [plain(line) for line in lines]
    fence = "```"
    while any(fence in line for line in shown):
        fence += "`"
    yield ""
    yield fence + language
    yield from shown
    yield fence
    yield ""


def _details(title: str, body: str, language: str) -> Iterator[str]:
    yield "<details>"
    yield f"<summary>{title}</summary>"
    yield from _fenced(body.rstrip("\n").split("\n"), language)
    yield "</details>"
    yield ""
