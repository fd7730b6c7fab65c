"""What an engine alone is asked to show a finding: of the clauses that were broken, the first that
its own objects, or what it tells its clients, can answer for."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from slotproof.conformance.lockstep.observation import Violation
from slotproof.conformance.traces.crash import crashed_at
from slotproof.conformance.traces.itf import NoForm
from slotproof.conformance.traces.scripted import literal
from slotproof.conformance.traces.view import View

LATER = 50
"""Iterations in which nothing more is sent, before a request counts as never answered."""
_PATH = re.compile(r"(?<![\w.:/\\])(?:~|[A-Za-z]:)?(?:[\\/]+[\w.@+~-]+){2,}")
RAISED = re.compile(r"([A-Za-z_]\w{0,99}): (.*)", re.DOTALL)


@dataclass(frozen=True)
class Question:
    """What is looked at in the end."""

    title: str
    expected: str
    seen: str
    look: tuple[str, ...]
    """The last lines of ``finding()``: they return what is wrong, or None."""
    raises: str = ""
    """The type of the exception that ends the scheduler."""
    figures: tuple[str, ...] = ()
    """Words of the engine that a reader may want to have explained."""
    iteration: int | None = None
    """Of the last command, where it was seen."""


def question(view: View, family: str) -> Question:
    """Raises :class:`NoForm` if nothing of what was broken can be asked of an engine alone."""
    for violation in view.trace.violations:
        for made in _asked(violation, view, family):
            return replace(made, title=scrubbed(made.title), seen=scrubbed(made.seen))
    broken = view.first.clause if view.first else "nothing"
    raise NoForm(f"an engine alone does not show that {broken} is broken")


def scrubbed(said: str) -> str:
    """Without paths of the machine it was seen on.

    >>> scrubbed("No such file: '/home/me/x/site-packages/sglang/a.py', 1/2 of s1")
    "No such file: 'sglang/a.py', 1/2 of s1"
    """

    def short(found: re.Match[str]) -> str:
        path = found[0].replace("\\", "/")
        return path.partition("-packages/")[2] or path.rpartition("/")[2]

    return _PATH.sub(short, said)


def _asked(violation: Violation, view: View, family: str) -> Iterator[Question]:
    """The question about it, if there is one."""
    name, conjunct, clause = violation.invariant, violation.conjunct, violation.clause
    rid = _rid(violation, view)
    if clause == "INV-ALIVE.crash":
        yield from _crash(violation, view)
    elif clause in _WAITS and rid:
        yield _unanswered(violation, rid)
    elif name == "INV-ANSWER" and conjunct in _ANSWERS and rid:
        yield _ANSWERS[conjunct](violation, rid)
    elif family == "sglang" and name.startswith("INV-SUM-"):
        if conjunct == "reported":
            yield _check(violation)
        elif conjunct == "equation" and not view.trace.config.window:
            yield _owned(violation, view.trace.config.total_tokens)
    elif family == "sglang" and clause in ("INV-ONCE.reported", "INV-CHECKER.alarm"):
        yield _check(violation)
    elif family == "sglang" and clause == "INV-ORDER.slot":
        yield from _order(violation, view)
    elif family == "sglang":
        yield from _figure(violation, view)


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


def catching(kind: str) -> tuple[str, ...]:
    """What follows the calls of which one raises it.

    >>> catching("AssertionError")[0], catching("OutOfBlocks")[0]
    ('except AssertionError as error:', 'except Exception as error:')
    """
    made = getattr(builtins, kind, None)
    known = isinstance(made, type) and issubclass(made, Exception)
    other = f'    if type(error).__name__ != "{kind}":', "        raise"
    return (
        f"except {kind if known else 'Exception'} as error:",
        *(() if known else other),
        f"    return f\"the scheduler ends: {kind}: {{' '.join(str(error).split())}}\"",
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
        f"{rid} is not answered, however long the scheduler runs. {violation.detail}",
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
        return Question(
            f"{rid} {words.format(most=most)} and gets {violation.engine}",
            expected,
            f"{rid} {words.format(most=most)} and gets {violation.engine}.",
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


# Figures -----------------------------------------------------------------------------------------

_SHOWN = {
    "INV-INFLIGHT.iff": "session.inflight",
    "INV-HISTORY.history": "session.history",
    "INV-COVER.idle": "slot.C",
}
"""Clauses that a difference from the spec shows, and in which variable."""

_LENGTHS = {"C": "kv_committed_len", "A": "kv_allocated_len", "Q": "cache_protected_len"}
_COUNTED = "The lengths count KV that was computed for the tokens there, and no other."


@dataclass(frozen=True)
class _Figure:
    """A variable of the spec, where an engine has it."""

    what: str
    where: str
    right: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Flag:
    """One that is so or not."""

    where: str
    wrongly: str
    """It is so, and should not be."""
    missing: str
    right: str
    words: tuple[str, ...]


_VARIABLES: dict[str, _Figure | _Flag] = {
    "session.inflight": _Flag(
        "engine.inflight({it})",
        "a turn of {name} counts as in flight, and none is",
        "a turn of {name} is in flight, and does not count as that",
        "A session is in flight exactly while one accepted turn of it is not over.",
        ("in flight",),
    ),
    "slot.holding": _Flag(
        "engine.slot({it})",
        "{name} has a slot, and should have none",
        "{name} has no slot, and should have one",
        "A session has a slot from the end of its first turn on.",
        ("slot",),
    ),
    "session.history": _Figure(
        "tokens that {name} remembers",
        "len(engine.history({it}) or ())",
        "A session remembers its finished turns: what was sent, and what was answered.",
        ("history",),
    ),
    **{
        f"slot.{key}": _Figure(
            f"{figure} of {{name}}'s slot",
            f'figure(engine.slot({{it}}), "{figure}")',
            _COUNTED,
            ("slot",),
        )
        for key, figure in _LENGTHS.items()
    },
    **{
        f"req.{key}": _Figure(
            f"{figure} of {{name}}", f'figure(engine.running()[{{it}}], "{figure}")', _COUNTED
        )
        for key, figure in _LENGTHS.items()
    },
}


def _figure(violation: Violation, view: View) -> Iterator[Question]:
    variable = _SHOWN.get(violation.clause, violation.variable)
    shown = _VARIABLES.get(variable or "")
    for each in view.steps[-1].differs:
        whom = each.get("rid" if str(variable).startswith("req.") else "session")
        same = each.get("variable") == variable and {"spec", "engine"} <= each.keys()
        if shown is None or whom is None or not same:
            continue
        if violation.clause == "INV-STEP.state" and violation.spec != each["spec"]:
            continue
        if variable == "slot.C" and each["engine"] > each["spec"]:
            yield _unwritten(whom, each["spec"], each["engine"], violation.iteration)
        elif isinstance(shown, _Flag):
            yield _of_flag(shown, whom, bool(each["spec"]), violation.iteration)
        else:
            yield _of_figure(shown, whom, each["spec"], each["engine"], violation.iteration)


def _of_flag(flag: _Flag, whom: str, wanted: bool, iteration: int | None) -> Question:
    wrong = (flag.missing if wanted else flag.wrongly).format(name=whom)
    look = (
        f"if {'not ' if wanted else ''}{flag.where.format(it=literal(whom))}:",
        f"    return {literal(wrong)}",
        "return None",
    )
    return Question(
        wrong[:1].upper() + wrong[1:],
        flag.right,
        f"After these steps {wrong}.",
        ('print("answers:", engine.answers)', *look),
        figures=flag.words,
        iteration=iteration,
    )


def _unwritten(whom: str, wanted: int, found: int, iteration: int | None) -> Question:
    """More is committed than was computed. Elsewhere a round may have computed it."""
    return Question(
        f"kv_committed_len of {whom}'s slot counts KV that nobody has written",
        _COUNTED,
        f"After these steps kv_committed_len of {whom}'s slot is {found}: {wanted} were computed.",
        (
            f"missing = engine.unwritten({literal(whom)})",
            'print("committed, and never written: positions", missing)',
            "if missing:",
            '    return f"positions {missing} count as committed, and nobody has written them"',
            "return None",
        ),
        figures=("slot",),
        iteration=iteration,
    )


def _of_figure(
    shown: _Figure, whom: str, wanted: int, found: int, iteration: int | None
) -> Question:
    what = shown.what.format(name=whom)
    return Question(
        f"{what}: {found}, where {wanted} is right",
        shown.right,
        f"After these steps {what}: {found}, where {wanted} is right.",
        (
            f"seen = {shown.where.format(it=literal(whom))}",
            f"print({literal(what + ':')}, seen)",
            f"if seen != {wanted}:",
            f'    return {literal(what + ": ")} + f"{{seen}} in place of {wanted}"',
            "return None",
        ),
        figures=shown.words,
        iteration=iteration,
    )
