"""A counterexample in sentences: the violation, the kind of bug, the history of the bad pages."""

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
"""Invariants without a detail line: the headline has the detail, or counts that replace it."""

LONGEST = 160
"""Maximum length of a crash message in the headline, in characters."""


def headline(view: View) -> str:
    """Return the violation in a sentence."""
    if (first := view.first) is None:
        return "Nothing was violated"
    pool = EQUATIONS.get(first.invariant)
    shown = next((entry for entry in view.steps[-1].pools if entry.name == pool), None)
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
    """Return a sentence if only the engine, or only the spec, has a turn in flight. Otherwise
    return ""."""
    for at in view.steps[-1].differs:
        if at.get("variable") == "session.inflight" and "engine" in at:
            if at["engine"]:
                return f"The engine reports a turn of {at['session']} in flight, but none exists"
            return f"A turn of {at['session']} is in flight, but the engine reports none"
    return ""


def detail(view: View) -> str:
    """Return the detail of the violation, or "" if the headline covers it."""
    first = view.first
    return "" if first is None or first.invariant in {*_TOLD, *EQUATIONS} else first.detail


def sentence(violation: Violation) -> str:
    """Return the spec's sentence about the violated invariant."""
    invariant = INVARIANTS.get(violation.invariant)
    return invariant.sentence if invariant is not None else ""


def kind(view: View) -> str:
    """Return a sentence on the kind of bug: memory, accounting, or behavior."""
    violations = view.trace.violations
    clauses = {violation.clause for violation in violations}
    invariants = {violation.invariant for violation in violations}
    maps = [page_map for page_map in view.steps[-1].maps.values() if page_map is not None]
    wrong = {cell.kind for page_map in maps for cell in page_map.wrong}
    if not clauses:
        return ""
    if "INV-ALIVE" in invariants:
        return "The engine did not survive the last command, so the trace ends without a state."
    if wrong & {LOST, SHARED} or any(violation.conjunct == "equation" for violation in violations):
        return "Memory is really lost or shared: ownership, page by page, does not add up."
    if invariants & _POINTERS:
        return "A row points to KV that no lock protects, so other requests may overwrite this KV."
    if clauses <= CONTRACT:
        return "No page is lost or shared. A client gets a wrong message or answer."
    if all(bad.reporting for bad in violations) and "INV-CHECKER.verdict" not in clauses:
        return "No page is lost or shared. Only the counts that the engine reports are wrong."
    if not maps:
        return "No memory count is wrong. The trace does not have the owners of the pages."
    return "Every page has one owner. No memory is lost, but the engine uses some memory wrongly."


def whose(view: View) -> list[str]:
    """Return the history, in one line, of each page that has two owners or none, or is read without
    protection."""
    again = view.trace.not_afresh
    lines = [f"The finding {again}."] if again else []
    last = view.steps[-1]
    for pool, page_map in last.maps.items():
        alike: dict[object, list[Cell]] = {}
        for cell in page_map.wrong if page_map is not None and last.ran else ():
            alike.setdefault((*_lives(cell, pool, view.steps), cell.readers), []).append(cell)
        of = f" of the {pool} pool" if len(last.maps) > 1 else ""
        lines += [_history_of(cells, of, pool, view) for cells in alike.values()]
    return lines


def _lives(cell: Cell, pool: str, steps: list[Step]) -> Iterator[tuple[str, tuple[Holder, ...]]]:
    """Yield the cell's owners after each change of owners, with the label of the step."""
    last: tuple[Holder, ...] | None = None
    for step in steps if cell.pages else ():
        page_map = step.maps.get(pool) if step.ran else None
        cells = page_map.cells if page_map else ()
        now = next((other for other in cells if other.pages == cell.pages), None)
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
    whose = f". Owners: {', '.join(past)}" if len(past) > 1 else ""
    between = ": " if cells[0].kind == STALE else " "
    return f"{what}{pool_word}{between}{now}{whose}"
