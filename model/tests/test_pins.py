"""Locks and rows in the page layer: the holes of the review, put back and refuted (ADR 10)."""

from __future__ import annotations

from dataclasses import replace

import pytest
import z3

from slotproof_model.proofs import others
from slotproof_model.proofs.bounded import Search
from slotproof_model.proofs.obligations import INIT, Goal, Task, anywhere, tasks
from slotproof_model.proofs.prove import Prover, prove
from slotproof_model.proofs.symbolic import Symbols
from slotproof_model.spec import pages, state, transitions as t
from slotproof_model.spec.expr import Expr, implies
from slotproof_model.spec.invariant import Kind
from slotproof_model.spec.invariants import DERIVED, ENVIRONMENT
from slotproof_model.spec.places import in_own, in_tree
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import POOLS, ROWS, Spec, conjuncts

WAY = (
    "T-PLAIN-SUBMIT", "T-MATCH", "T-EXTEND", "T-PLAIN-FINISH", "T-PLAIN-SUBMIT", "T-MATCH",
    "T-EXTEND", "T-INSERT", "T-EVICT",
)  # fmt: skip
"""A request publishes its prompt, a second request locks the page, and the page is evicted."""


def _walk(spec: Spec) -> Search:
    """Search along exactly these transitions, with every invariant true before the last."""
    search = Search(spec, 1, "full")
    names = list(spec.transitions)
    for index, name in enumerate(WAY):
        search.extend()
        search.solver.add(search.choices[-1] == names.index(name))
        if index < len(WAY) - 1:
            search._assert(search.layers[-1], list(search.invariants.values()))
    return search


@pytest.mark.slow
def test_a_locked_page_is_evicted_in_nine_steps() -> None:
    """Hole 1 reopened: the path exists, and INV-PIN.tree names the error."""
    search = _walk(Spec(unruled=frozenset(["unpinned"])))
    search.solver.add(search.violated())
    assert search.solver.check() == z3.sat
    assert search._found().clauses == ("INV-PIN.tree",)


@pytest.mark.slow
def test_the_way_does_not_lead_there_any_more() -> None:
    search = _walk(Spec())
    search.solver.add(search.violated())
    assert search.solver.check() == z3.unsat


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "transition", "clauses"),
    [
        ("unpinned", "T-EVICT", {"INV-PIN.tree"}),
        ("last_pin", "T-CLOSE", {"INV-PIN.full", "INV-PIN.swa"}),
        ("first_pin", "T-MATCH", {"INV-PIN.full", "INV-PIN.swa"}),
        ("fresh", "T-EXTEND", {"INV-ROW.counted"}),
        ("released", "T-ABORT", {"INV-PIN.mine"}),
        ("dropped", "T-REFUSE", {"INV-PIN.full", "INV-PIN.swa", "INV-PIN.full_covers",
                                 "INV-PIN.swa_covers"}),
        ("covers", "T-INSERT", {"INV-PIN.full_covers", "INV-PIN.swa_covers"}),
        ("locked", "T-MATCH", {"INV-PIN.tree", "INV-PIN.mine"}),
        ("found", "T-MATCH", {"INV-BACKED.full_protected", "INV-BACKED.swa_protected"}),
        ("named", "T-EXTEND", {"INV-PLACE.full_injective", "INV-PLACE.swa_injective"}),
        ("chosen", "T-INSERT", {"INV-PLACE.function"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("page_size", [1, 4, None])
def test_a_rule_that_is_not_kept_is_named(
    rule: str, transition: str, clauses: set[str], page_size: int | None
) -> None:
    """Holes 1, 2, 3 and similar holes: `slotproof prove` would report them."""
    spec = Spec(unruled=frozenset([rule]))
    results = [
        result
        for task in tasks(spec, transition)
        if task.layer in (*POOLS, ROWS)
        for result in Prover([task], page_size).results(task)
    ]
    assert {result.clause for result in results if result.status != "proved"} == clauses


@pytest.mark.parametrize(
    ("rule", "transition", "layer", "clause"),
    [
        ("unpinned", "T-EVICT", "full", "INV-PIN.tree"),
        ("last_pin", "T-CLOSE", "swa", "INV-PIN.swa"),
        ("fresh", "T-EXTEND", "rows", "INV-ROW.counted"),
        ("taken", "T-DECODE", "full", "INV-OWNER.counted"),
    ],
)
def test_the_actor_that_stands_still_sees_it_too(
    rule: str, transition: str, layer: str, clause: str
) -> None:
    """T-EVICT [others, full]: an actor at rest loses its page."""
    spec = Spec(unruled=frozenset([rule]))
    results = list(others.results(spec, TRANSITIONS[transition], 4))
    refuted = [result.name for result in results if result.status == "refuted"]
    assert f"{transition} [others, {layer}] / {clause} / P=4" in refuted


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("page_size", [1, 4, None])
def test_a_position_that_counts_lies_in_a_page_of_its_owner(
    pool: str, page_size: int | None
) -> None:
    """INV-BACKED in full follows from INV-PLACE, INV-PIN and INV-OWNER, from no fewer."""
    page = state.page
    names_it = state.actor_has_kv & (page.entry == page.number)
    goals = (
        Goal("protected", implies(names_it & in_tree(page.place, pool),
                                  page.pin & (page.tree == 1))),
        Goal("private", implies(names_it & in_own(page.place, pool), page.own == 1)),
    )  # fmt: skip
    known = {
        **conjuncts(Spec(), Kind.STATE),
        **conjuncts(Spec(), Kind.STATE, pool),
        **{f"environment.{name}": expr for name, expr in ENVIRONMENT.items()},
        **anywhere(pool),
    }
    task = Task(INIT, pool, known, {}, goals)
    assert {result.status for result in Prover([task], page_size).results(task)} == {"proved"}
    less = {name: expr for name, expr in known.items() if not name.startswith("INV-PLACE")}
    task = Task(INIT, pool, less, {}, goals)
    assert {result.status for result in Prover([task], page_size).results(task)} == {"refuted"}


def _possible(transition: str, layer: str, *wanted: Expr) -> bool:
    (task,) = (task for task in tasks(Spec(), transition) if task.layer == layer)
    prover = Prover([task], 4)
    labels = prover._hypotheses(task)
    terms = [prover.symbols.term(expr, prover.before) for expr in wanted]
    prover.symbols.settle(prover.solver)
    return bool(prover.solver.check(*labels, *terms) == z3.sat)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize(
    ("transition", "wanted"),
    [
        ("T-EVICT", (pages.evicted,)),
        ("T-MATCH", (pages.locked, state.page.pins == 0)),
        ("T-MATCH", (pages.locked, state.page.pins > 1)),
        ("T-CLOSE", (pages.dropped, state.page.pins == 0)),
        ("T-CLOSE", (pages.dropped, state.page.pins > 0)),
        ("T-INSERT", (pages.pointed,)),
        ("T-INSERT", (pages.locked, ~pages.pointed)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_choice_can_be_made(pool: str, transition: str, wanted: tuple[Expr, ...]) -> None:
    """The rules leave room. A proof about an impossible choice would be empty."""
    assert _possible(transition, pool, *wanted)


def test_a_lock_is_taken_anew_in_the_window_only() -> None:
    """T-INSERT drops a page outside the window, and no page inside."""
    assert _possible("T-INSERT", "swa", pages.dropped, ~pages.locked)
    inside = (state.page.at >= state.own.E) & (state.page.at + state.config.window >= t.q)
    assert not _possible("T-INSERT", "swa", pages.dropped, ~pages.locked, inside)


@pytest.mark.parametrize("wanted", [state.line.free == 1, state.line.rest == 1])
def test_a_row_can_be_anybodys(wanted: Expr) -> None:
    assert _possible("T-EXTEND", ROWS, wanted)
    assert not _possible("T-EXTEND", ROWS, state.line.free == 1, state.line.rest == 1)


@pytest.mark.parametrize("page_size", [1, 4, None])
def test_what_is_true_of_all_others_is_proved_actor_by_actor(page_size: int | None) -> None:
    """lock_max ≤ lock_sum and aligned locks are derived, and need INV-ORDER."""
    (task,) = (task for task in tasks(Spec(), INIT) if task.layer == "frame")
    assert {goal.clause for goal in task.goals} >= {f"environment.{name}" for name in DERIVED}
    assert {result.status for result in Prover([task], page_size).results(task)} == {"proved"}
    less = {n: e for n, e in task.hypotheses.items() if not n.startswith("INV-ORDER")}
    lax = replace(task, hypotheses=less)
    refuted = {e.clause for e in Prover([lax], page_size).results(lax) if e.status == "refuted"}
    assert refuted >= {"environment.locks", "CONTRIBUTES.lock_sum", "CONTRIBUTES.held"}


def test_a_legal_unlock_there_is_always() -> None:
    """EXISTS holds wherever the rest of the guard does. A stricter guard is refuted."""
    unlocking = [step.id for step in TRANSITIONS.values() if step.allows.always]
    assert unlocking == [step.id for step in TRANSITIONS.values() if "u_others" in step.guard]
    results, _ = prove(page_sizes=[4], jobs=1, only=["T-CLOSE"])
    unlocked = {result.clause for result in results if result.transition == "T-CLOSE [unlock]"}
    assert unlocked == {"EXISTS.u", "EXISTS.u_others", "EXISTS.swa_u", "EXISTS.swa_u_others"}


@pytest.mark.parametrize("layer", [*POOLS, ROWS])
def test_a_clause_of_a_page_can_be_broken_by_its_own_values(layer: str) -> None:
    """Within all invariants of figures, every page clause can still fail."""
    symbols = Symbols(4, z3.Context())
    known = [*conjuncts(Spec(), Kind.STATE).values(), *ENVIRONMENT.values()]
    known += anywhere(layer).values()
    every = (*state.SEEN, *state.PAGE, *state.LINE)
    values = {var.name: symbols.var(var) for var in every}
    solver = symbols.solver()
    solver.add(*(symbols.term(expr, values) for expr in known))
    for clause, expr in conjuncts(Spec(), Kind.STATE, layer).items():
        wrong = z3.Not(symbols.term(expr, values))
        symbols.settle(solver)
        assert solver.check(wrong) == z3.sat, clause
