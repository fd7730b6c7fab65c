"""The symbolic reading agrees with evaluate, proves the spec, and can fail."""

from dataclasses import replace
from pathlib import Path

import pytest
import z3
from hypothesis import given, settings, strategies as st

from slotproof_model.bugs.museum import EXHIBITS
from slotproof_model.evaluation.evaluate import compile_step, source, state_check
from slotproof_model.evaluation.layout import INDEX, LAYOUT
from slotproof_model.proofs import others
from slotproof_model.proofs.bounded import Search, replay, shortest, suspects
from slotproof_model.proofs.obligations import framing, tasks
from slotproof_model.proofs.prove import PAGE_SIZES, Prover, Result, prove, reasons
from slotproof_model.proofs.symbolic import Symbols
from slotproof_model.spec import state, transitions as t
from slotproof_model.spec.expr import App, Expr, Op, Sort
from slotproof_model.spec.invariant import Kind, is_shown
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.memory import Interval, Mem, Move
from slotproof_model.spec.transitions import TRANSITIONS
from slotproof_model.spec.whole import Spec, conjuncts


@pytest.mark.slow
@pytest.mark.parametrize("page_size", [1, 4, None])
@pytest.mark.parametrize("name", ["T-RESTORE", "T-SAVE", "T-ABORT-PARTIAL", "INIT"])
def test_the_hardest_transitions_keep_every_invariant(name: str, page_size: int | None) -> None:
    """`slotproof prove` proves all transitions. These exercise every rule of the reading."""
    results, vacuity = prove(page_sizes=[page_size], jobs=1, only=[name])
    assert [result.name for result in results if result.status != "proved"] == []
    assert not any(check.vacuous for check in vacuity)
    assert len(results) > 30


@pytest.mark.exhaustive
def test_everything_is_proved_and_counted() -> None:
    """At every page size and at any. Each reason is counted apart, and docs/proof.md is exact."""
    results, vacuity = prove(page_sizes=[*PAGE_SIZES, None], jobs=2)
    assert [result.name for result in results if result.status != "proved"] == []
    assert not any(check.vacuous for check in vacuity)
    text = (Path(__file__).parents[2] / "docs" / "proof.md").read_text()
    figures = reasons(results)
    assert figures is not None and figures["proved"] + figures["excluded"] == figures["obligations"]
    assert f"{len(results):,} obligations hold, over all page sizes and `--any`." in text
    assert f"{figures['proved']:,} of {figures['obligations']:,} are proved" in text
    for reason in ("inductive", "effect", "framing", "excluded"):
        assert f"| {reason} | {figures[reason]:,} |" in text


def test_a_proof_says_what_it_used() -> None:
    """INV-ORDER after a restore needs more than the guard: the core names it."""
    results, _ = prove(page_sizes=[4], jobs=1, only=["T-RESTORE"])
    order = next(result for result in results if result.clause == "INV-ORDER.req")
    assert "INV-ORDER.slot" in order.core


def test_a_guard_that_can_not_hold_is_vacuous() -> None:
    never = replace(t.T_PARK, guard={**t.T_PARK.guard, "never": state.req.phase < 0})
    prover = Prover(tasks(Spec({**TRANSITIONS, "T-PARK": never}), "T-PARK"), 4)
    assert prover.vacuity(prover.tasks[0]).problem == "can never happen"


def test_no_transition_writes_the_frame() -> None:
    assert framing(Spec()) == []
    bad = replace(t.T_PARK, effect={**t.T_PARK.effect, "frame.held": state.frame.uncached})
    assert framing(Spec({**TRANSITIONS, "T-PARK": bad})) == ["T-PARK writes frame.held"]


@pytest.mark.parametrize("figure", ["full.total", "full.available", "rows.free"])
def test_figures_change_by_memory_moves_only(figure: str) -> None:
    """Else memory could be made of nothing, total and available alike."""
    bad = replace(t.T_OPEN, effect={**t.T_OPEN.effect, figure: state.full.total + 4})
    assert framing(Spec({**TRANSITIONS, "T-OPEN": bad})) == [f"T-OPEN writes {figure}"]


@pytest.mark.parametrize("pool", ["full", "swa"])
def test_every_page_is_free_in_the_beginning(pool: str) -> None:
    """INV-OWNER has a base case, and is refuted for an owned page."""
    statuses = {result.name: result.status for result in _results(Spec(), 4, "INIT")}
    assert statuses[f"INIT [{pool}] / INV-OWNER.exactly_one / P=4"] == "proved"
    owner = INVARIANTS["INV-OWNER"]
    wrong = replace(owner, conjuncts={**owner.conjuncts, pool: state.page.own == 1})
    statuses = {
        result.name: result.status
        for result in _results(Spec(invariants={**INVARIANTS, "INV-OWNER": wrong}), 4, "INIT")
    }
    assert statuses[f"INIT [{pool}] / INV-OWNER.{pool} / P=4"] == "refuted"


@pytest.mark.slow
@pytest.mark.parametrize("page_size", [1, 64, None])
@pytest.mark.parametrize("name", ["T-RESTORE", "T-SAVE", "T-CLOSE", "T-INSERT"])
def test_the_others_keep_their_invariants(name: str, page_size: int | None) -> None:
    """`slotproof prove` proves all transitions at P = 4, and with `--any` at every page size."""
    results = list(others.results(Spec(), TRANSITIONS[name], page_size))
    assert [result.name for result in results if result.status != "proved"] == []
    assert len(results) > 30


@pytest.mark.parametrize("page_size", [4, None])
def test_a_step_that_harms_another_actor_is_refuted(page_size: int | None) -> None:
    """Unlocking another actor's lock preserves the mover's own invariants."""
    greedy = replace(
        t.T_CLOSE, guard={k: e for k, e in t.T_CLOSE.guard.items() if not k.startswith("u")}
    )
    results = others.results(Spec(), greedy, page_size)
    assert "INV-LOCK.covered" in {result.clause for result in results if result.status == "refuted"}


@pytest.mark.parametrize("name", ["T-REJECT", "T-DOOM"])
def test_a_request_that_goes_on_alone_is_a_right_one(name: str) -> None:
    """INV-TOKENS.counted: without the guard its prompt could be negative."""
    transition = TRANSITIONS[name]
    lax = replace(transition, guard={k: e for k, e in transition.guard.items() if k != "prompt"})
    prover = Prover(tasks(Spec({**TRANSITIONS, name: lax}), name), 4)
    task = next(task for task in prover.tasks if task.layer == "detached")
    refuted = {result.clause for result in prover.results(task) if result.status == "refuted"}
    assert "INV-TOKENS.counted" in refuted


def _unrounded(kind: Op) -> Spec:
    """Return the spec whose T-RESTORE frees from m instead of from ⌈m⌉ (#22862, review)."""
    free = t.T_RESTORE.memory[0]

    def strip(expr: Expr) -> Expr:
        if isinstance(expr, App):
            args = tuple(strip(arg) for arg in expr.args)
            return args[0] if expr.op is kind else App(expr.op, args)
        return expr

    spans = [Interval(strip(span.lo), span.hi) for span in (free.full, free.swa)]
    wrong = replace(t.T_RESTORE, memory=(Mem(Move.FREE, *spans),))
    return Spec({**TRANSITIONS, "T-RESTORE": wrong})


def _results(spec: Spec, page_size: int | None, only: str = "T-RESTORE") -> list[Result]:
    prover = Prover(tasks(spec, only), page_size)
    return [result for task in prover.tasks for result in prover.results(task)]


@pytest.mark.slow
@pytest.mark.parametrize("page_size", [4, None])
def test_a_forgotten_rounding_is_refuted(page_size: int | None) -> None:
    """Soundness with P a symbol: an obligation refuted at P = 4 must not be proved."""
    spec = _unrounded(Op.CEIL)
    results = _results(spec, page_size)
    refuted = {result.clause for result in results if result.status == "refuted"}
    assert {"INV-ALIGN.free", "INV-ALIGN-STEP.full"} <= refuted


def test_the_forgotten_rounding_is_invisible_at_page_size_1() -> None:
    spec = _unrounded(Op.CEIL)
    assert all(result.status == "proved" for result in _results(spec, 1))


_BREAKS = {
    "22213-double-count": "INV-ONCE",
    "22790d-two-in-flight": "INV-INFLIGHT-STEP",
    "21875a-close-releases-running": "INV-ABSENT",
    "37502-parked-not-counted": "INV-SUM-FULL",
    "22790a-abort-drops-row": "INV-SUM-FULL",
    "22897-no-trim": "INV-SLACK-STEP",
    "22900-trim-forgets-cursor": "INV-CURSOR",
    "2954-double-unpin": "INV-LOCK",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", EXHIBITS)
def test_a_known_bug_has_a_shortest_counterexample(name: str) -> None:
    """The length is pinned, in both pools. Shorter ones are excluded, and evaluate follows the
    trace."""
    exhibit = EXHIBITS[name]
    last = suspects(exhibit.spec, exhibit.page_size)
    assert last is None or last
    counterexample = shortest(exhibit.spec, exhibit.page_size, exhibit.depth, last)
    assert counterexample is not None
    assert counterexample.depth == exhibit.depth
    if name in _BREAKS:
        assert _BREAKS[name] in {clause.partition(".")[0] for clause in counterexample.clauses}
    assert replay(exhibit.spec, counterexample)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["22790d-two-in-flight", "22790a-abort-drops-row", "22897-no-trim"]
)
def test_only_suspects_break_an_invariant(name: str) -> None:
    """A search without the induction proofs finds no shorter trace either."""
    exhibit = EXHIBITS[name]
    counterexample = Search(exhibit.spec, exhibit.page_size).run(exhibit.depth)
    assert counterexample is not None
    assert counterexample.depth == exhibit.depth
    assert counterexample.moves[-1].transition in (suspects(exhibit.spec, exhibit.page_size) or ())


def test_what_keeps_every_invariant_is_no_suspect() -> None:
    wrong = EXHIBITS["22862r-unaligned-free-tail"].spec
    assert suspects(wrong, 4) == frozenset(["T-RESTORE"])
    assert suspects(wrong, 1) == frozenset()
    assert suspects(Spec(), 1) is None


def test_one_known_bug_is_invisible_at_page_size_1() -> None:
    """Proved at P = 1 for sequences of any length. The search finds the bug at 4."""
    wrong = EXHIBITS["22862r-unaligned-free-tail"]
    assert wrong.page_size == 4
    results, _ = prove(wrong.spec, [1], jobs=1, only=["T-RESTORE"])
    assert all(result.status == "proved" for result in results)


@pytest.mark.exhaustive
def test_the_page_layer_alone_sees_pages_freed_at_the_wrong_end() -> None:
    """INV-OWNER: the right number of pages is freed, so every sum stays balanced."""
    counterexample = Search(EXHIBITS["free-wrong-end"].spec, page_size=1).run(6)
    assert counterexample is not None
    assert {clause.partition(".")[0] for clause in counterexample.clauses} == {"INV-OWNER"}


def test_the_spec_itself_has_no_short_counterexample() -> None:
    assert Search(Spec(), page_size=1).run(4) is None


_numbers = st.integers(-3, 40)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), page_size=st.sampled_from([1, 4, 16]))
def test_evaluate_and_symbolic_agree(data: st.DataObject, page_size: int) -> None:
    """On random states and parameters: guard, effect and every state conjunct."""
    vector = [data.draw(_numbers) for _ in LAYOUT]
    for var in state.SEEN:
        if var.sort is Sort.BOOL:
            vector[INDEX[var.name]] %= 2
    transition = data.draw(st.sampled_from(list(TRANSITIONS.values())))
    params = {name: data.draw(_numbers) for name in transition.names}
    symbols = Symbols(page_size, z3.Context())
    values = {var.name: symbols.var(var) for var in (*state.SEEN, *transition.params)}
    given_values = [
        values[name] == (bool(value) if z3.is_bool(values[name]) else value)
        for name, value in [
            *zip(LAYOUT, vector, strict=True),
            *((f"param.{name}", value) for name, value in params.items()),
        ]
    ]
    solver = z3.Solver(ctx=symbols.context)
    solver.add(*given_values)
    formulas = {**transition.full_guard, **transition.full_effect, **conjuncts(Spec(), Kind.STATE)}
    terms = {name: symbols.term(expr, values) for name, expr in formulas.items()}
    solver.add(*symbols.side)
    assert solver.check() == z3.sat
    model = solver.model()
    for name, expr in formulas.items():
        value = model.eval(terms[name], model_completion=True)
        evaluated = eval(source(expr, page_size), {"v": vector, "p": params})
        symbolic = z3.is_true(value) if z3.is_bool(value) else value.as_long()
        assert symbolic == evaluated, name
    step = compile_step(transition, page_size)
    blocked = step.blocked(vector, params)
    guard = [z3.is_true(model.eval(terms[name])) for name in transition.full_guard]
    assert (blocked is None) == all(guard)
    broken = {f"{invariant}.{name}" for invariant, name in state_check(page_size)(vector)}
    states = {name: expr for name, expr in conjuncts(Spec(), Kind.STATE).items() if is_shown(expr)}
    false = {name for name in states if not z3.is_true(model.eval(terms[name]))}
    assert broken == false
