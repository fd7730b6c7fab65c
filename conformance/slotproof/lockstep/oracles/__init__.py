"""Oracles, one per module. An oracle judges one observation and yields violations.

Each oracle is a function of an :class:`~slotproof.lockstep.observation.Observation`.
:data:`ORACLES` lists them in the order in which reports show them.
"""

from collections.abc import Callable, Iterator, Mapping

from slotproof.lockstep.observation import Observation, Violation
from slotproof.lockstep.oracles import (
    answers,
    content,
    contract,
    counts,
    economy,
    engine_check,
    history,
    limits,
    locks,
    lookup,
    matches,
    operators,
    owners,
    progress,
    reuse,
    rows,
    sessions,
    steps,
    tables,
)

Oracle = Callable[[Observation], Iterator[Violation]]

ORACLES: Mapping[str, Oracle] = {
    "counts": counts.judge,
    "rows": rows.judge,
    "pages": owners.judge,
    "locks": locks.judge,
    "matches": matches.judge,
    "economy": economy.judge,
    "reuse": reuse.judge,
    "lookup": lookup.judge,
    "history": history.judge,
    "content": content.judge,
    "lockstep": steps.judge,
    "checker": engine_check.judge,
    "answers": answers.judge,
    "progress": progress.judge,
    "contract": contract.judge,
    "sessions": sessions.judge,
    "limits": limits.judge,
    "tables": tables.judge,
    "operators": operators.judge,
}
