"""Deviations: transitions with an error, tried as explanations of a finding.

Candidates are the systematic mutants of a transition, and errors in several places. For example,
the transition has no effect or happens twice, or a memory move happens twice. Other candidates omit
several memory moves, or all new KV lengths of the slot or of the request. Further candidates lack a
bound, cut nothing, or replace one term by a wrong term everywhere. An explanation states how the
candidate differs from the right transition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import combinations, product

from slotproof_model.bugs.mutate import named_rewrites, of_transition
from slotproof_model.evaluation.evaluate import Params, Step, compile_step, steps
from slotproof_model.evaluation.layout import Vector
from slotproof_model.spec import state
from slotproof_model.spec.expr import App, Expr, Op, Operand, Sort, Var, variables
from slotproof_model.spec.memory import EMPTY, Interval, Mem, Move
from slotproof_model.spec.transition import Transition, assign
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.text import render
from slotproof_model.text.named import key

_PLAIN = {
    "nothing", "twice", "uncut", "drop-moves", "drop-slot-and", "drop-group", "move-twice",
    "unbounded", "drop-effect", "drop-move", "forget-pool", "drop-guard",
}  # fmt: skip
"""Kinds of deviation that leave out or repeat something. They rank before computation errors."""
_KV = ("row", "C", "A", "Q", "E", "locked")
_ACTOR = {var.name: var for var in state.ACTOR}
_VALUES = (state.session.history, state.req.prompt, state.known, *state.lengths(state.slot))
_WHOLE = ("sibling-effect", "sibling-memory", "also")
DEEP = 4
"""Maximum depth of a mutated place in a formula. Errors in deeper places take too long to explain.
"""
READABLE = 120
"""Maximum length of an explanation, in characters."""


@dataclass(frozen=True, eq=False)
class Deviation:
    """One way to carry out a transition wrongly."""

    name: str
    """Transition, kind of error and place: ``T-RESTORE/drop-move/0-free``."""
    transition: Transition
    said: str = ""
    """Explanation of the deviation. If empty, ``words`` computes the explanation."""
    times: int = 1

    @property
    def id(self) -> str:
        return self.transition.id

    @cached_property
    def words(self) -> str:
        """Explanation, such as ``T-REFUSE does not set slot.lent to false``."""
        return self.said or _sentence(right_one(self.id), self.transition)

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key: plainer explanations first."""
        kind = self.name.split("/")[1]
        order = 0 if kind in _PLAIN else 2 if kind in _WHOLE else 1
        return order, len(self.words)

    def step(self, page_size: int, lenient: bool = False) -> Step:
        """Compile the deviation. With ``lenient``, the guard consists only of conjuncts without
        parameters, because an engine's event may report forbidden parameters."""
        return _compiled(self, page_size, lenient)


@cache
def right_one(id_: str) -> Transition:
    """Return the transition as taken by an engine without ``keeps_slack``.

    Without ``keeps_slack``, a cut has a single length, so an error in the cut is one wrong term.
    Only one family of engines has ``keeps_slack``.

    >>> right_one("T-REFUSE") is TRANSITIONS["T-REFUSE"]
    True
    >>> print(render.moves(right_one("T-RESTORE"))[0].full)
    [⌈end⌉, ⌈slot.A⌉)
    """
    right = TRANSITIONS[id_]
    slack = state.config.keeps_slack
    for part in [term for expr in _formulas(right) for term in _parts(expr)]:
        if part.op is Op.ITE and slack.name in variables(part.args[0]):
            right = _everywhere(right, key(part), part.args[2])
    return right


@cache
def as_told(id_: str) -> Deviation:
    """Return the right transition as a deviation, to be compiled with a lenient guard."""
    return Deviation(f"{id_}/right/all", right_one(id_), id_)


@cache
def deviations(id_: str) -> dict[str, Deviation]:
    """Return all deviations of a transition, by name.

    >>> wrong = deviations("T-REFUSE")
    >>> wrong["T-REFUSE/drop-effect/slot.lent"].words
    'T-REFUSE does not set slot.lent to false'
    >>> wrong["T-REFUSE/twice/all"].words
    'T-REFUSE happens twice'
    """
    right = right_one(id_)
    nothing = replace(right, effect={}, memory=())
    candidates = [Deviation(f"{id_}/nothing/all", nothing, f"nothing of {id_} happens")]
    if right.memory:
        candidates.append(Deviation(f"{id_}/twice/all", right, f"{id_} happens twice", times=2))
    candidates += [
        Deviation(mutant.name, mutant.transition)
        for mutant in of_transition(right)
        if mutant.name.partition(":")[0].count(".") <= DEEP
    ]
    for more in (_forgetful, _again, _unbounded, _uncut, _throughout):
        candidates += more(right)
    return {candidate.name: candidate for candidate in candidates}


@lru_cache(8192)
def _compiled(deviation: Deviation, page_size: int, lenient: bool) -> Step:
    wrong = deviation.transition
    if lenient and wrong.guard is right_one(deviation.id).guard:
        wrong = replace(wrong, guard=_of_the_state(wrong))
    step = compile_step(wrong, page_size, like=steps(page_size)[deviation.id])
    if deviation.times == 1:
        return step

    def again(vector: Vector, params: Params) -> None:
        for _ in range(deviation.times):
            step.apply(vector, params)

    return replace(step, apply=again)


def _of_the_state(transition: Transition) -> dict[str, Expr]:
    """Return the guard conjuncts that use no parameter."""
    return {
        name: expr
        for name, expr in transition.guard.items()
        if not any(var.startswith("param.") for var in variables(expr))
    }


# Errors in several places


def _forgetful(right: Transition) -> Iterator[Deviation]:
    """Yield deviations that leave out several memory moves, or all changes of a group of fields."""
    count = len(right.memory)
    slotless = {n: expr for n, expr in right.effect.items() if not n.startswith("slot.")}
    for dropped in (c for n in range(1, count + 1) for c in combinations(range(count), n)):
        kept = tuple(mem for index, mem in enumerate(right.memory) if index not in dropped)
        wrong = replace(right, memory=kept)
        said = "; ".join(_memory(right, wrong)) if kept else "moves no memory"
        place = "-".join(map(str, dropped))
        if len(dropped) > 1:
            yield Deviation(f"{right.id}/drop-moves/{place}", wrong, f"{right.id} {said}")
        if len(slotless) < len(right.effect):
            words = f"{right.id} leaves the slot as it is; {said}"
            name = f"{right.id}/drop-slot-and/{place}"
            yield Deviation(name, replace(wrong, effect=slotless), words)
    for group in ("slot", "req"):
        fields = {f"{group}.{field}" for field in _KV}
        rest = {name: expr for name, expr in right.effect.items() if name not in fields}
        if len(rest) < len(right.effect) - 1:
            words = f"{right.id} leaves the KV that {group} describes as it is"
            yield Deviation(f"{right.id}/drop-group/{group}", replace(right, effect=rest), words)


def _again(right: Transition) -> Iterator[Deviation]:
    """Yield deviations in which one memory move happens twice."""
    for index, mem in enumerate(right.memory):
        wrong = replace(right, memory=(*right.memory, mem))
        words = f"{right.id} {_VERBS[mem.move][1]} {_spans(right, mem)} twice"
        yield Deviation(f"{right.id}/move-twice/{index}", wrong, words)


def _unbounded(right: Transition) -> Iterator[Deviation]:
    """Yield deviations in which a minimum or maximum lacks one argument: min(E, m) becomes E."""
    for name, expr in right.effect.items():
        if isinstance(expr, App) and expr.op in (Op.MIN, Op.MAX):
            for side, arg in enumerate(expr.args):
                wrong = replace(right, effect={**right.effect, name: arg})
                yield Deviation(f"{right.id}/unbounded/{name}.{side}", wrong)


def additions(id_: str, names: Sequence[str]) -> Iterator[Deviation]:
    """Yield deviations that also assign values to the named variables of the actor.

    >>> [wrong.words for wrong in additions("T-SUBMIT", ["session.history"])][0]
    'T-SUBMIT also sets session.history to 0'
    """
    right = right_one(id_)
    written = [_ACTOR.get(name) for name in names if name not in right.effect]
    variables_ = [var for var in written if var is not None]
    if len(variables_) < len(names) or not right.has_actor:
        return
    for values in product(*map(_values, variables_)):
        new = assign(*zip(variables_, values, strict=True))
        said = " and ".join(
            f"{render.symbol(name)} to {render.new_value(name, expr)}" for name, expr in new.items()
        )
        name = f"{id_}/also/{'-'.join(names)}:{said}"
        wrong = replace(right, effect={**right.effect, **new})
        yield Deviation(name, wrong, f"{id_} also sets {said}")


def _values(var: Var) -> tuple[Operand, ...]:
    if var.sort is Sort.BOOL:
        return (False, True)
    return (0, *(term for term in _VALUES if term is not var))


# Terms that are wrong in every place -----------------------------------------------


def _uncut(right: Transition) -> Iterator[Deviation]:
    """Yield the deviation that cuts nothing: in a transition that cuts A to m, A replaces m."""
    for mem in right.memory:
        ends = (mem.full.lo, mem.full.hi)
        if mem.move is Move.FREE and all(isinstance(e, App) and e.op is Op.CEIL for e in ends):
            m, kept = (end.args[0] for end in ends if isinstance(end, App))
            if isinstance(m, App):
                words = f"{right.id} cuts nothing: {render.formula(kept)} stays as it is"
                yield Deviation(f"{right.id}/uncut/all", _everywhere(right, key(m), kept), words)


def _throughout(right: Transition) -> Iterator[Deviation]:
    params = {var.name for var in right.params}
    seen: Counter[object] = Counter()
    terms: dict[object, App] = {}
    for expr in _formulas(right):
        for part in _parts(expr):
            seen[key(part)] += 1
            terms[key(part)] = part
    for number, (what, count) in enumerate(seen.items()):
        if count < 2:
            continue
        term = terms[what]
        for (kind, place), wrong in named_rewrites(term):
            if place.partition(":")[0].count(".") > 1:
                continue  # Deeper terms are candidates of their own.
            if not params >= {name for name in variables(wrong) if name.startswith("param.")}:
                continue
            mutated = _everywhere(right, what, wrong)
            words = f"{right.id} takes {render.formula(wrong)} for {render.formula(term)}"
            yield Deviation(f"{right.id}/throughout-{kind}/{number}{place}", mutated, words)


def _formulas(transition: Transition) -> Iterator[Expr]:
    yield from transition.guard.values()
    yield from transition.effect.values()
    for mem in transition.memory:
        for span in (mem.full, mem.swa):
            yield from (span.lo, span.hi)


def _parts(expr: Expr) -> Iterator[App]:
    """Yield the integer terms of an expression, starting with the whole expression."""
    if isinstance(expr, App):
        if expr.op not in (Op.EQ, Op.LE, Op.LT, Op.AND, Op.OR, Op.NOT):
            yield expr
        for arg in expr.args:
            yield from _parts(arg)


def _everywhere(transition: Transition, what: object, wrong: Expr) -> Transition:
    def swap(expr: Expr) -> Expr:
        if not isinstance(expr, App):
            return expr
        if key(expr) == what:
            return wrong
        return App(expr.op, tuple(map(swap, expr.args)))

    def moved(span: Interval) -> Interval:
        return span if span is EMPTY else Interval(swap(span.lo), swap(span.hi))

    return replace(
        transition,
        guard={name: swap(expr) for name, expr in transition.guard.items()},
        effect={name: swap(expr) for name, expr in transition.effect.items()},
        memory=tuple(Mem(mem.move, moved(mem.full), moved(mem.swa)) for mem in transition.memory),
    )


# In words ------------------------------------------------------------------------------

_VERBS = {
    Move.ALLOC: ("allocate", "allocates"),
    Move.FREE: ("free", "frees"),
    Move.TO_TREE: ("give the tree", "gives the tree"),
    Move.POINT: ("point the row to the tree at", "points the row to the tree at"),
    Move.LOCK: ("lock", "locks"),
    Move.UNLOCK: ("unlock", "unlocks"),
    Move.EVICT: ("evict", "evicts"),
    Move.TAKE_ROW: ("take a row,", "takes a row,"),
    Move.GIVE_ROW: ("give back the row,", "gives back the row,"),
}


def _sentence(right: Transition, wrong: Transition) -> str:
    for other in TRANSITIONS.values():
        if wrong.effect is other.effect and wrong.effect is not right.effect:
            return f"{right.id} makes of slot and request what {other.id} makes of them"
        if wrong.memory and wrong.memory is other.memory and wrong.memory is not right.memory:
            return f"{right.id} moves the memory that {other.id} moves"
    said = [*_guard(right, wrong), *_effect(right, wrong), *_memory(right, wrong)]
    return f"{right.id} " + "; ".join(said)


def _guard(right: Transition, wrong: Transition) -> Iterator[str]:
    for name, expr in right.guard.items():
        if wrong.guard.get(name) is expr:
            continue
        asks = f"“{name}”: {render.formula(expr)}"
        if name in wrong.guard:
            yield f"asks for {render.formula(wrong.guard[name])}, not for {asks}"
        else:
            yield f"does not ask for {asks}"


def _effect(right: Transition, wrong: Transition) -> Iterator[str]:
    for name, expr in right.effect.items():
        value = render.new_value(name, expr)
        if name not in wrong.effect:
            yield f"does not set {render.symbol(name)} to {value}"
        elif wrong.effect[name] is not expr:
            other = render.new_value(name, wrong.effect[name])
            yield f"sets {render.symbol(name)} to {other}, not to {value}"


def _memory(right: Transition, wrong: Transition) -> Iterator[str]:
    if len(wrong.memory) < len(right.memory):
        kept = {id(move) for move in wrong.memory}
        gone = [mem for mem in right.memory if id(mem) not in kept]
        yield from (f"does not {_VERBS[mem.move][0]} {_spans(right, mem)}" for mem in gone)
        return
    for was, now in zip(right.memory, wrong.memory, strict=True):
        if was is now:
            continue
        before, after = _spans(right, was, now), _spans(wrong, now, was)
        no, verb = _VERBS[was.move]
        yield f"{verb} {after}, not {before}" if after else f"does not {no} {before}"


def _spans(transition: Transition, mem: Mem, other: Mem | None = None) -> str:
    """Return the text of a move's intervals, or only of intervals that differ from ``other``."""
    at = next(i for i, move in enumerate(transition.memory) if move is mem)
    text = render.moves(transition)[at]
    if mem.move in (Move.TAKE_ROW, Move.GIVE_ROW):
        return text.full
    pools: dict[str, Callable[[Mem], Interval]] = {"full": lambda m: m.full, "swa": lambda m: m.swa}
    return ", ".join(
        f"{pool} {span}"
        for pool, span in (("full", text.full), ("swa", text.swa))
        if span and (other is None or pools[pool](mem) is not pools[pool](other))
    )
