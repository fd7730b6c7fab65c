"""Progress: from every state, each waiting request that fits alone can be answered.

The proof uses a rank. While any actor has KV or a slot, or the tree has an unlocked page, some
*helper* step of some actor is enabled and lowers the rank. The rank counts, in order of weight:
requests with KV, positions with KV ahead of the known tokens, slots, evictable tokens. At rank
zero all memory is free, and the waiting request can be matched and prefilled. Token by token, it
then gets its answer, and it ends. Each part of this argument is an obligation (:func:`tasks_of`)
about one arbitrary actor and its frame, and so holds for any number of actors. ``docs/proof.md``
lists four informal arguments.

``slotproof prove`` proves that a helper preserves the invariants of all actors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from slotproof_model.proofs.obligations import Goal, Result, Task, own_facts, primed
from slotproof_model.proofs.prove import Prover, Vacuity
from slotproof_model.spec import state
from slotproof_model.spec.expr import (
    FALSE,
    Expr,
    Sort,
    Var,
    ceil_page,
    conj,
    floor_page,
    iff,
    implies,
    ite,
    lift,
    maximum,
    minimum,
    substitute,
)
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.invariants import DERIVED, ENVIRONMENT
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.state import (
    MATCHED,
    WAITING,
    answering,
    begun,
    config,
    full,
    has_kv,
    is_plain,
    is_turn,
    known,
    req,
    rows,
    slot,
    swa,
)
from slotproof_model.spec.transition import Transition
from slotproof_model.spec.whole import Spec, conjuncts

NAME = "PROGRESS"

# The rank --------------------------------------------------------------------------

behind = has_kv & (known < req.C)
"""The KV is ahead of the request's known tokens: a result is outstanding (overlap scheduling)."""
SHARES: dict[str, Expr] = {
    "with_kv": ite(has_kv, 1, 0),
    "ahead": ite(has_kv, maximum(0, req.C - known), 0),
    "slots": ite(slot.holding, 1, 0),
}
"""One actor's share of the rank."""
OTHERS = {name: Var(f"others.{name}") for name in SHARES}
"""All other actors' shares of the rank."""
some = Var("others.some", Sort.BOOL)
"""True if some other actor has KV or a slot."""
holds_memory: Expr = has_kv | slot.holding
RANK: dict[str, Expr] = {
    **{name: OTHERS[name] + share for name, share in SHARES.items()},
    "evictable": full.evictable + swa.evictable,
}
"""Rank of the whole state, heaviest count first."""
SENTENCES = {
    "with_kv": "requests with KV",
    "ahead": "positions with KV ahead of the known tokens",
    "slots": "slots of sessions",
    "evictable": "unlocked tokens of the tree",
}
_one_more: dict[str, Expr] = {
    **{OTHERS[name].name: RANK[name] for name in SHARES},
    some.name: some | holds_memory,
}
_counted: dict[str, Expr] = {
    "counted": conj(*(n >= 0 for n in OTHERS.values())),
    "ahead": implies(OTHERS["with_kv"] == 0, OTHERS["ahead"] == 0),
    "some": iff(some, OTHERS["with_kv"] + OTHERS["slots"] >= 1),
    "nobody": implies(~some, conj(*(figure == 0 for figure in state.FRAME))),
}
"""Facts that relate other actors' counts to the frame, proved by adding one actor at a time."""


def less(now: Mapping[str, Expr], before: Mapping[str, Expr]) -> Expr:
    """Return the formula: ``now`` is lexicographically smaller than ``before``."""
    result: Expr = FALSE
    for name in reversed(list(before)):
        result = (now[name] < before[name]) | ((now[name] == before[name]) & result)
    return result


# Waiting requests ----------------------------------------------------------------------

answer = Var("answer.length")
"""Number of output tokens of the waiting request's whole answer."""
_needed: Expr = req.prompt + answer - 1
"""Number of positions that need KV. The last token of an answer needs none."""
_fits: dict[str, Expr] = {
    "fits": ceil_page(_needed) <= full.total,
    "fits_window": implies(config.swa, ceil_page(_needed) <= swa.total),
    "width": _needed <= config.width,
}
ADMISSIBLE: dict[str, Expr] = {
    "waits": req.phase == WAITING,
    "something": known >= 1,
    "answering": answering,
    "more": req.output < answer,
    **_fits,
    "row": rows.total >= 1,
}
"""Conditions for a waiting request that would fit alone with its answer. Progress means: the
request can be answered."""


# Helper steps --------------------------------------------------------------------------


@dataclass(frozen=True)
class Helper:
    """A transition that makes room, and the states in which the proof takes the transition."""

    id: str
    when: Expr
    params: Mapping[str, Expr]
    """Parameters fixed by the proof. An unlock's ``u`` is not fixed: the tree chooses it."""


_ONE_MORE_TOKEN: dict[str, Expr] = {"at": known, "k": lift(0), "sampled": lift(1), "told": lift(1)}
_PUBLISHED: dict[str, Expr] = {
    "q": floor_page(minimum(req.C, known)),
    "dup": lift(0),
    "swa_dup": lift(0),
}
_HELPERS: tuple[tuple[str, Expr, dict[str, Expr]], ...] = (
    ("T-RESULT", behind & answering, _ONE_MORE_TOKEN),
    ("T-REFUSE", req.phase == MATCHED, {}),
    ("T-RETRACT", is_turn & begun & ~behind & answering & config.retract_keeps, {}),
    ("T-RETRACT-WIPE", is_turn & begun & ~behind & answering & ~config.retract_keeps, {}),
    ("T-PLAIN-RETRACT", is_plain & begun & ~behind & answering, {}),
    ("T-SAVE", is_turn & ~answering, {}),
    ("T-PLAIN-FINISH", is_plain & ~answering, _PUBLISHED),
    ("T-DISCARD", slot.holding & ~has_kv, {}),
)
HELPERS = tuple(helper[0] for helper in _HELPERS)
"""Scheduler steps that take memory from an actor. The actor loses nothing but time."""
DISCARD = "T-DISCARD"
"""Some engines discard a slot only for its own turn. The theorem also needs discards that free
memory for another request."""
EVICT, MATCH, EXTEND = "T-EVICT", "T-MATCH", "T-EXTEND"
ENDS = ("T-SAVE", "T-PLAIN-FINISH")
STEPS = (*HELPERS, EVICT, MATCH, EXTEND, "T-DECODE", "T-LAUNCH")
"""All transitions used by the proof."""


def helpers(without: frozenset[str]) -> Iterator[Helper]:
    """Yield the available helpers. Without T-DISCARD, a slot is discarded for its own turn only."""
    for id_, when, params in _HELPERS:
        if id_ == DISCARD and id_ in without:
            yield Helper(id_, when & is_turn, params)
        elif id_ not in without:
            yield Helper(id_, when, params)


def able(spec: Spec, without: frozenset[str]) -> dict[str, Transition]:
    """Return the transitions that remain without the named helpers."""
    kept = {id_: step for id_, step in spec.transitions.items() if id_ not in without - {DISCARD}}
    if DISCARD in without:
        discard = spec.transitions[DISCARD]
        own = {**discard.guard, "own": is_turn}
        kept[DISCARD] = replace(discard, guard=own)
    return kept


def _enabled(spec: Spec, id_: str, params: Mapping[str, Expr]) -> list[Goal]:
    """Return one goal per guard conjunct: the conjunct holds with these parameters."""
    values = {f"param.{name}": expr for name, expr in params.items()}
    guard = spec.transitions[id_].full_guard
    return [Goal(f"ENABLED.{name}", substitute(expr, values)) for name, expr in guard.items()]


def _falls() -> list[Goal]:
    """Return the goals: the step lowers the rank, and no count becomes negative."""
    now = {name: primed(expr) for name, expr in RANK.items()}
    return [
        Goal("RANK.falls", less(now, RANK)),
        Goal("RANK.natural", conj(*(count >= 0 for count in now.values()))),
    ]


def _of_another(expr: Expr) -> Expr:
    """Return the formula with another actor's waiting request in place of ``req``."""
    return substitute(expr, {var.name: Var(f"waiting.{var.name}", var.of) for var in req})


def tasks_of(
    spec: Spec, without: frozenset[str] = frozenset(), profile: str | None = None
) -> Iterator[Task]:
    """Yield all tasks of the theorem, for every profile or for the named profile.

    ``without``: helper transitions that the engine lacks.
    """
    chosen = _choices(profile)
    base = {
        **conjuncts(spec, Kind.STATE),
        **{f"environment.{name}": expr for name, expr in {**ENVIRONMENT, **DERIVED}.items()},
        **{f"rank.{name}": expr for name, expr in _counted.items()},
        **chosen,
    }
    yield from _counting(spec)
    taken = [id_ for id_ in HELPERS if _possible(spec.transitions[id_], profile)]
    steps = [helper for helper in helpers(without) if helper.id in taken]
    covered: Expr = FALSE
    for helper in steps:
        covered = covered | helper.when
    waiting = {f"waiting.{name}": expr for name, expr in ADMISSIBLE.items()}
    yield Task(
        NAME, "cases", {**base, "case.mine": holds_memory}, {}, (Goal("CASES.covered", covered),)
    )
    for helper in steps:
        yield from _step(spec, helper, {**base, "case.when": helper.when})
    if EVICT not in without:
        evictable = {**base, "case.tree": full.evictable + swa.evictable >= 1}
        everything = {"n": full.evictable, "swa_n": swa.evictable}
        yield from _step(spec, Helper(EVICT, lift(True), everything), evictable)
    # Where the proof takes no helper step, the rank is zero.
    nobody = {"case.nobody": ~some & ~holds_memory}
    tree = {"case.tree": RANK["evictable"] == 0} if EVICT not in without else {}
    end = tuple(Goal(f"END.{name}", expr == 0) for name, expr in RANK.items())
    yield Task(NAME, "end", {**base, **nobody, **tree}, {}, end)
    zero = {f"rank.zero.{name}": expr == 0 for name, expr in RANK.items()}
    yield from _answering(spec, base, {**base, **waiting, **zero}, profile)


def _possible(transition: Transition, profile: str | None) -> bool:
    """Return True if the profile's choices allow the transition."""
    says = PROFILES[profile].choices if profile is not None else {}
    chosen = {f"config.{name}": value for name, value in says.items()}
    return all(chosen.get(name, value) == value for name, value in transition.choices.items())


def _choices(profile: str | None) -> dict[str, Expr]:
    if profile is None:
        return {}
    says = PROFILES[profile].choices
    known_ = {var.name.removeprefix("config."): var for var in state.CONFIG}
    return {
        f"profile.{name}": known_[name] == value for name, value in says.items() if name in known_
    }


def _counting(spec: Spec) -> Iterator[Task]:
    """Yield the tasks: counts and frame agree without actors, and with one more actor."""
    goals = tuple(Goal(f"COUNT.{name}", primed(expr)) for name, expr in _counted.items())
    nobody: dict[str, Expr] = {
        **{var.name: lift(0) for var in (*state.FRAME, *OTHERS.values())},
        some.name: FALSE,
    }
    yield Task(NAME, "nobody", {}, nobody, goals)
    known_ = {
        **own_facts(spec, (var.name for var in state.ACTOR)),
        **{f"environment.{name}": expr for name, expr in {**ENVIRONMENT, **DERIVED}.items()},
        **{f"rank.{name}": expr for name, expr in _counted.items()},
    }
    yield Task(NAME, "one more", known_, {**state.ONE_MORE, **_one_more}, goals)


def _step(spec: Spec, helper: Helper, hypotheses: dict[str, Expr]) -> Iterator[Task]:
    """Yield the tasks: the step is enabled, lowers the rank, and leaves requests admissible."""
    transition = spec.transitions[helper.id]
    legal = {**transition.allows.always, **helper.params}
    enabled = _enabled(spec, helper.id, legal)
    yield Task(NAME, f"{helper.id} enabled", hypotheses, {}, tuple(enabled))
    guard = {f"guard.{name}": expr for name, expr in transition.full_guard.items()}
    named = {var.name.removeprefix("param."): var for var in transition.params}
    guard |= {f"given.{name}": named[name] == expr for name, expr in helper.params.items()}
    # Frame and counts of all other actors do not change (``obligations.framing``).
    others = {f"others.{name}": _of_another(expr) for name, expr in ADMISSIBLE.items()}
    keeps = [Goal(f"ANOTHER.{name}", primed(_of_another(e))) for name, e in ADMISSIBLE.items()]
    same = [
        Goal(f"ITSELF.{name}", implies(conj(*ADMISSIBLE.values()), primed(expr)))
        for name, expr in ADMISSIBLE.items()
    ]
    yield Task(
        NAME,
        helper.id,
        {**hypotheses, **guard, **others},
        transition.full_effect,
        (*_falls(), *keeps, *same),
    )


_ANSWERS: dict[str, Expr] = {
    "runs": req.phase == state.RUNNING,
    "answering": answering,
    "length": (req.output >= 1) & (req.output <= answer),
    "computed": (known - 1 == req.C) & (req.A == req.C),
    "private": (req.Q == 0) & (req.rounds == 0),
    "no_slot": ~slot.holding,
    "tree": conj(*(pool.evictable + pool.protected == 0 for pool in (full, swa))),
    **_fits,
}
"""State of the request between two tokens of its answer, alone in the engine."""


_more_pages: Expr = ceil_page(known) - ceil_page(req.A)
_reused: dict[str, Expr] = {
    "case.reused": (req.phase == MATCHED) | (req.phase == state.PARKED),
    "case.room": _more_pages <= full.available,
    "case.window": implies(config.swa, _more_pages <= swa.available),
    "case.width": known <= config.width,
    "case.row": ite(req.row == state.NO_ROW, rows.free >= 1, Var("given.row") == req.row),
}
"""State of a matched or parked request for which rows and pools have room: it can run, however
much KV it reuses."""


@dataclass(frozen=True)
class _Path:
    """Consecutive steps of the request, alone in the engine."""

    spec: Spec
    goals: tuple[Goal, ...] = ()
    after: Mapping[str, Expr] = field(default_factory=dict)

    def then(self, id_: str, **params: Expr | int) -> _Path:
        """Add a step. Its guard must hold, and its effect follows the effects before."""
        values = {f"param.{name}": lift(value) for name, value in params.items()}
        step = self.spec.transitions[id_]
        guard = {n: substitute(expr, values) for n, expr in step.full_guard.items()}
        effect = {n: substitute(expr, values) for n, expr in step.full_effect.items()}
        goals = [Goal(f"ENABLED.{n}", substitute(e, dict(self.after))) for n, e in guard.items()]
        new = {n: substitute(e, dict(self.after)) for n, e in effect.items()}
        return _Path(self.spec, (*self.goals, *goals), {**self.after, **new})

    def task(self, name: str, hypotheses: dict[str, Expr], goals: Mapping[str, Expr]) -> Task:
        ends = (Goal(clause, primed(expr)) for clause, expr in goals.items())
        return Task(NAME, name, hypotheses, dict(self.after), (*self.goals, *ends))


def _answering(
    spec: Spec, base: dict[str, Expr], zero: dict[str, Expr], profile: str | None
) -> Iterator[Task]:
    """Yield the tasks: with empty pools, the request is prefilled, gets all its tokens and ends."""
    row = Var("given.row")
    any_row = {"given.row": (row >= 0) & (row < rows.total)}
    start = _Path(spec).then(MATCH, **dict.fromkeys(spec.transitions[MATCH].names, 0))
    alone = {**base, "case.others": ~some, **{f"alone.{n}": e for n, e in _ANSWERS.items()}}
    more = {**alone, "case.more": req.told < answer}
    answers = {f"ANSWERS.{name}": expr for name, expr in _ANSWERS.items()}
    one_more = {**answers, "ANSWERS.told": req.told == Var("answer.before") + 1}
    yield start.task(MATCH, zero, {})
    rounds: tuple[tuple[bool, str, dict[str, Expr | int]], ...] = (
        (False, "T-DECODE", {"at": known, "d": 1, "k": 1, "told": 1}),
        (True, "T-LAUNCH", {"d": 1, "k": 1}),
    )
    for overlap, id_, params in rounds:
        if not _possible(spec.transitions[id_], profile):
            continue
        mode = {"case.overlap": config.overlap if overlap else ~config.overlap}
        sampled = 0 if overlap else 1
        first = start.then(EXTEND, t=known, ahead=0, sampled=sampled, told=sampled, row=row)
        first = first.then("T-RESULT", **_ONE_MORE_TOKEN) if overlap else first
        name = f"{EXTEND}, overlap" if overlap else EXTEND
        yield first.task(name, {**zero, **any_row, **mode}, answers)
        another = _Path(spec).then(id_, **params)
        another = another.then("T-RESULT", **_ONE_MORE_TOKEN) if overlap else another
        before = {"case.before": Var("answer.before") == req.told}
        yield another.task(f"{id_}, alone", {**more, **mode, **before}, one_more)
    done = {**alone, "case.done": req.told == answer}
    nothing = dict.fromkeys(spec.transitions["T-PLAIN-FINISH"].names, 0)
    published: dict[str, Expr | int] = {**nothing, **_PUBLISHED}
    ends = {"ANSWERED": req.kind == state.NONE}
    # A reused prefix must not keep a request from running: the rank argument starts without KV.
    yield (
        _Path(spec)
        .then(EXTEND, t=known, ahead=0, sampled=0, told=0, row=row)
        .task(f"{EXTEND}, reused", {**base, **any_row, **_reused}, {})
    )
    yield _Path(spec).then("T-SAVE").task("T-SAVE, alone", {**done, "case.turn": is_turn}, ends)
    finish = _Path(spec).then("T-PLAIN-FINISH", **published)
    yield finish.task("T-PLAIN-FINISH, alone", {**done, "case.plain": is_plain}, ends)


def prove_progress(
    spec: Spec | None = None,
    page_sizes: tuple[int | None, ...] = (1, 4, 16, 64, None),
    without: frozenset[str] = frozenset(),
    profile: str | None = None,
    tell: Callable[[int, int], None] = lambda *_: None,
) -> tuple[list[Result], list[Vacuity]]:
    """Prove every obligation of the theorem, and check that each task's hypotheses can hold.

    ``tell`` gets the number of finished page sizes and the number of all page sizes.

    >>> results, vacuity = prove_progress(page_sizes=(4,), without=frozenset(["T-DISCARD"]))
    >>> [result.name for result in results if result.status != "proved"]
    ['PROGRESS [cases] / CASES.covered / P=4']
    """
    results: list[Result] = []
    vacuity: list[Vacuity] = []
    for done, size in enumerate(page_sizes):
        tell(done, len(page_sizes))
        for task in tasks_of(spec or Spec(), without, profile):
            prover = Prover([task], size)
            vacuity.append(prover.vacuity(task))
            results += prover.results(task)
    return results, vacuity
