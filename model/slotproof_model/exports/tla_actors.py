r"""The spec as a TLA+ module with several actors, which share the pages and the rows.

In ``Slotproof.tla`` all other actors are constants. Here each is written out, and what an actor
sees of the others is their sum; pages have numbers, a row has entries, a lock is a set of pages. So
a model checker tests what the proofs take from the frame and from one arbitrary page: that figures
count pages, that an actor which stands still keeps its pages, its locks and its row.

Guards, effects, intervals of memory moves and invariants of figures come from the tree. What a move
does to named pages is written by hand, in :data:`WORLD`, from the words of ``memory.Move``, not
from ``pages``: the two are to agree. Which rules of ``pages`` the choices keep is a constant
(``Kept``).
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from slotproof_model.exports.tla_formula import WORDS, at, bullets, identifier, page_of
from slotproof_model.spec import places, state
from slotproof_model.spec.expr import Expr, Var, variables
from slotproof_model.spec.invariant import Invariant, Kind, about
from slotproof_model.spec.memory import EMPTY, Move
from slotproof_model.spec.pages import span
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec
from slotproof_model.text.idioms import KINDS, PHASES, Form, form, words_of
from slotproof_model.text.named import named

MODULE = "SlotproofActors"
_FIGURES = tuple(var for var in state.POOLS if var not in frozenset(state.TOTALS))
_FIELDS = {identifier(var.name) for var in (*_FIGURES, *state.ACTOR, *state.FRAME)}
_NAMED = {each.symbol for each in named() if not page_of(each.expr)}
_WORD = re.compile(r"\b([A-Za-z_]\w*)('?)")


def of_record(text: str) -> str:
    """Formulas of ``tla_formula`` about the record ``x``, with a prime about ``y``.

    >>> of_record("slot_C <= Known /\\\\ width < req_A'")
    'x.slot_C <= Known(x) /\\\\ width < y.req_A'
    """

    def swap(found: re.Match[str]) -> str:
        name, prime = found.groups()
        record = "y" if prime else "x"
        if name in _FIELDS:
            return f"{record}.{name}"
        return f"{name}({record})" if name in _NAMED else found[0]

    return _WORD.sub(swap, text)


def _list(expr: Expr, indent: int) -> list[str]:
    """A formula as bullets."""
    shape = form(expr)
    whole = shape if shape.shape == "and" else Form("and", (shape,))
    return [of_record(line) for line in bullets(whole, indent)]


def _term(expr: Expr, words: dict[int, str] | None = None) -> str:
    return of_record(at(form(expr, words or {}), 6))


def module(spec: Spec | None = None) -> str:
    """The text of ``SlotproofActors.tla``."""
    return "\n".join(_module(spec or Spec())) + "\n"


def _module(spec: Spec) -> Iterator[str]:
    yield f" MODULE {MODULE} ".center(78, "-")
    yield "EXTENDS Integers, FiniteSets, TLC"
    yield ""
    yield "(* The accounting of KV in an LLM serving engine, with several actors. Generated from"
    yield "   slotproof's model/ by `slotproof docs`: do not edit. Lengths are tokens. *)"
    yield ""
    yield "CONSTANTS"
    constants = ["P", *(identifier(var.name) for var in (*state.CONFIG, *state.TOTALS))]
    constants += [
        "Actors",
        "Kept",
        "Steps",
        "News",
        "Prompts",
        "Drafts",
        "MaxHistory",
        "MaxOutput",
        "MaxTree",
        "Depth",
    ]
    yield from ("  " + line for line in textwrap.wrap(", ".join(constants), 76))
    yield ""
    yield "VARIABLES pools, actors, pages, freerows, broken"
    yield "vars == <<pools, actors, pages, freerows, broken>>"
    yield ""
    for number, name in (*KINDS.items(), *PHASES.items()):
        yield f"{WORDS[name]} == {number}"
    yield f"NoRow == {state.NO_ROW}"
    yield from WORDS_BY_HAND.splitlines()
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
    yield from WORLD.splitlines()
    invariants = [each for each in spec.invariants.values() if each.kind is not Kind.HARNESS]
    for invariant in invariants:
        yield from _invariant(invariant)
    yield from _holding(invariants)
    yield from HOLDS.splitlines()
    for transition in spec.transitions.values():
        yield from _transition(transition)
        yield ""
    yield from _behaviour(spec)
    yield "=" * 78


def _views() -> Iterator[str]:
    """What an actor sees, and back."""
    actor = [identifier(var.name) for var in state.ACTOR]
    figures = [identifier(var.name) for var in _FIGURES]
    yield ""
    yield "Share(x) == [" + ", ".join(
        f"{name.partition('.')[2]} |-> {_term(expr)}" for name, expr in state.CONTRIBUTIONS.items()
    ) + "]"  # fmt: skip
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
    yield "OwnOf(y) == [" + ", ".join(f"{name} |-> y.{name}" for name in actor) + "]"
    yield "PoolsOf(y) == [" + ", ".join(f"{name} |-> y.{name}" for name in figures) + "]"
    yield "Nobody == [" + ", ".join(
        f"{identifier(var.name)} |-> {_term(state.INITIAL[var.name], words_of(var.name))}"
        for var in state.ACTOR
    ) + "]"  # fmt: skip
    alone = state.alone(Var("prompt"))
    yield "Alone(prompt) == [" + ", ".join(
        f"{identifier(var.name)} |-> {_term(alone[var.name], words_of(var.name))}"
        for var in state.ACTOR
    ) + "]"  # fmt: skip
    yield ""


def _invariant(invariant: Invariant) -> Iterator[str]:
    parts = [expr for expr in invariant.conjuncts.values() if not about(expr)]
    if not parts:
        return
    args = "x" if invariant.kind is Kind.STATE else "x, y"
    yield f"{identifier(invariant.id)}({args}) =="
    for expr in parts:
        yield from _list(expr, 2)


def _holding(invariants: Iterable[Invariant]) -> Iterator[str]:
    """All of them, of one actor and of one step; what does not hold is printed."""
    for kind, head, args in (
        (Kind.STATE, "StatesHold(x)", "x"),
        (Kind.STEP, "StepHolds(x, y)", "x, y"),
    ):
        yield f"{head} =="
        for each in invariants:
            if each.kind is kind and not all(map(about, each.conjuncts.values())):
                yield f'  /\\ {identifier(each.id)}({args}) \\/ Not("{each.id}")'
    yield ""


# Transitions -------------------------------------------------------------------------

_DOMAINS = {
    "new": "News", "prompt": "Prompts", "sampled": "{0, 1}", "row": "Lines", "t": "0 .. width",
    "d": "Drafts", "k": "Drafts", "F": "0 .. MaxOutput",
}  # fmt: skip


def _domain(name: str) -> str:
    if name in _DOMAINS:
        return _DOMAINS[name]
    return "SwaTokens" if name.startswith("swa_") else "Tokens"


def _transition(transition: Transition) -> Iterator[str]:
    """Its guard, conjunct by conjunct as soon as their parameters are chosen; then what it does."""
    order = {var.name: level for level, var in enumerate(transition.params, 1)}
    levels: list[list[Expr]] = [[] for _ in range(len(order) + 1)]
    for expr in transition.full_guard.values():
        levels[max((order.get(name, 0) for name in variables(expr)), default=0)].append(expr)
    yield f"\\* {transition.id}. {transition.sentence}"
    yield f"{identifier(transition.id)}(a, x) =="
    indent = 2
    for level, formulas in enumerate(levels):
        if level:
            name = transition.names[level - 1]
            yield " " * indent + f"/\\ \\E {name} \\in {_domain(name)} :"
            indent += 3
        for expr in formulas:
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
    yield f"{pad}   /\\ broken' = ~StepHolds(x, y)"
    yield from (f"{pad}   {line}" for line in _rows(transition))
    chosen = {pool: _moves(transition, pool) for pool in ("full", "swa")}
    yield f"{pad}   /\\ \\E one \\in {chosen['full']} :"
    yield f"{pad}      \\E two \\in IF has_swa THEN {chosen['swa']} ELSE {{pages.swa}} :"
    tidy = [
        f"{pool} |-> Tidy(one_, a, y, InTree_{pool}, InOwn_{pool})".replace("one_", which)
        for pool, which in (("full", "one"), ("swa", "two"))
    ]
    kept = ["full |-> one", "swa |-> two"]
    yield f"{pad}         pages' = [{', '.join(tidy if transition.has_actor else kept)}]"


def _rows(transition: Transition) -> Iterator[str]:
    """Rows that are taken and given back."""
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
    """The set of what may become of the pages of a pool: each move in turn."""
    found = f"{{pages.{pool}}}"
    inside = f"InTree_{pool}"
    takes = any(mem.move is Move.LOCK for mem in transition.memory)
    for mem in sorted(transition.memory, key=lambda each: _ORDER[each.move]):
        interval = span(mem, pool)
        if interval is EMPTY or mem.move in (Move.TAKE_ROW, Move.GIVE_ROW):
            continue
        low, high = _term(interval.lo), _term(interval.hi)
        match mem.move:
            case Move.FREE:
                found = f"{{Freed(l, a, {low}, {high}) : l \\in {found}}}"
            case Move.TO_TREE:
                found = f"{{Shared(l, a, {low}, {high}) : l \\in {found}}}"
            case Move.ALLOC:
                found = f"{{Taken(l, a, {low}, Ceil({high})) : l \\in {found}}}"
            case Move.POINT:
                found = f"UNION {{Pointed(l, a, {low}, {high}, y, {inside}) : l \\in {found}}}"
            case Move.LOCK:
                found = f"UNION {{Locked(l, a, {high}, y, {inside}) : l \\in {found}}}"
            case Move.UNLOCK:
                again = "TRUE" if takes else "FALSE"
                found = f"UNION {{Unlocked(l, a, {high}, y, {inside}, {again}) : l \\in {found}}}"
            case Move.EVICT:
                found = f"UNION {{Evicted(l, {high}) : l \\in {found}}}"
    return found


_ORDER = {
    each: index
    for index, each in enumerate(
        (Move.FREE, Move.TO_TREE, Move.ALLOC, Move.POINT, Move.EVICT, Move.UNLOCK, Move.LOCK,
         Move.TAKE_ROW, Move.GIVE_ROW)
    )
}  # fmt: skip


def _behaviour(spec: Spec) -> Iterator[str]:
    figures = ", ".join(
        f"{identifier(var.name)} |-> {_term(state.INITIAL[var.name])}" for var in _FIGURES
    )
    yield "Init =="
    yield f"  /\\ pools = [{figures}]"
    yield "  /\\ actors = [a \\in Actors |-> Nobody]"
    yield "  /\\ pages = [full |-> Empty(full_total), swa |-> Empty(swa_total)]"
    yield "  /\\ freerows = Lines"
    yield "  /\\ broken = FALSE"
    yield ""
    yield "Next =="
    yield "  LET share == Shares IN"
    yield "  \\/ \\E a \\in Actors : LET x == Seen(a, share) IN"
    for each in spec.transitions.values():
        if each.has_actor:
            yield f'       \\/ "{each.id}" \\in Steps /\\ {identifier(each.id)}(a, x)'
    for each in spec.transitions.values():
        if not each.has_actor:
            yield f'  \\/ /\\ "{each.id}" \\in Steps'
            yield f"     /\\ {identifier(each.id)}(0, View(pools, Nobody, share, Actors))"
    yield ""
    yield "Spec == Init /\\ [][Next]_vars"


WORDS_BY_HAND = r"""
Min(a, b) == IF a <= b THEN a ELSE b
Max(a, b) == IF a >= b THEN a ELSE b
IfSwa(n) == IF has_swa THEN n ELSE 0
Floor(x) == (x \div P) * P
Ceil(x) == Floor(x + P - 1)
Aligned(x) == Floor(x) = x
Cut(n, E) == IF E <= n THEN n ELSE Floor(n)
Not(name) == PrintT(<<"does not hold", name>>) /\ FALSE

RECURSIVE Sum(_, _)
Sum(f, S) == IF S = {} THEN 0 ELSE LET b == CHOOSE b \in S : TRUE IN f[b] + Sum(f, S \ {b})
RECURSIVE Longest(_, _)
Longest(f, S) ==
  IF S = {} THEN 0 ELSE LET b == CHOOSE b \in S : TRUE IN Max(f[b], Longest(f, S \ {b}))

Tokens == {n * P : n \in 0 .. (full_total \div P)}
SwaTokens == IF has_swa THEN Tokens ELSE {0}
Lines == 0 .. rows_total - 1
Places == {n * P : n \in 0 .. (width + P - 1) \div P}
"""
WORLD = r"""
(* Pages by number, of one pool. 0 is no page. An entry of a row that does not count is 0. *)

Empty(total) ==
  [free |-> 1 .. (total \div P), tree |-> {},
   row |-> [a \in Actors |-> [at \in Places |-> 0]], lock |-> [a \in Actors |-> {}]]
LockedBy(l, S) == UNION {l.lock[a] : a \in S}
Between(low, high) == {at \in Places : low <= at /\ at < high}
At(l, a, S) == {l.row[a][at] : at \in S} \ {0}
Lowest(S) == CHOOSE p \in S : \A each \in S : p <= each

\* the row's pages in [low, high) become free
Freed(l, a, low, high) ==
  LET S == Between(low, high) IN
  [l EXCEPT !.free = @ \cup At(l, a, S),
            !.row[a] = [at \in Places |-> IF at \in S THEN 0 ELSE l.row[a][at]]]
\* they become the tree's
Shared(l, a, low, high) == [l EXCEPT !.tree = @ \cup At(l, a, Between(low, high))]
\* free pages go to the row; one is as good as another
RECURSIVE Taken(_, _, _, _)
Taken(l, a, low, high) ==
  IF low >= high \/ l.free = {} THEN l
  ELSE LET p == Lowest(l.free) IN
       Taken([l EXCEPT !.free = @ \ {p}, !.row[a][low] = p], a, low + P, high)
\* the row points to pages of the tree: to each at most once, and wherever it needs one
Pointed(l, a, low, high, y, Needs(_, _)) ==
  LET S == Between(low, high)
      T == l.tree \ At(l, a, Places \ S)
  IN {[l EXCEPT !.row[a] = [at \in Places |-> IF at \in S THEN f[at] ELSE l.row[a][at]]] :
        f \in {f \in [S -> T \cup {0}] :
          /\ \A i \in S : (Needs(y, i) /\ "found" \in Kept) => f[i] # 0
          /\ \A i, j \in S : (i # j /\ f[i] # 0) => f[i] # f[j]}}
\* what the lock must cover, and what it may
Must(l, a, y, Needs(_, _)) == At(l, a, {at \in Places : Needs(y, at)}) \cap l.tree
May(l, a, y) == At(l, a, Between(0, OwnQ(y))) \cap l.tree
Locked(l, a, u, y, Needs(_, _)) ==
  LET must == IF "covers" \in Kept THEN Must(l, a, y, Needs) \ l.lock[a] ELSE {}
      others == LockedBy(l, Actors)
  IN {[l EXCEPT !.lock[a] = @ \cup D] :
        D \in {D \in SUBSET (May(l, a, y) \ l.lock[a]) :
          /\ must \subseteq D
          /\ "first_pin" \in Kept => u = P * Cardinality(D \ others)}}
\* the lock is dropped as a whole; an insert may drop what the window has left
Unlocked(l, a, u, y, Needs(_, _), again) ==
  LET others == LockedBy(l, Actors \ {a})
      gone == IF ~HasLock(y) THEN {IF "released" \in Kept THEN l.lock[a] ELSE {}}
              ELSE IF again THEN SUBSET (l.lock[a] \ Must(l, a, y, Needs)) ELSE {{}}
  IN {[l EXCEPT !.lock[a] = @ \ D] :
        D \in {D \in gone : "last_pin" \in Kept => u = P * Cardinality(D \ others)}}
\* the tree gives up pages that nobody locks
Evicted(l, n) ==
  LET T == IF "unpinned" \in Kept THEN l.tree \ LockedBy(l, Actors) ELSE l.tree IN
  {[l EXCEPT !.tree = @ \ E, !.free = @ \cup E] :
     E \in {E \in SUBSET T : P * Cardinality(E) = n}}
Tidy(l, a, y, Needs(_, _), Owns(_, _)) ==
  [l EXCEPT !.row[a] = [at \in Places |->
     IF \/ ActorHasKv(y) /\ (Needs(y, at) \/ Owns(y, at))
        \/ l.row[a][at] \in l.lock[a]
     THEN l.row[a][at] ELSE 0]]

MyRow(x) == IF HasKv(x) THEN x.req_row ELSE x.slot_row
RowsOf(x) == (IF x.slot_holding THEN {x.slot_row} ELSE {})
  \cup (IF HasKv(x) /\ ~x.slot_lent /\ x.req_row # NoRow THEN {x.req_row} ELSE {})

\* what the number of pages and the lengths of everybody say of a pool
PoolHolds(l, seen, total, available, evictable, protected, Needs(_, _), Owns(_, _)) ==
  LET owned == [a \in Actors |->
        IF ActorHasKv(seen[a]) THEN {at \in Places : Owns(seen[a], at)} ELSE {}]
      needed == [a \in Actors |->
        IF ActorHasKv(seen[a]) THEN {at \in Places : Needs(seen[a], at)} ELSE {}]
      all == LockedBy(l, Actors)
  IN
  /\ \/ /\ l.free \cup l.tree \cup UNION {At(l, a, owned[a]) : a \in Actors} = 1 .. (total \div P)
        /\ Cardinality(l.free) + Cardinality(l.tree)
             + Sum([a \in Actors |-> Cardinality(owned[a])], Actors) = total \div P
     \/ Not("INV-OWNER")
  /\ all \subseteq l.tree \/ Not("INV-PIN.tree")
  /\ \/ /\ available = P * Cardinality(l.free)
        /\ evictable = P * Cardinality(l.tree \ all)
        /\ protected = P * Cardinality(all)
     \/ Not("INV-PIN: figures")
  /\ \A a \in Actors :
     /\ \A at \in owned[a] \cup needed[a] : l.row[a][at] # 0 \/ Not("INV-BACKED")
     /\ At(l, a, needed[a]) \subseteq l.lock[a] \/ Not("INV-PIN.covers")
     /\ \/ l.lock[a] \subseteq At(l, a, Between(0, OwnQ(seen[a]))) \/ Not("INV-PIN.mine")
     /\ \/ \A i, j \in owned[a] \cup needed[a] : i # j => l.row[a][i] # l.row[a][j]
        \/ Not("INV-PLACE")

Within(y) ==
  /\ y.session_history <= MaxHistory
  /\ y.req_output <= MaxOutput
  /\ y.full_evictable + y.full_protected <= MaxTree
  /\ y.swa_evictable + y.swa_protected <= MaxTree

Near == TLCGet("level") <= Depth
Permuted == Permutations(Actors)
"""
HOLDS = r"""
Holds ==
  LET share == Shares
      seen == [a \in Actors |-> Seen(a, share)]
  IN
  /\ ~broken
  /\ \A a \in Actors : StatesHold(seen[a])
  /\ PoolHolds(pages.full, seen, full_total, pools.full_available, pools.full_evictable,
       pools.full_protected, InTree_full, InOwn_full)
  /\ has_swa => PoolHolds(pages.swa, seen, swa_total, pools.swa_available, pools.swa_evictable,
       pools.swa_protected, InTree_swa, InOwn_swa)
  /\ \/ /\ freerows \cup UNION {RowsOf(seen[a]) : a \in Actors} = Lines
        /\ Cardinality(freerows) = pools.rows_free
        /\ pools.rows_free + Sum([a \in Actors |-> Cardinality(RowsOf(seen[a]))], Actors)
             = rows_total
     \/ Not("INV-ROW")
"""


# Small models ------------------------------------------------------------------------

PLAIN = (
    "T-PLAIN-SUBMIT", "T-MATCH", "T-REFUSE", "T-EXTEND", "T-INSERT", "T-PLAIN-FINISH",
    "T-PLAIN-RETRACT", "T-EVICT",
)  # fmt: skip
"""What requests without a session go through."""
RULES = ("covers", "first_pin", "found", "fresh", "last_pin", "released", "unpinned")
"""Rules of ``pages`` and ``lines`` that the choices keep here."""


@dataclass(frozen=True)
class Bounds:
    """A small model: who is there, how much memory, and which numbers. Tokens but for ``pages``."""

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
    tree: int = 9
    profile: str = "reference"
    reserve: int = 0
    depth: int = 99
    """Steps from the initial state, at most."""
    steps: tuple[str, ...] = tuple(TRANSITIONS)
    unruled: frozenset[str] = field(default_factory=frozenset)

    def constants(self) -> Mapping[str, object]:
        total = self.pages * self.page_size
        choices = PROFILES[self.profile].choices
        flags = {name: bool(value) for name, value in choices.items() if name != "reserve"}
        known = {
            "P": self.page_size,
            "has_swa": self.window > 0,
            "W": self.window,
            "width": self.width,
            "reserve": self.reserve,
            "full_total": total,
            "swa_total": total if self.window else 0,
            "rows_total": self.rows,
            "Actors": "{" + ", ".join(f"a{each}" for each in range(1, self.actors + 1)) + "}",
            "Kept": _quoted(each for each in RULES if each not in self.unruled),
            "Steps": _quoted(self.steps),
            "News": _numbers(self.new),
            "Prompts": _numbers(self.prompt),
            "Drafts": "{0, 1}",
            "MaxHistory": self.history,
            "MaxOutput": self.output,
            "MaxTree": self.tree,
            "Depth": self.depth,
        }
        names = [identifier(var.name) for var in state.CONFIG]
        return {**{name: flags[name] for name in names if name in flags}, **known}

    def configuration(self) -> str:
        """The text of the model's ``.cfg``."""
        lines = ["\\* A small model for TLC: " + self.name, "SPECIFICATION Spec", "CONSTANTS"]
        for name, value in self.constants().items():
            lines.append(f"  {name} = {str(value).upper() if isinstance(value, bool) else value}")
        lines += [f"  a{each} = a{each}" for each in range(1, self.actors + 1)]
        lines += ["SYMMETRY Permuted"] if self.actors > 1 else []  # of one TLC knows no permutation
        return "\n".join([*lines, "CONSTRAINT Near", "INVARIANT Holds"]) + "\n"


def _quoted(names: Iterable[str]) -> str:
    return "{" + ", ".join(f'"{name}"' for name in names) + "}"


def _numbers(numbers: Iterable[int]) -> str:
    return "{" + ", ".join(map(str, numbers)) + "}"


SMALL = Bounds(
    "three requests share prefixes", actors=3, pages=3, rows=2, width=2, prompt=(1, 2),
    steps=PLAIN, tree=3, depth=12,
)  # fmt: skip
"""Enough for a lock that another one's unlock drops."""
