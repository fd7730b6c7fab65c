"""Whether a trace could be shorter, as far as the spec can tell.

The spec with the same bug has a shortest counterexample, by proof (``prove
--mutant``). A trace that takes as many transitions to its violation is as short as
can be, within the spec's granularity: an engine does several in one iteration.
"""

from __future__ import annotations

from slotproof.conformance.traces.trace import Trace
from slotproof.model.museum import EXHIBITS


def compare(trace: Trace) -> dict[str, int | str] | None:
    """The figures and a sentence; ``None`` where the spec has no such bug, or no events tell."""
    engine, _, name = trace.spec.partition(":")
    exhibit = EXHIBITS.get(name) if engine == "reference" else None
    taken = sum(len(row.transitions) for row in trace.rows)
    if exhibit is None or not taken:
        return None
    need = exhibit.depth
    if taken <= need:
        text = f"{taken} transitions; the spec with this bug needs {need}: no shorter trace exists"
    else:
        text = (
            f"{taken} transitions; the spec with this bug needs only {need} "
            f"(slotproof prove --mutant {name})"
        )
    return {"transitions": taken, "spec": need, "text": text}
