"""Reading *mutate*: the spec with one error, to show that the proofs can fail.

Systematic mutants change one place of one transition. A guard conjunct or a field of the effect is
dropped, a minimum becomes a maximum, ``<`` becomes ``≤``. A rounding is missing, a bound is off by
one, a pool or a memory move is left out.

Other mutants confuse two things: a length and its neighbour (C and A, Q and E), slot and request,
counts of the two pools, two parameters. A rounding goes the wrong way, or one phase replaces
another. A transition has the effect or the memory moves of another transition of the same stage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from slotproof_model.spec import state
from slotproof_model.spec.expr import App, Const, Expr, Op, Sort, Var, lift, same, show, variables
from slotproof_model.spec.memory import EMPTY, Interval, Mem, Move
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.transitions import TRANSITIONS


@dataclass(frozen=True)
class Mutant:
    """One transition with one error."""

    name: str
    """Transition, kind of error and place: ``T-RESTORE/drop-guard/window``."""
    transition: Transition

    @property
    def id(self) -> str:
        return self.transition.id

    @property
    def kind(self) -> str:
        return self.name.split("/")[1]


def of_transition(transition: Transition) -> Iterator[Mutant]:
    """Yield every systematic mutant of one transition, in a fixed order."""
    return (mutant for mutant in _of(transition) if _own(mutant) or knows(mutant.transition))


def _of(t: Transition) -> Iterator[Mutant]:
    def named(kind: str, place: str, mutated: Transition) -> Mutant:
        return Mutant(f"{t.id}/{kind}/{place}", mutated)

    for name in t.guard:
        rest = {key: expr for key, expr in t.guard.items() if key != name}
        yield named("drop-guard", name, replace(t, guard=rest))
    for name in t.effect:
        rest = {key: expr for key, expr in t.effect.items() if key != name}
        yield named("drop-effect", name, replace(t, effect=rest))
    for index in range(len(t.memory)):
        move = t.memory[index].move.name.lower().replace("_", "-")
        kept = t.memory[:index] + t.memory[index + 1 :]
        yield named("drop-move", f"{index}-{move}", replace(t, memory=kept))
        for pool in ("full", "swa"):
            if t.memory[index].move not in (Move.TAKE_ROW, Move.GIVE_ROW):
                forgot = _on(t.memory[index], pool, EMPTY)
                yield named("forget-pool", f"{index}-{move}-{pool}", _with(t, index, forgot))
        for place, moved in _intervals(t.memory[index]):
            yield named(place[0], f"{index}-{move}-{place[1]}", _with(t, index, moved))
    for name, expr in t.guard.items():
        for place, changed in named_rewrites(expr):
            yield named(place[0], f"{name}{place[1]}", replace(t, guard={**t.guard, name: changed}))
    for name, expr in t.effect.items():
        for place, changed in named_rewrites(expr):
            mutated = replace(t, effect={**t.effect, name: changed})
            yield named(place[0], f"{name}{place[1]}", mutated)
    for part, other, mutated in sibling_parts(t):
        yield named(f"sibling-{part}", other, mutated)


def _on(mem: Mem, pool: str, interval: Interval) -> Mem:
    return replace(mem, full=interval) if pool == "full" else replace(mem, swa=interval)


def _with(t: Transition, index: int, mem: Mem) -> Transition:
    return replace(t, memory=(*t.memory[:index], mem, *t.memory[index + 1 :]))


Place = tuple[str, str]


def _intervals(mem: Mem) -> Iterator[tuple[Place, Mem]]:
    if mem.move not in (Move.ALLOC, Move.FREE, Move.TO_TREE, Move.POINT):
        return
    for pool in ("full", "swa"):
        interval: Interval = getattr(mem, pool)
        if interval is EMPTY:
            continue
        for end in ("lo", "hi"):
            for (kind, where), changed in named_rewrites(getattr(interval, end)):
                lo, hi = (changed, interval.hi) if end == "lo" else (interval.lo, changed)
                mutated = Interval(lo, hi)
                yield (kind, f"{pool}.{end}{where}"), _on(mem, pool, mutated)


_SWAPS: dict[str, Callable[[App], Expr | None]] = {
    "min-max": lambda app: _other(app, {Op.MIN: Op.MAX, Op.MAX: Op.MIN}),
    "less-or-equal": lambda app: _other(app, {Op.LE: Op.LT, Op.LT: Op.LE}),
    "forget-rounding": lambda app: app.args[0] if app.op in (Op.CEIL, Op.FLOOR) else None,
    "and-or": lambda app: _other(app, {Op.AND: Op.OR, Op.OR: Op.AND}),
    "drop-left": lambda app: app.args[1] if app.op is Op.AND else None,
    "drop-right": lambda app: app.args[0] if app.op is Op.AND else None,
    "branch": lambda app: app.args[1] if app.op is Op.ITE else None,
    "other-branch": lambda app: app.args[2] if app.op is Op.ITE else None,
}


_PLAIN = frozenset(
    {*_SWAPS, "off-by-one", *("drop-guard", "drop-effect", "drop-move", "forget-pool")}
)


def _own(mutant: Mutant) -> bool:
    """Return True if the mutant cannot contain a parameter of another transition."""
    return mutant.kind in _PLAIN or (mutant.kind == "instead" and "param." not in mutant.name)


def _other(app: App, table: dict[Op, Op]) -> Expr | None:
    return App(table[app.op], app.args) if app.op in table else None


def named_rewrites(expr: Expr, path: str = "") -> Iterator[tuple[Place, Expr]]:
    """Yield (kind and place of a change, expression with only this change)."""
    if not path and expr.sort is Sort.INT and not isinstance(expr, Const):
        yield ("off-by-one", ""), expr + 1
    for other in mistaken(expr):
        yield ("instead", f"{path}:{show(other)}"), other
    if not isinstance(expr, App):
        return
    for kind, swap in _SWAPS.items():
        changed = swap(expr)
        if changed is not None and changed.sort is expr.sort:
            yield (kind, path), changed
    for index, arg in enumerate(expr.args):
        for place, changed in named_rewrites(arg, f"{path}.{index}"):
            args = (*expr.args[:index], changed, *expr.args[index + 1 :])
            yield place, App(expr.op, args)


# Confusions -----------------------------------------------------------------------

_ALL = {var.name: var for var in (*state.STATE, *state.FRAME, *state.CONFIG)}
_NEIGHBOURS: dict[str, tuple[str, ...]] = {
    "C": ("A",), "A": ("C",), "Q": ("E", "C"), "E": ("Q",),
    "prompt": ("output",), "output": ("prompt",),
    "available": ("evictable",), "evictable": ("protected",), "protected": ("evictable",),
    "holding": ("lent",), "lent": ("holding",),
    "open": ("inflight",), "inflight": ("closing",), "closing": ("inflight",),
    "lock_max": ("lock_sum",), "lock_sum": ("lock_max",),
}  # fmt: skip
_COUNTERPARTS = (
    {"slot": "req", "req": "slot", "full": "swa", "swa": "full"},
    {"session.history": "req.prompt", "req.prompt": "session.history"},
    {"param.u": "param.swa_u", "param.swa_u": "param.u", "param.q": "param.dup"},
    {"param.locked": "param.swa_locked", "param.swa_locked": "param.locked"},
    {"param.swa_u": "param.swa_locked"},
    {"param.dup": "param.swa_dup", "param.swa_dup": "param.dup"},
    {"param.d": "param.k", "param.k": "param.d", "param.sampled": "param.k"},
)


def mistaken(expr: Expr) -> Iterator[Expr]:
    """Yield expressions that a programmer could write by mistake in place of ``expr``.

    >>> from slotproof_model.spec.expr import show
    >>> [show(expr) for expr in mistaken(state.slot.C)]
    ['slot.A', 'req.C']
    """
    if isinstance(expr, Var):
        names = dict.fromkeys(_others(expr.name))
        yield from (var for name in names if (var := _named(name, expr.sort)) is not None)
    elif isinstance(expr, App) and expr.op in (Op.CEIL, Op.FLOOR):
        yield App(Op.FLOOR if expr.op is Op.CEIL else Op.CEIL, expr.args)
    elif isinstance(expr, App) and expr.op is Op.EQ and same(expr.args[0], state.req.phase):
        for phase in state.PHASES.values():
            if not same(expr.args[1], lift(phase)):
                yield expr.args[0] == phase


def _others(name: str) -> Iterator[str]:
    group, _, field = name.partition(".")
    for neighbour in _NEIGHBOURS.get(field, ()):
        yield f"{group}.{neighbour}"
    for table in _COUNTERPARTS:
        if name in table:
            yield table[name]
        elif group in table:
            yield f"{table[group]}.{field}"


def _named(name: str, sort: Sort) -> Var | None:
    if name.startswith("param."):
        return Var(name)
    var = _ALL.get(name)
    return var if var is not None and var.sort is sort else None


def sibling_parts(transition: Transition) -> Iterator[tuple[str, str, Transition]]:
    """Yield (replaced part, ID of the transition that the part comes from, changed transition)."""
    for other in TRANSITIONS.values():
        if other is transition or other.stage != transition.stage:
            continue
        for part in ("effect", "memory"):
            mutated: Transition = replace(transition, **{part: getattr(other, part)})
            if getattr(transition, part) is not getattr(other, part):
                yield part, other.id, mutated


def knows(transition: Transition) -> bool:
    """Return True if the transition declares every parameter that its formulas use."""
    formulas = (*transition.full_guard.values(), *transition.full_effect.values())
    spoken = {name for expr in formulas for name in variables(expr) if name.startswith("param.")}
    return spoken <= {var.name for var in transition.params}
