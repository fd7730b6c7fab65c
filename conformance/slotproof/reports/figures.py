"""Questions about figures: flags, histories and lengths that the engine has in its own objects, and
that are not what the spec says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from slotproof.lockstep.observation import Violation
from slotproof.reports.asked import Question
from slotproof.reports.scripted import literal
from slotproof.reports.view import View

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

    says: str
    """Of a ``name``, with ``{n}`` where the figure stands."""
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
        "{name}'s history has length {n}",
        "len(engine.history({it}) or ())",
        "A session remembers its finished turns: what was sent, and what was answered.",
        ("history",),
    ),
    **{
        f"slot.{key}": _Figure(
            f"{figure} of {{name}}'s slot is {{n}}",
            f'figure(engine.slot({{it}}), "{figure}")',
            _COUNTED,
            ("slot",),
        )
        for key, figure in _LENGTHS.items()
    },
    **{
        f"req.{key}": _Figure(
            f"{figure} of {{name}} is {{n}}",
            f'figure(engine.running()[{{it}}], "{figure}")',
            _COUNTED,
        )
        for key, figure in _LENGTHS.items()
    },
}


def figures(violation: Violation, view: View) -> Iterator[Question]:
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
    before, _, after = shown.says.partition("{n}")
    before, after = before.format(name=whom), f"{after}, and should be {wanted}"
    return Question(
        f"{before}{found}{after}",
        shown.right,
        f"After these steps {before}{found}{after}.",
        (
            f"seen = {shown.where.format(it=literal(whom))}",
            f"if seen != {wanted}:",
            f"    return {literal(before)} + str(seen) + {literal(after)}",
            "return None",
        ),
        figures=shown.words,
        iteration=iteration,
    )
