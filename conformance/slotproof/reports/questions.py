"""What an engine alone is asked to show a finding: of the clauses that were broken, the first that
its own objects, or what it tells its clients, can answer for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from slotproof.lockstep.observation import Violation
from slotproof.protocol.family import Harness
from slotproof.reports.asked import Question, scrubbed
from slotproof.reports.crash import crashed_at
from slotproof.reports.figures import figures
from slotproof.reports.scripted import literal
from slotproof.reports.view import View
from slotproof.traces.itf import NoForm

LATER = 50
"""Iterations in which nothing more is sent, before a request counts as never answered."""
RAISED = re.compile(r"([A-Za-z_]\w{0,99}): (.*)", re.DOTALL)


def question(view: View, harness: Harness) -> Question:
    """Raises :class:`NoForm` if nothing of what was broken can be asked of an engine alone."""
    for violation in view.trace.violations:
        for made in _asked(violation, view, harness):
            return replace(made, title=scrubbed(made.title), seen=scrubbed(made.seen))
    broken = view.first.clause if view.first else "nothing"
    raise NoForm(f"an engine alone does not show that {broken} is broken")


def _asked(violation: Violation, view: View, harness: Harness) -> Iterator[Question]:
    """The question about it, if there is one."""
    name, conjunct, clause = violation.invariant, violation.conjunct, violation.clause
    rid = _rid(violation, view)
    if clause == "INV-ALIVE.crash":
        yield from _crash(violation, view)
    elif clause in _WAITS and rid:
        yield _unanswered(violation, rid)
    elif name == "INV-ANSWER" and conjunct in _ANSWERS and rid:
        yield _ANSWERS[conjunct](violation, rid)
    elif not harness.shows_memory:
        return
    elif name.startswith("INV-SUM-"):
        if conjunct == "reported":
            yield _check(violation)
        elif conjunct == "equation" and not view.trace.config.window:
            yield _owned(violation, view.trace.config.total_tokens)
    elif clause in ("INV-ONCE.reported", "INV-CHECKER.alarm"):
        yield _check(violation)
    elif clause == "INV-ORDER.slot":
        yield from _order(violation, view)
    else:
        yield from figures(violation, view)


def _rid(violation: Violation, view: View) -> str | None:
    """The request it is about; of older traces the first word says it."""
    sent = {row.command["rid"] for row in view.trace.rows if row.command["do"] == "submit"}
    named = [violation.rid] if violation.rid else violation.detail.split()[:1]
    return next((each for each in named if each in sent), None)


def _crash(violation: Violation, view: View) -> Iterator[Question]:
    found = RAISED.match(violation.detail)
    if found is None or violation.fault not in (None, "death"):
        return
    kind, where = found[1], crashed_at(view.trace, violation)
    yield Question(
        f"The scheduler ends: {violation.detail}",
        "The scheduler goes on, and every request is answered.",
        f"{kind} ends the scheduler{f', at {where}' if where else ''}: {found[2]}",
        ('print("answers:", engine.answers)', "return None"),
        raises=kind,
    )


_WAITS = (
    "INV-PROGRESS.stalled",
    "INV-PROGRESS.starved",
    "INV-ANSWER.never_silent",
    "INV-TABLES.queued",
)


def _unanswered(violation: Violation, rid: str) -> Question:
    return Question(
        f"{rid} is never answered",
        "Every request that fits into an idle engine is answered in the end.",
        f"{rid} is not answered, however long the scheduler runs: "
        f"{violation.detail.partition(':')[0]}.",
        (
            f"engine.step({LATER})  # nothing more is sent",
            'print("answers:", engine.answers, "- waiting:", engine.waiting())',
            f"if {literal(rid)} in engine.answers:",
            "    return None",
            f"return {literal(f'{rid} is not answered, and nothing more is sent')}",
        ),
        figures=("waiting",),
        iteration=violation.iteration,
    )


def _got(
    test: str, words: str, expected: str, more: bool = False
) -> Callable[[Violation, str], Question]:
    """About the tokens that a request got, against those that it may get."""

    def made(violation: Violation, rid: str) -> Question:
        most = violation.spec or 0
        tokens = "1 token" if violation.engine == 1 else f"{violation.engine} tokens"
        seen = f"{rid} {words.format(most=most)} and gets {tokens}"
        return Question(
            seen,
            expected,
            f"{seen}.",
            (
                *((f"engine.step({LATER})  # nothing more is sent",) if more else ()),
                f"got = engine.tokens.get({literal(rid)}, [])",
                'print("answers:", engine.answers, "- tokens:", engine.tokens)',
                f"if len(got) {test} {most}:",
                f"    return {literal(f'{rid} gets tokens: ')} + str(len(got))",
                "return None",
            ),
            iteration=None if more else violation.iteration,
        )

    return made


def _unasked(violation: Violation, rid: str) -> Question:
    return Question(
        f"{rid} is aborted, and nobody asked for that",
        "A request is aborted if its client says so, or if it can't be served.",
        f"{rid} is aborted, and nobody asked for that. {violation.detail}",
        (
            'print("answers:", engine.answers)',
            f'if engine.answers.get({literal(rid)}, "").startswith("abort"):',
            f"    return {literal(f'{rid} is aborted unasked')}",
            "return None",
        ),
        iteration=violation.iteration,
    )


def _aborts(violation: Violation, rid: str) -> Question:
    return Question(
        f"The abort of {rid} is not carried out",
        "An abort is answered within some iterations.",
        violation.detail + ".",
        (
            'print("answers:", engine.answers)',
            f"if {literal(rid)} in engine.answers:",
            "    return None",
            f"return {literal(f'{rid} was aborted, and is not answered')}",
        ),
        iteration=violation.iteration,
    )


_ANSWERS: Mapping[str, Callable[[Violation, str], Question]] = {
    "most": _got(">", "asks for {most} tokens at most", "No answer has more tokens than max_new."),
    "length": _got(
        "!=",
        "asks for {most} tokens",
        "An answer that ends by length has max_new tokens.",
        more=True,
    ),
    "nothing": _got(">", "is refused", "A request that is refused gets no token."),
    "unasked": _unasked,
    "aborts": _aborts,
}


def _owned(violation: Violation, total: int) -> Question:
    owned = total if violation.engine is None else violation.engine
    wrong = abs(total - owned)
    how = "that nobody has" if owned < total else "with two owners"
    return Question(
        f"{wrong} KV token{'' if wrong == 1 else 's'} of {total} {how}",
        "Free KV, that of the prefix tree, of sessions' slots and of requests add up to the pool.",
        f"They add up to {owned} of {total} tokens.",
        (
            "owned = engine.owned()",
            'print("tokens, by whose they are:", owned)',
            f"if sum(owned.values()) != {total}:",
            f'    return f"{{sum(owned.values())}} of {total} tokens have an owner"',
            "return None",
        ),
        figures=("available", "tree", "slots", "requests"),
        iteration=violation.iteration,
    )


def _check(violation: Violation) -> Question:
    return Question(
        "The engine's own memory check raises an alarm",
        "The engine's own memory check finds nothing wrong.",
        f"It complains. {violation.detail}",
        (
            "said = engine.check()",
            'print("the engine\'s own check:", said)',
            'return None if said == "ok" else f"the engine\'s own check says: {said}"',
        ),
        figures=("check",),
        iteration=violation.iteration,
    )


def _order(violation: Violation, view: View) -> Iterator[Question]:
    for session, slot in view.steps[-1].frame.slots.items():
        lengths = [int(slot[name]) for name in "QCA"]
        if lengths == sorted(lengths):
            continue
        names = "cache_protected_len, kv_committed_len, kv_allocated_len"
        yield Question(
            f"The lengths of {session}'s slot contradict each other",
            f"Of a slot, {names.replace(', ', ' ≤ ')}.",
            f"{names} of {session}'s slot are {', '.join(map(str, lengths))}.",
            (
                f"slot = engine.slot({literal(session)})",
                f'names = "{names}".split(", ")',
                "lengths = [figure(slot, name) for name in names]",
                'print("the slot:", dict(zip(names, lengths)))',
                "if lengths != sorted(lengths):",
                '    return f"the lengths of the slot are {lengths}"',
                "return None",
            ),
            figures=("slot",),
            iteration=violation.iteration,
        )
