"""A trace as Markdown, to be put into an issue or a pull request."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import TERMS, causes_first
from slotproof.reports import scripted, sentences
from slotproof.reports.localisation import Place, suspects
from slotproof.reports.step import Actor, Step
from slotproof.reports.text import LATER, again, as_if, in_all, last_said, later
from slotproof.reports.view import View
from slotproof.support.markup import code, text
from slotproof.support.terminal import plain


def render(view: View, path: str = "TRACE") -> str:
    """The whole document. ``path`` is the file to name in the replay line."""
    return "\n".join(_lines(view, path)) + "\n"


def _lines(view: View, path: str) -> Iterator[str]:
    trace, first = view.trace, view.first
    yield from (f"## {text(sentences.headline(view))}", "")
    if first is not None:
        at, where = in_all(trace).split(" ", 1)
        yield f"**{text(first.clause)}** is violated by {code(trace.identity.title)} {at} "
        yield from (f"{where}: *{text(sentences.sentence(first))}*", "")
        if sentences.detail(view):
            yield from (code(sentences.detail(view)), "")
        yield from (sentences.kind(view), "")
        yield from (f"- {text(line)}" for line in sentences.whose(view))
        yield ""
        if trace.explained is not None:
            yield from (as_if(trace), "")
            yield from (f"- {code(str(each))}" for each in trace.explained)
            yield from [""] * bool(trace.explained)
        yield from _where_to_look(view)
    if not trace.states:
        yield from ("The trace has no states; this makes them:", "")
        yield from fenced([f"{again(trace, path)} --out FILE"], "sh")
    yield from _table(view)
    yield ""
    if trace.violations:
        yield from (f"At {trace.recorded.where if trace.recorded else 'the last command'}:", "")
        for violation in causes_first(trace.violations):
            where = f" at {code(violation.transition)}" if violation.transition else ""
            yield f"- **{text(violation.clause)}**{where}: {code(violation.detail)}"
            yield from fenced(last_said(violation), "")
        yield ""
    if differs := [(step, each) for step in view.steps for each in step.differs]:
        yield from ("| step | field | spec | engine | last transition |", "|---|---|---|---|---|")
        for step, each in differs:
            cells = (code(each["what"]), _known(each, "spec"), _known(each, "engine"))
            yield f"| {step.label} | {' | '.join(cells)} | {code(each.get('at', '–'))} |"
        yield ""
    if trace.recorded is not None:
        if trace.recorded.later:
            yield from (LATER, "")
            yield from (f"- {code(line)}" for line in later(trace.recorded))
            yield ""
        yield from ("Not judged:", "")
        yield from (f"- {text(f'{it}: {why}')}" for it, why in trace.recorded.not_judged.items())
        yield ""
        yield f"P{trace.config.size[1:]}; profile {code(trace.profile)}, from a log."
        return
    yield from (f"P{trace.config.size[1:]}; seed {trace.seed}, profile {code(trace.profile)}.", "")
    yield from fenced([again(trace, path)], "sh")
    yield from details("The same as a pytest file", scripted.render(trace), "python")


def _where_to_look(view: View) -> Iterator[str]:
    if found := suspects(view):
        yield from ("Where to look:", "")
        for each in found:
            also = ", ".join(map(_place, each.also_places))
            rest = f"; {also} moved it too" if also else ""
            places = ", ".join(map(_place, each.places))
            yield f"- {code(each.why)}: {text(each.how)} {places}{rest}"
        yield ""


def _place(place: Place) -> str:
    methods = f" ({', '.join(map(code, place.methods))})" if place.methods else ""
    return code(place.event) + methods


def _table(view: View) -> Iterator[str]:
    terms = " + ".join(TERMS)
    yield f"| | command | transitions | {terms} | what changed |"
    yield "|--:|---|---|---|---|"
    for step in view.steps:
        if step.repeats:
            continue
        mark = "✗ " if step.violations else ""
        transitions = " ".join(
            f"**{text(arrow.label)}**" if arrow.bad else text(arrow.label)
            for arrow in step.arrows
            if arrow.label.startswith("T-")
        )
        sums = "<br>".join(_sums(step)) if step.ran and not step.frame.carried else ""
        changed = "<br>".join(map(_actor, step.changed)) if step.ran else ""
        if step.died:
            changed = "the engine is gone"
        says = code(step.says) + (f" and {step.like_it} more like it" if step.like_it else "")
        yield f"| {mark}{step.label} | {says} | {transitions} | {sums} | {changed} |"


def _sums(step: Step) -> Iterator[str]:
    several = len(step.pools) > 1
    for pool in step.pools:
        for line in pool.lines:
            yield text(f"{pool.name}: {line}" if several else line)


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


def fenced(lines: list[str], language: str) -> Iterator[str]:
    """A block of code that stays one, whatever is in it."""
    if not lines:
        return
    shown = [plain(line) for line in lines]
    fence = "```"
    while any(fence in line for line in shown):
        fence += "`"
    yield from ("", fence + language, *shown, fence, "")


def details(title: str, body: str, language: str) -> Iterator[str]:
    """The same, folded away."""
    yield from ("<details>", f"<summary>{title}</summary>")
    yield from fenced(body.rstrip("\n").split("\n"), language)
    yield from ("</details>", "")
