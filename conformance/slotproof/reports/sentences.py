"""A counterexample in sentences: what broke, what kind of bug it is, whose the pages were."""

from __future__ import annotations

from collections.abc import Iterator

from slotproof.lockstep.observation import CONTRACT, Holder, Violation
from slotproof.lockstep.oracles.counts import EQUATIONS
from slotproof.reports.crash import crashed_at
from slotproof.reports.page_map import LOST, SHARED, STALE, Cell, names, state_of
from slotproof.reports.view import Step, View
from slotproof.reports.wording import clause_words
from slotproof.traces.runs import joined, runs_in, text as written
from slotproof_model.spec.invariants import INVARIANTS

_POINTERS = {"INV-BACKED", "INV-ROWS"}
_TOLD = {"INV-ALIVE", "INV-INFLIGHT"}
"""The detail is in the headline, or has other figures than what is wrong."""

LONGEST = 160
"""Characters of a crash's message in the headline."""


def headline(view: View) -> str:
    """What was violated, in a sentence."""
    if (first := view.first) is None:
        return "Nothing was violated"
    pool = EQUATIONS.get(first.invariant)
    shown = next((each for each in view.steps[-1].pools if each.name == pool), None)
    if shown is not None and first.conjunct == "equation" and shown.owned:
        tokens = abs(shown.owned.sum - shown.owned.total)
        how = "lost" if shown.owned.sum < shown.owned.total else "counted twice"
        noun, verb = ("token", "is") if tokens == 1 else ("tokens", "are")
        return f"{tokens} {noun} of the {pool} pool {verb} {how}"
    if shown is not None and first.conjunct == "reported" and shown.reported:
        return (
            f"The engine's own check counts {shown.reported.sum} tokens "
            f"in a {pool} pool of {shown.reported.total}"
        )
    words = clause_words(first)
    if first.clause == "INV-INFLIGHT.iff":
        return _in_flight(view) or words
    if first.invariant == "INV-ALIVE":
        detail = first.detail if len(first.detail) <= LONGEST else first.detail[:LONGEST] + "…"
        where = crashed_at(view.trace, first)
        words += f": {detail}" + (f" (at {where})" if where else "")
    return words


def _in_flight(view: View) -> str:
    """Which way round they disagree, where the spec's state says so."""
    for each in view.steps[-1].differs:
        if each.get("variable") == "session.inflight" and "engine" in each:
            if each["engine"]:
                return f"The engine says a turn of {each['session']} is in flight, and none is"
            return f"A turn of {each['session']} is in flight, and the engine says none is"
    return ""


def detail(view: View) -> str:
    """The figures that show it, where the headline has none."""
    first = view.first
    return "" if first is None or first.invariant in {*_TOLD, *EQUATIONS} else first.detail


def sentence(violation: Violation) -> str:
    """The invariant's sentence in the spec."""
    invariant = INVARIANTS.get(violation.invariant)
    return invariant.sentence if invariant is not None else ""


def kind(view: View) -> str:
    """What kind of bug it is: memory, counting, or behaviour."""
    violations = view.trace.violations
    clauses = {each.clause for each in violations}
    invariants = {each.invariant for each in violations}
    maps = [each for each in view.steps[-1].maps.values() if each is not None]
    wrong = {cell.kind for each in maps for cell in each.wrong}
    if not clauses:
        return ""
    if "INV-ALIVE" in invariants:
        return "The engine did not survive the last command: there is no state to look at after it."
    if wrong & {LOST, SHARED} or any(each.conjunct == "equation" for each in violations):
        return "Memory is really lost or shared: ownership, page by page, does not add up."
    if invariants & _POINTERS:
        return "A row points to memory that is not kept for it: others may overwrite it."
    if clauses <= CONTRACT:
        return "No page is lost or shared: a client is told, or gets, what it should not."
    if all(each.reporting for each in violations) and "INV-CHECKER.verdict" not in clauses:
        return "No page is lost or shared: the engine only counts wrongly."
    if not maps:
        return "No figure of the memory is wrong; whose each page is the trace does not say."
    return "Every page has one owner: no memory is lost, the engine does the wrong thing with it."


def whose(view: View) -> list[str]:
    """Of the pages with two owners, none, or a reader they are not kept for: whose they were."""
    again = view.trace.not_afresh
    lines = [f"The finding {again}."] if again else []
    last = view.steps[-1]
    for pool, page_map in last.maps.items():
        alike: dict[object, list[Cell]] = {}
        for cell in page_map.wrong if page_map is not None and last.ran else ():
            history = (*_lives(cell, pool, view.steps), cell.readers)
            alike.setdefault(history, []).append(cell)
        of = f" of the {pool} pool" if len(last.maps) > 1 else ""
        lines += [_history_of(cells, of, pool, view) for cells in alike.values()]
    return lines


def _lives(cell: Cell, pool: str, steps: list[Step]) -> Iterator[tuple[str, tuple[Holder, ...]]]:
    """Since which command it has had which owners."""
    last: tuple[Holder, ...] | None = None
    for step in steps if cell.pages else ():
        page_map = step.maps.get(pool) if step.ran else None
        now = next(
            (each for each in (page_map.cells if page_map else ()) if each.pages == cell.pages),
            None,
        )
        if now is not None and now.owners != last:
            last = now.owners
            yield step.label, now.owners


def _history_of(cells: list[Cell], pool_word: str, pool: str, view: View) -> str:
    count = sum(cell.count for cell in cells)
    numbers = written(joined(sorted(run for cell in cells for run in runs_in(cell.pages))))
    noun = "page" if count == 1 else "pages"
    what = f"{noun} {numbers.replace(' ', ', ')}" if numbers else f"{count} {noun}"
    now = state_of(cells[0], count)
    lives = list(_lives(cells[0], pool, view.steps))
    free = (Holder("free"),)
    if len(lives) > 2 and lives[0][1] == free:
        lives = lives[1:]
    past = [f"{names(owners)} from step {label}" for label, owners in lives]
    if len(lives) == 1 and lives[0][1] != free and not view.before:
        past.insert(0, "the free list at the start")
    whose = f". Whose it was: {', '.join(past)}" if len(past) > 1 else ""
    between = ": " if cells[0].kind == STALE else " "
    return f"{what}{pool_word}{between}{now}{whose}"
