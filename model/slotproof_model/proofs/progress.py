"""Progress: whoever waits, and fits into the pool alone, can be brought to run, from every state.

The proof is a ranking. While any actor has KV, keeps a slot, or the tree has a page that nobody
locks, some *helper* step of some actor is enabled, and after it the rank is smaller: requests with
KV, those whose KV is ahead of what they know, slots, evictable tokens, compared in this order. At
rank zero the pool is empty, and the request that waits can be matched and prefilled. Everything of
that is an obligation (:func:`tasks_of`), of one arbitrary actor and the frame of all others, so for
any number of them. Well-foundedness of the order is all that is left to say in words.

That a helper keeps the invariants of everybody is what ``slotproof prove`` says of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

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
    iff,
    implies,
    ite,
    lift,
    substitute,
)
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.invariants import DERIVED, ENVIRONMENT
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.state import (
    MATCHED,
    WAITING,
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
"""Its KV is ahead of the tokens that it knows: a result is outstanding (overlap scheduling)."""
SHARES: dict[str, Expr] = {
    "with_kv": ite(has_kv, 1, 0),
    "ahead": ite(behind, 1, 0),
    "slots": ite(slot.holding, 1, 0),
}
"""What one actor adds to the rank."""
OTHERS = {name: Var(f"others.{name}") for name in SHARES}
"""What all other actors add to it."""
some = Var("others.some", Sort.BOOL)
"""One of them adds something."""
mine: Expr = has_kv | slot.holding
RANK: dict[str, Expr] = {
    **{name: OTHERS[name] + share for name, share in SHARES.items()},
    "evictable": full.evictable + swa.evictable,
}
"""Of the whole state, the first the heaviest."""
SENTENCES = {
    "with_kv": "requests that have KV",
    "ahead": "those whose KV is ahead of what they know",
    "slots": "slots that sessions keep",
    "evictable": "tokens of the tree that nobody locks",
}
_one_more: dict[str, Expr] = {
    **{OTHERS[name].name: RANK[name] for name in SHARES},
    some.name: some | mine,
}
_counted: dict[str, Expr] = {
    "counted": conj(*(each >= 0 for each in OTHERS.values()), OTHERS["ahead"] <= OTHERS["with_kv"]),
    "some": iff(some, OTHERS["with_kv"] + OTHERS["slots"] >= 1),
    "nobody": implies(~some, conj(*(each == 0 for each in state.FRAME))),
}
"""What ties the counts of all others to their frame: proved one actor more at a time."""


def less(now: Mapping[str, Expr], before: Mapping[str, Expr]) -> Expr:
    """Smaller in the first place in which they differ."""
    result: Expr = FALSE
    for name in reversed(list(before)):
        result = (now[name] < before[name]) | ((now[name] == before[name]) & result)
    return result


# Who waits -----------------------------------------------------------------------------

ADMISSIBLE: dict[str, Expr] = {
    "waits": req.phase == WAITING,
    "something": known >= 1,
    "fits": ceil_page(known) <= full.total,
    "fits_window": implies(config.swa, ceil_page(known) <= swa.total),
    "width": known <= config.width,
    "row": rows.total >= 1,
}
"""A request waits, and would fit if there were nobody else: then it is to run one day."""


# The steps that help ---------------------------------------------------------------------


@dataclass(frozen=True)
class Helper:
    """A transition that makes room, and the states in which it is to be taken."""

    id: str
    when: Expr
    params: Mapping[str, Expr]
    """These, and of an unlock whatever the tree says: the rank falls with any legal ``u``."""


_HELPERS: tuple[tuple[str, Expr, dict[str, Expr]], ...] = (
    ("T-RESULT", behind, {"k": lift(0), "n": lift(1)}),
    ("T-REFUSE", req.phase == MATCHED, {}),
    ("T-RETRACT", is_turn & begun & ~behind & config.retract_keeps, {}),
    ("T-RETRACT-WIPE", is_turn & begun & ~behind & ~config.retract_keeps, {}),
    ("T-PLAIN-RETRACT", is_plain & begun & ~behind, {}),
    ("T-DISCARD", slot.holding & ~has_kv, {}),
)
HELPERS = tuple(each[0] for each in _HELPERS)
"""Steps of the scheduler that take memory from an actor: nobody loses more than time."""
DISCARD = "T-DISCARD"
"""Real engines drop a slot whose turn can't use it. That one is dropped for somebody else is the
choice that the theorem needs."""
EVICT, MATCH, EXTEND = "T-EVICT", "T-MATCH", "T-EXTEND"
STEPS = (*HELPERS, EVICT, MATCH, EXTEND)
"""All transitions of which the proof makes use."""


def helpers(without: frozenset[str]) -> Iterator[Helper]:
    """Those that there are. Without T-DISCARD a slot is still dropped for its own turn."""
    for id_, when, params in _HELPERS:
        if id_ == DISCARD and id_ in without:
            yield Helper(id_, when & is_turn, params)
        elif id_ not in without:
            yield Helper(id_, when, params)


def able(spec: Spec, without: frozenset[str]) -> dict[str, Transition]:
    """The transitions that there are then."""
    kept = {id_: each for id_, each in spec.transitions.items() if id_ not in without - {DISCARD}}
    if DISCARD in without:
        discard = spec.transitions[DISCARD]
        own = {**discard.guard, "own": is_turn}
        kept[DISCARD] = replace(discard, guard=own)
    return kept


def _enabled(spec: Spec, id_: str, params: Mapping[str, Expr]) -> list[Goal]:
    """Every conjunct of the guard holds with these parameters."""
    values = {f"param.{name}": expr for name, expr in params.items()}
    guard = spec.transitions[id_].full_guard
    return [Goal(f"ENABLED.{name}", substitute(expr, values)) for name, expr in guard.items()]


def _falls() -> list[Goal]:
    """The rank is smaller after it, and no count of it negative."""
    now = {name: primed(expr) for name, expr in RANK.items()}
    return [
        Goal("RANK.falls", less(now, RANK)),
        Goal("RANK.natural", conj(*(each >= 0 for each in now.values()))),
    ]


def _of_another(expr: Expr) -> Expr:
    """What is said of the request, of one that is not the actor's."""
    return substitute(expr, {each.name: Var(f"waiting.{each.name}", each.of) for each in req})


def tasks_of(
    spec: Spec, without: frozenset[str] = frozenset(), profile: str | None = None
) -> Iterator[Task]:
    """All obligations of the theorem, by layer; of one profile if that is named.

    ``without``: helpers that the engine does not have.
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
    steps = [each for each in helpers(without) if each.id in taken]
    covered: Expr = FALSE
    for helper in steps:
        covered = covered | helper.when
    waiting = {f"waiting.{name}": expr for name, expr in ADMISSIBLE.items()}
    yield Task(NAME, "cases", {**base, "case.mine": mine}, {}, (Goal("CASES.covered", covered),))
    for helper in steps:
        yield from _step(spec, helper, {**base, "case.when": helper.when})
    if EVICT not in without:
        there = {**base, "case.tree": full.evictable + swa.evictable >= 1}
        everything = {"n": full.evictable, "swa_n": swa.evictable}
        yield from _step(spec, Helper(EVICT, lift(True), everything), there)
    # Where no step is prescribed the rank is zero.
    nobody = {"case.nobody": ~some & ~mine}
    tree = {"case.tree": RANK["evictable"] == 0} if EVICT not in without else {}
    end = tuple(Goal(f"END.{name}", expr == 0) for name, expr in RANK.items())
    yield Task(NAME, "end", {**base, **nobody, **tree}, {}, end)
    zero = {f"rank.zero.{name}": expr == 0 for name, expr in RANK.items()}
    yield from _running(spec, {**base, **waiting, **zero})


def _possible(transition: Transition, profile: str | None) -> bool:
    """Whether engines of the profile take it at all: of what they never do nothing is asked."""
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
    """The counts of all others say what their frame says: for nobody, and with one more."""
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
    """It can be taken, the rank falls, and whoever is admissible stays so."""
    transition = spec.transitions[helper.id]
    legal = {**transition.allows.always, **helper.params}
    enabled = _enabled(spec, helper.id, legal)
    yield Task(NAME, f"{helper.id} enabled", hypotheses, {}, tuple(enabled))
    guard = {f"guard.{name}": expr for name, expr in transition.full_guard.items()}
    named = {var.name.removeprefix("param."): var for var in transition.params}
    guard |= {f"given.{name}": named[name] == expr for name, expr in helper.params.items()}
    # Of the frame and of all others' counts nothing changes (``obligations.framing``).
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


def _running(spec: Spec, hypotheses: dict[str, Expr]) -> Iterator[Task]:
    """Nobody has anything: of the prompt the tree has nothing, and all of it is prefilled."""
    match, extend = spec.transitions[MATCH], spec.transitions[EXTEND]
    nothing = {f"param.{name}": lift(0) for name in match.names}
    matched = {name: substitute(expr, nothing) for name, expr in match.full_effect.items()}
    enabled = _enabled(spec, MATCH, dict.fromkeys(match.names, lift(0)))
    yield Task(NAME, MATCH, hypotheses, {}, tuple(enabled))
    row = Var("given.row")
    any_row = {"given.row": (row >= 0) & (row < rows.total)}
    values: dict[str, Expr] = {"param.t": known, "param.sampled": lift(1), "param.row": row}
    guard = {name: substitute(expr, values) for name, expr in extend.full_guard.items()}
    goals = [Goal(f"ENABLED.{name}", substitute(e, matched)) for name, e in guard.items()]
    effect = {name: substitute(expr, values) for name, expr in extend.full_effect.items()}
    done = {**matched, **{name: substitute(expr, matched) for name, expr in effect.items()}}
    goals += [
        Goal("RUNS.phase", primed(req.phase) == state.RUNNING),
        Goal("RUNS.prompt", primed(req.C) == known),
        Goal("RUNS.token", primed(req.output) == req.output + 1),
    ]
    yield Task(NAME, EXTEND, {**hypotheses, **any_row}, done, tuple(goals))


def prove_progress(
    spec: Spec | None = None,
    page_sizes: tuple[int | None, ...] = (1, 4, 16, 64, None),
    without: frozenset[str] = frozenset(),
    profile: str | None = None,
    tell: Callable[[int, int], None] = lambda *_: None,
) -> tuple[list[Result], list[Vacuity]]:
    """Every obligation of the theorem, and of each layer whether it speaks of any state.

    ``tell`` how many page sizes are done, of how many.

    >>> results, vacuity = prove_progress(page_sizes=(4,), without=frozenset(["T-DISCARD"]))
    >>> [each.name for each in results if each.status != "proved"]
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
