"""The spec as a TLA+ module with several actors that share pages and rows.

The module models every actor in full. Each actor sees the sum of all other actors. Pages have
numbers, a row has entries, a lock is a set of pages. A model checker thus tests two abstractions of
the proofs: the frame and the arbitrary page. Counts must agree with pages. An actor at rest must
not lose its pages, locks or row. A test parses the module with a TLA+ parser, and compares guards,
effects and invariants with the spec.

Guards, effects, intervals of memory moves and invariants about counts come from the expression
trees. The effect of a move on numbered pages is written by hand in ``by_hand.tla``. ``by_hand.tla``
follows the text of ``memory.Move``, not of ``pages``, so ``by_hand.tla`` and ``pages`` check each
other. ``Kept`` is the set of rules of ``pages`` that restrict the choices.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from slotproof_model.exports.tla_formula import WORDS, at, bullets, identifier
from slotproof_model.spec import places, state
from slotproof_model.spec.expr import Expr, Var, variables
from slotproof_model.spec.invariant import Invariant, Kind, about
from slotproof_model.spec.memory import EMPTY, Move
from slotproof_model.spec.pages import span
from slotproof_model.spec.profiles import PROFILES, Choices
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec
from slotproof_model.text.idioms import KINDS, PHASES, Form, form, words_of
from slotproof_model.text.named import named

MODULE = "SlotproofActors"
BY_HAND = Path(__file__).with_name("by_hand.tla")
"""File of three parts: vocabulary, effect of moves on numbered pages, invariants of pages."""
_FIGURES = tuple(var for var in state.POOLS if var not in frozenset(state.TOTALS))
_FIELDS = {identifier(var.name) for var in (*_FIGURES, *state.ACTOR, *state.FRAME)}
_FACTS = {identifier(var.name) for var in state.this_step}
"""Fields of the record ``z``: facts about the step itself."""
_NAMED = {term.symbol for term in named() if not about(term.expr)}
_WORD = re.compile(r"\b([A-Za-z_]\w*)('?)")


def of_record(text: str) -> str:
    r"""Rewrite a TLA+ formula to read variables of the record ``x``, or of ``y`` if primed. Facts
    about the step are in the record ``z``.

    >>> of_record("slot_C <= Known /\\ width < req_A' /\\ step_at = Known")
    'x.slot_C <= Known(x) /\\ width < y.req_A /\\ z.step_at = Known(x)'
    """

    def swap(match: re.Match[str]) -> str:
        name, prime = match.groups()
        record = "y" if prime else "x"
        if name in _FIELDS:
            return f"{record}.{name}"
        if name in _FACTS:
            return f"z.{name}"
        return f"{name}({record})" if name in _NAMED else match[0]

    return _WORD.sub(swap, text)


def _list(expr: Expr, indent: int) -> list[str]:
    """Return the lines of a formula, written as a bulleted TLA+ list."""
    shape = form(expr)
    whole = shape if shape.shape == "and" else Form("and", (shape,))
    return [of_record(line) for line in bullets(whole, indent)]


def _term(expr: Expr, words: dict[int, str] | None = None) -> str:
    return of_record(at(form(expr, words or {}), 6))


def module(spec: Spec | None = None) -> str:
    """Return the text of ``SlotproofActors.tla``."""
    return "\n".join(_module(spec or Spec())) + "\n"


def _module(spec: Spec) -> Iterator[str]:
    by_hand = BY_HAND.read_text(encoding="utf-8").split("\\* ----\n")
    words, world, holds = (part.splitlines() for part in by_hand)
    yield f" MODULE {MODULE} ".center(78, "-")
    yield "EXTENDS Integers, FiniteSets, TLC"
    yield ""
    yield "(* The accounting of KV in an LLM serving engine, with several actors. Generated from"
    yield "   slotproof's model/ by `slotproof docs`: do not edit. Lengths are tokens. *)"
    yield ""
    yield "CONSTANTS"
    constants = ["P", *(identifier(var.name) for var in (*state.CONFIG, *state.TOTALS))]
    constants += ["Actors", "Kept", "Steps", "News", "Prompts", "Drafts"]
    constants += ["MaxHistory", "MaxOutput", "MaxTree", "Depth"]
    yield from ("  " + line for line in textwrap.wrap(", ".join(constants), 76))
    yield ""
    yield "VARIABLES pools, actors, pages, freerows, broken"
    yield "vars == <<pools, actors, pages, freerows, broken>>"
    yield ""
    for number, name in (*KINDS.items(), *PHASES.items()):
        yield f"{WORDS[name]} == {number}"
    yield f"NoRow == {state.NO_ROW}"
    yield from words
    for term in named():
        if term.symbol in _NAMED:
            yield f"{term.symbol}(x) =="
            yield from map(of_record, bullets(form(term.expr, name_it=False), 2))
    yield from _views()
    for pool in ("full", "swa"):
        position = Var("at")
        for name, make in (("InTree", places.in_tree), ("InOwn", places.in_own)):
            yield f"{name}_{pool}(x, at) =="
            yield from (f"  {line}" for line in _list(make(position, pool), 0))
    yield f"HasLock(x) == {_term(places.has_lock)}"
    yield from world
    invariants = [inv for inv in spec.invariants.values() if inv.kind is not Kind.HARNESS]
    for invariant in invariants:
        yield from _invariant(invariant)
    yield from _holding(invariants)
    yield from holds
    for transition in spec.transitions.values():
        yield from _transition(transition)
        yield ""
    yield from _behaviour(spec)
    yield "=" * 78


def _views() -> Iterator[str]:
    """Yield the definitions that build an actor's view and take it apart again."""
    actor = [identifier(var.name) for var in state.ACTOR]
    figures = [identifier(var.name) for var in _FIGURES]
    yield ""
    shared = {name.partition(".")[2]: _term(expr) for name, expr in state.CONTRIBUTIONS.items()}
    yield f"Share(x) == {_record(shared)}"
    shares = {identifier(name): name.partition(".")[2] for name in state.CONTRIBUTIONS}
    sums = [
        f"{field_} |-> {'Longest' if name == 'lock_max' else 'Sum'}"
        f"([b \\in others |-> share[b].{name}], others)"
        for field_, name in shares.items()
    ]
    parts = [f"{name} |-> pl.{name}" for name in figures]
    parts += [f"{name} |-> own.{name}" for name in actor]
    yield "View(pl, own, share, others) =="
    yield "  [" + ",\n   ".join([*parts, *sums]) + "]"
    yield "Shares == [b \\in Actors |-> Share(actors[b])]"
    yield "Seen(a, share) == View(pools, actors[a], share, Actors \\ {a})"
    yield f"OwnOf(y) == {_record({name: f'y.{name}' for name in actor})}"
    yield f"PoolsOf(y) == {_record({name: f'y.{name}' for name in figures})}"
    for head, first in (("Nobody", state.INITIAL), ("Alone(prompt)", state.alone(Var("prompt")))):
        values = {var.name: _term(first[var.name], words_of(var.name)) for var in state.ACTOR}
        yield f"{head} == {_record({identifier(name): text for name, text in values.items()})}"
    yield ""


def _record(fields: Mapping[str, str]) -> str:
    return f"[{', '.join(f'{name} |-> {text}' for name, text in fields.items())}]"


def in_module(invariant: Invariant) -> dict[str, Expr]:
    """Return the conjuncts that the module contains: all but those about an arbitrary page or row,
    which ``by_hand.tla`` checks for all pages and rows."""
    parts = invariant.conjuncts.items()
    return {name: expr for name, expr in parts if about(expr) not in ("page", "line")}


def arguments(invariant: Invariant) -> tuple[str, ...]:
    """Return the records that the invariant's operator takes: the state before, the state after,
    and the facts about the step."""
    if invariant.kind is Kind.STATE:
        return ("x",)
    return ("x", "y", "z") if "step" in map(about, invariant.conjuncts.values()) else ("x", "y")


def _invariant(invariant: Invariant) -> Iterator[str]:
    parts = in_module(invariant)
    if not parts:
        return
    yield f"{identifier(invariant.id)}({', '.join(arguments(invariant))}) =="
    for name, expr in parts.items():
        yield f"  \\* {name}"
        yield from _list(expr, 2)


def _holding(invariants: Iterable[Invariant]) -> Iterator[str]:
    """Yield the conjunction of all state invariants, and of all step invariants. Both conjunctions
    print the name of a failed invariant."""
    for kind, head in ((Kind.STATE, "StatesHold(x)"), (Kind.STEP, "StepHolds(x, y, z)")):
        yield f"{head} =="
        for invariant in invariants:
            if invariant.kind is kind and in_module(invariant):
                call = f"{identifier(invariant.id)}({', '.join(arguments(invariant))})"
                yield f'  /\\ {call} \\/ Not("{invariant.id}")'
    yield ""


# Transitions -------------------------------------------------------------------------

_DOMAINS = {
    "new": "News", "prompt": "Prompts", "sampled": "{0, 1}", "told": "{0, 1}", "row": "Lines",
    "ahead": "0 .. slack", "t": "0 .. width", "at": "0 .. width", "d": "Drafts", "k": "Drafts",
}  # fmt: skip


def _transition(transition: Transition) -> Iterator[str]:
    """Yield a transition's lines: guard conjuncts after their last parameter, then the effect."""
    order = {var.name: level for level, var in enumerate(transition.params, 1)}
    levels: list[dict[str, Expr]] = [{} for _ in range(len(order) + 1)]
    for conjunct, expr in transition.full_guard.items():
        level = max((order.get(name, 0) for name in variables(expr)), default=0)
        levels[level][conjunct] = expr
    yield f"\\* {transition.id}. {transition.sentence}"
    yield f"{identifier(transition.id)}(a, x) =="
    indent = 2
    for level, formulas in enumerate(levels):
        if level:
            name = transition.names[level - 1]
            domain = _DOMAINS.get(name, "SwaTokens" if name.startswith("swa_") else "Tokens")
            yield " " * indent + f"/\\ \\E {name} \\in {domain} :"
            indent += 3
        for conjunct, expr in formulas.items():
            yield f"{' ' * indent}\\* {conjunct}"
            yield from _list(expr, indent)
    pad = " " * indent
    effect = transition.full_effect
    new = [f"!.{identifier(n)} = {_term(e, words_of(n))}" for n, e in effect.items()]
    after = f"[x EXCEPT {', '.join(new)}]" if new else "x"
    yield f"{pad}/\\ LET y == {after} IN"
    yield f"{pad}   /\\ Within(y)"
    if transition.detaches:
        yield f"{pad}   /\\ \\E b \\in Actors \\ {{a}} :"
        yield f"{pad}        /\\ actors[b] = Nobody"
        yield f"{pad}        /\\ actors' = [actors EXCEPT ![a] = OwnOf(y), ![b] = Alone(prompt)]"
    elif transition.has_actor:
        yield f"{pad}   /\\ actors' = [actors EXCEPT ![a] = OwnOf(y)]"
    else:
        yield f"{pad}   /\\ actors' = actors"
    yield f"{pad}   /\\ pools' = PoolsOf(y)"
    facts = {identifier(name): _term(expr) for name, expr in transition.this_step.items()}
    yield f"{pad}   /\\ broken' = ~StepHolds(x, y, {_record(facts)})"
    yield from (f"{pad}   {line}" for line in _rows(transition))
    chosen = {pool: _moves(transition, pool) for pool in ("full", "swa")}
    yield f"{pad}   /\\ \\E one \\in {chosen['full']} :"
    yield f"{pad}      \\E two \\in IF has_swa THEN {chosen['swa']} ELSE {{pages.swa}} :"
    one, two = (
        f"Tidy({which}, a, y, InTree_{pool}, InOwn_{pool})" if transition.has_actor else which
        for pool, which in (("full", "one"), ("swa", "two"))
    )
    yield f"{pad}         pages' = [full |-> {one}, swa |-> {two}]"


def _rows(transition: Transition) -> Iterator[str]:
    """Yield the conjuncts about the row that the transition takes or frees."""
    lines = "freerows"
    for mem in transition.memory:
        length = _term(mem.full.hi)
        if mem.move is Move.TAKE_ROW:
            yield f'/\\ ({length} = 1 /\\ "fresh" \\in Kept) => row \\in freerows'
            lines = f"({lines} \\ (IF {length} = 1 THEN {{row}} ELSE {{}}))"
        elif mem.move is Move.GIVE_ROW:
            lines = f"({lines} \\cup (IF {length} = 1 THEN {{MyRow(x)}} ELSE {{}}))"
    yield f"/\\ freerows' = {lines}"


def _moves(transition: Transition, pool: str) -> str:
    """Return the TLA+ set of the possible pages of a pool after all memory moves."""
    possible = f"{{pages.{pool}}}"
    takes = any(mem.move is Move.LOCK for mem in transition.memory)
    for move, become in _SETS.items():
        for interval in (span(mem, pool) for mem in transition.memory if mem.move is move):
            if interval is not EMPTY:
                low, high, again = _term(interval.lo), _term(interval.hi), str(takes).upper()
                possible = become.format(
                    low=low, high=high, needs=f"InTree_{pool}", again=again
                ).replace("FOUND", f"l \\in {possible}")
    return possible


_SETS = {
    Move.FREE: "{{Freed(l, a, {low}, {high}) : FOUND}}",
    Move.TO_TREE: "{{Shared(l, a, {low}, {high}) : FOUND}}",
    Move.ALLOC: "{{Taken(l, a, {low}, Ceil({high})) : FOUND}}",
    Move.POINT: "UNION {{Pointed(l, a, {low}, {high}, y, {needs}) : FOUND}}",
    Move.EVICT: "UNION {{Evicted(l, {high}) : FOUND}}",
    Move.UNLOCK: "UNION {{Unlocked(l, a, {high}, y, {needs}, {again}) : FOUND}}",
    Move.LOCK: "UNION {{Locked(l, a, {high}, y, {needs}) : FOUND}}",
}
"""Possible pages of a pool after each kind of move, in the order of the moves."""


def _behaviour(spec: Spec) -> Iterator[str]:
    figures = {identifier(var.name): _term(state.INITIAL[var.name]) for var in _FIGURES}
    yield "Init =="
    yield f"  /\\ pools = {_record(figures)}"
    yield "  /\\ actors = [a \\in Actors |-> Nobody]"
    yield "  /\\ pages = [full |-> Empty(full_total), swa |-> Empty(swa_total)]"
    yield "  /\\ freerows = Lines"
    yield "  /\\ broken = FALSE"
    yield ""
    yield "Next =="
    yield "  LET share == Shares IN"
    yield "  \\/ \\E a \\in Actors : LET x == Seen(a, share) IN"
    for transition in spec.transitions.values():
        if transition.has_actor:
            yield f'       \\/ "{transition.id}" \\in Steps /\\ {identifier(transition.id)}(a, x)'
    for transition in spec.transitions.values():
        if not transition.has_actor:
            yield f'  \\/ /\\ "{transition.id}" \\in Steps'
            yield f"     /\\ {identifier(transition.id)}(0, View(pools, Nobody, share, Actors))"
    yield ""
    yield "Spec == Init /\\ [][Next]_vars"


# Small models ------------------------------------------------------------------------

PLAIN = (
    "T-PLAIN-SUBMIT", "T-MATCH", "T-REFUSE", "T-EXTEND", "T-INSERT", "T-PLAIN-FINISH",
    "T-PLAIN-RETRACT", "T-EVICT",
)  # fmt: skip
"""Transitions of requests without a session."""
RULES = ("covers", "first_pin", "found", "fresh", "last_pin", "released", "unpinned")
"""Rules of ``pages`` and ``lines`` that restrict the choices in TLA+."""


@dataclass(frozen=True)
class Bounds:
    """Bounds of a small model. Lengths are in tokens, but ``pages`` is in pages."""

    name: str
    actors: int
    pages: int
    rows: int
    width: int
    page_size: int = 1
    window: int = 0
    new: tuple[int, ...] = (1,)
    prompt: tuple[int, ...] = (1,)
    history: int = 1
    output: int = 0
    slack: int = 1
    tree: int = 9
    profile: str = "reference"
    choices: Choices = field(default_factory=Choices)
    """Choices that differ from the profile's."""
    reserve: int = 0
    depth: int = 99
    """Maximum number of steps from the initial state."""
    steps: tuple[str, ...] = tuple(TRANSITIONS)
    unruled: frozenset[str] = field(default_factory=frozenset)

    def constants(self) -> Mapping[str, object]:
        total = self.pages * self.page_size
        choices = {**PROFILES[self.profile].choices, **self.choices}
        flags = {name: bool(value) for name, value in choices.items() if name != "reserve"}
        known = {
            "P": self.page_size,
            "has_swa": self.window > 0,
            "W": self.window,
            "width": self.width,
            "reserve": self.reserve,
            "slack": self.slack,
            "batches": 2,
            "full_total": total,
            "swa_total": total if self.window else 0,
            "rows_total": self.rows,
            "Actors": _set(f"a{actor}" for actor in range(1, self.actors + 1)),
            "Kept": _set(f'"{rule}"' for rule in RULES if rule not in self.unruled),
            "Steps": _set(f'"{step}"' for step in self.steps),
            "News": _set(self.new),
            "Prompts": _set(self.prompt),
            "Drafts": "{0, 1}",
            "MaxHistory": self.history,
            "MaxOutput": self.output,
            "MaxTree": self.tree,
            "Depth": self.depth,
        }
        names = [identifier(var.name) for var in state.CONFIG]
        return {**{name: flags[name] for name in names if name in flags}, **known}

    def configuration(self) -> str:
        """Return the text of the model's ``.cfg``."""
        lines = ["\\* A small model for TLC: " + self.name, "SPECIFICATION Spec", "CONSTANTS"]
        for name, value in self.constants().items():
            lines.append(f"  {name} = {str(value).upper() if isinstance(value, bool) else value}")
        lines += [f"  a{actor} = a{actor}" for actor in range(1, self.actors + 1)]
        # TLC has no permutation of one actor.
        lines += ["SYMMETRY Permuted"] if self.actors > 1 else []
        return "\n".join([*lines, "CONSTRAINT Near", "INVARIANT Holds"]) + "\n"


def _set(members: Iterable[object]) -> str:
    return "{" + ", ".join(map(str, members)) + "}"


SMALL = Bounds(
    "three requests share prefixes", actors=3, pages=3, rows=2, width=2, prompt=(1, 2),
    slack=0, steps=PLAIN, tree=3, depth=12,
)  # fmt: skip
"""Small model, large enough to find an unlock that drops another actor's lock."""
