"""Whether a trace could be shorter, as far as the spec can tell.

The spec with the same bug has a shortest counterexample of one session alone, by
proof (``prove --mutant``). A trace that takes as many transitions to its violation is
as short as can be, within the spec's granularity: an engine does several in one
iteration.
"""

from __future__ import annotations

from slotproof.conformance.traces.trace import Trace
from slotproof.model.invariants import INVARIANTS
from slotproof.model.museum import EXHIBITS


def compare(trace: Trace) -> dict[str, int | str] | None:
    """The figures and a sentence; ``None`` where the two are not about the same thing.

    They are if the spec has the bug at this page size, one client's session took part,
    and the clause is one that the spec has a formula for.
    """
    engine, _, name = trace.spec.partition(":")
    exhibit = EXHIBITS.get(name) if engine == "reference" else None
    taken = sum(len(row.transitions) for row in trace.rows)
    clients = {row.command.get("session") for row in trace.rows if row.command["do"] == "submit"}
    stated = any(INVARIANTS[each.invariant].conjuncts for each in trace.violations)
    if (
        exhibit is None
        or exhibit.page_size != trace.config.page_size
        or len(clients) != 1
        or not stated
        or taken < exhibit.depth
    ):
        return None
    need = exhibit.depth
    if taken == need:
        text = f"{taken} transitions, as few as the spec with this bug needs: none is shorter"
    else:
        text = (
            f"{taken} transitions; the spec with this bug needs {need} "
            f"(slotproof prove --mutant {name})"
        )
    return {"transitions": taken, "spec": need, "text": text}
