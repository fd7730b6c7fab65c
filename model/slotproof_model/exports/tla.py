r"""The spec as a TLA+ module, written from the same tree as everything else.

One session with its slot and its turn, or one request without a session; all other
actors are constants (the frame). The page layer is stated (``INV_OWNER``), not carried
along. A test reads the module back with a parser of TLA+ and evaluates it beside the spec.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from slotproof_model.exports.tla_formula import WORDS, at, bullets, call, identifier, page_of
from slotproof_model.spec import state
from slotproof_model.spec.expr import Expr, conj
from slotproof_model.spec.invariant import Invariant, Kind, pool_of
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.text.idioms import KINDS, PHASES, Form, form, words_of
from slotproof_model.text.named import named

MODULE = "Slotproof"
_GROUPS: tuple[tuple[str, str], ...] = (
    ("Pools", "full"), ("SwaPool", "swa"), ("Rows", "rows"), ("Session", "session"),
    ("Slot", "slot"), ("Request", "req"),
)  # fmt: skip


def _groups() -> dict[str, tuple[str, ...]]:
    """State variables by group; totals never change, so they are constants."""
    names = [var.name for var in state.STATE if var not in frozenset(state.TOTALS)]
    return {
        title: tuple(name for name in names if name.startswith(prefix + "."))
        for title, prefix in _GROUPS
    }


def module() -> str:
    """The text of ``Slotproof.tla``.

    >>> module().splitlines()[1]
    'EXTENDS Integers'
    """
    return "\n".join(_module()) + "\n"


def _module() -> Iterator[str]:
    yield f" MODULE {MODULE} ".center(78, "-")
    yield "EXTENDS Integers"
    yield ""
    yield from _comment(
        "The accounting of a session slot's KV in an LLM serving engine. Generated from "
        "slotproof's model/ by `slotproof docs`: do not edit. Lengths and figures are "
        "tokens. One session with its slot and turn, or one request without a session, is "
        "written out; all other actors are the constants frame_*, which no step changes."
    )
    yield ""
    yield "CONSTANTS"
    constants = ["P", "Tokens"]
    constants += [identifier(var.name) for var in (*state.CONFIG, *state.TOTALS, *state.FRAME)]
    yield from _wrapped(constants, "  ")
    yield ""
    groups = _groups()
    yield "VARIABLES"
    yield from _wrapped([identifier(name) for each in groups.values() for name in each], "  ")
    yield ""
    for title, names in groups.items():
        yield from _tuple(title, map(identifier, names))
    yield f"vars == <<{', '.join(groups)}>>"
    yield ""
    yield from _vocabulary()
    yield from _section("Terms with a name")
    for term in named():
        yield f"\\* {term.sentence}"
        yield f"{call(term)} =="
        yield from bullets(form(term.expr, name_it=False), 2)
        yield ""
    yield from _section("Transitions")
    for transition in TRANSITIONS.values():
        yield from _transition(transition, groups)
        yield ""
    yield from _behaviour(groups)
    yield from _section("Invariants of a state")
    of_state = [each for each in INVARIANTS.values() if each.kind is Kind.STATE]
    of_step = [each for each in INVARIANTS.values() if each.kind is Kind.STEP]
    for invariant in of_state:
        yield from _invariant(invariant)
    yield from _section("Invariants of a step")
    for invariant in of_step:
        yield from _invariant(invariant)
    yield "Steps =="
    yield "  [][" + " /\\ ".join(identifier(each.id) for each in of_step[:3])
    for start in range(3, len(of_step), 3):
        some = of_step[start : start + 3]
        yield "     /\\ " + " /\\ ".join(identifier(each.id) for each in some)
    yield "    ]_vars"
    yield "=" * 78


def _vocabulary() -> Iterator[str]:
    yield from _section("Words")
    for number, name in (*KINDS.items(), *PHASES.items()):
        yield f"{WORDS[name]} == {number}"
    yield f"NoRow == {state.NO_ROW}"
    yield ""
    yield "Min(a, b) == IF a <= b THEN a ELSE b"
    yield "Max(a, b) == IF a >= b THEN a ELSE b"
    yield "IfSwa(n) == IF has_swa THEN n ELSE 0"
    yield "Floor(x) == (x \\div P) * P"
    yield "Ceil(x) == Floor(x + P - 1)"
    yield "Aligned(x) == Floor(x) = x"
    yield "\\* keep n positions; inside a page that has given back its window's KV, whole pages"
    yield "Cut(n, E) == IF E <= n THEN n ELSE Floor(n)"
    yield ""


def _transition(transition: Transition, groups: dict[str, tuple[str, ...]]) -> Iterator[str]:
    sources = f" {transition.source}" if transition.source else ""
    yield from _comment(f"{transition.id}. {transition.sentence}{sources}")
    params = ", ".join(identifier(each.name) for each in transition.params)
    yield identifier(transition.id) + (f"({params})" if params else "") + " =="
    for name, expr in transition.full_guard.items():
        yield f"  \\* guard: {name}"
        yield from _conjunct(form(expr))
    effect = transition.full_effect
    if effect:
        yield "  \\* effect"
    for name, expr in effect.items():
        yield f"  /\\ {identifier(name)}' = {_value(name, expr)}"
    kept = _kept(effect, groups)
    if kept:
        lines = textwrap.wrap(", ".join(kept), 74)
        yield "  /\\ UNCHANGED <<" + ("\n" + " " * 18).join(lines) + ">>"
    if transition.detaches:
        yield f"  \\* a request goes on alone, another actor: {transition.detaches}"


def _value(name: str, expr: Expr) -> str:
    return at(form(expr, words_of(name)), 6)


def _conjunct(shape: Form) -> list[str]:
    """A conjunct of a transition as one or more bullets of its list."""
    if shape.shape == "and":
        return bullets(shape, 2)
    return bullets(Form("and", (shape,)), 2)


def _kept(effect: Iterable[str], groups: dict[str, tuple[str, ...]]) -> list[str]:
    written = set(effect)
    kept: list[str] = []
    for title, names in groups.items():
        free = [name for name in names if name not in written]
        kept += [title] if len(free) == len(names) else map(identifier, free)
    return kept


def _behaviour(groups: dict[str, tuple[str, ...]]) -> Iterator[str]:
    yield from _section("Behaviour")
    yield "Init =="
    for name in (name for names in groups.values() for name in names):
        yield f"  /\\ {identifier(name)} = {_value(name, state.INITIAL[name])}"
    yield ""
    yield "Next =="
    for transition in TRANSITIONS.values():
        names = [identifier(each.name) for each in transition.params]
        call = identifier(transition.id) + (f"({', '.join(names)})" if names else "")
        tokens = [name for name in names if name != "row"]
        bound = [f"{', '.join(tokens)} \\in Tokens"] if tokens else []
        bound += ["row \\in 0 .. rows_total - 1"] if "row" in names else []
        yield "  \\/ " + (f"\\E {', '.join(bound)} : {call}" if bound else call)
    yield ""
    yield "Spec == Init /\\ [][Next]_vars"
    yield ""


def _invariant(invariant: Invariant) -> Iterator[str]:
    yield from _comment(f"{invariant.id}. {invariant.sentence}")
    if not invariant.conjuncts:
        yield "\\* No formula: " + "; ".join(invariant.observed.values())
        yield ""
        return
    calls = {}
    for name, expr in invariant.conjuncts.items():
        page = page_of(expr)
        head = f"{identifier(invariant.id)}_{name}" + (f"({', '.join(page)})" if page else "")
        calls[name] = head
        yield f"{head} =="
        yield from bullets(form(expr), 2)
    page = page_of(conj(*invariant.conjuncts.values()))
    pools = ("full", "swa") if any(each.startswith("page_") for each in page) else ("",)
    for pool in pools:  # a page lies in one pool: some conjuncts are about the other
        mine = [each for name, each in calls.items() if not pool or pool_of(name) in (None, pool)]
        title = identifier(invariant.id) + (f"_of_{pool}" if pool else "")
        title += f"({', '.join(page)})" if page else ""
        yield f"{title} =="
        yield from (f"  /\\ {call}" for call in mine)
    yield ""


def _section(title: str) -> Iterator[str]:
    yield "-" * 78
    yield f"(* {title} *)"
    yield ""


def _comment(text: str) -> Iterator[str]:
    lines = textwrap.wrap(text, 72)
    for index, line in enumerate(lines):
        lead = "(* " if not index else "   "
        yield lead + line + (" *)" if index == len(lines) - 1 else "")


def _wrapped(names: Iterable[str], pad: str) -> list[str]:
    return [pad + line for line in textwrap.wrap(", ".join(names), 76)]


def _tuple(title: str, names: Iterable[str]) -> Iterator[str]:
    lines = textwrap.wrap(", ".join(names), 64)
    yield f"{title} == <<" + ("\n" + " " * (len(title) + 6)).join(lines) + ">>"


# A small model ----------------------------------------------------------------

_SMALL = {
    "P": 2, "Tokens": "{0, 1, 2}", "has_swa": False, "W": 0, "width": 3, "reserve": 1,
    "aligned_reuse": False, "retract_keeps": True, "abort_publishes": False, "overlap": False,
    "loan_publishes": False, "keeps_slack": False,
    "full_total": 4, "swa_total": 0, "rows_total": 1,
}  # fmt: skip


def configuration() -> str:
    """The text of ``Slotproof.cfg``: one session alone, two pages of two tokens.

    >>> "INVARIANT INV_ONCE" in configuration()
    True
    """
    values = {**_SMALL, **{identifier(var.name): 0 for var in state.FRAME}}
    lines = [
        "\\* A small model for TLC: one session alone, two pages of two tokens, one row.",
        "\\* Generated by `slotproof docs`: do not edit.",
        "SPECIFICATION Spec",
        "CONSTANTS",
    ]
    lines += [f"  {name} = {_literal(value)}" for name, value in values.items()]
    lines += [
        f"INVARIANT {identifier(each.id)}"
        for each in INVARIANTS.values()
        if each.kind is Kind.STATE
        and each.conjuncts
        and not any(map(page_of, each.conjuncts.values()))
    ]
    return "\n".join([*lines, "PROPERTY Steps"]) + "\n"


def _literal(value: object) -> str:
    return str(value).upper() if isinstance(value, bool) else str(value)
