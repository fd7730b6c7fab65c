"""One module per oracle: each looks at one observation and yields violations.

An oracle is a function of an :class:`~slotproof.conformance.observation.Observation`.
:data:`ORACLES` lists them in the order in which their findings are reported.
"""

from collections.abc import Callable, Iterator, Mapping

from slotproof.conformance.observation import Observation, Violation
from slotproof.conformance.oracles import (
    answers,
    checker,
    content,
    counts,
    history,
    locks,
    lockstep,
    pages,
    progress,
    rows,
)

Oracle = Callable[[Observation], Iterator[Violation]]

ORACLES: Mapping[str, Oracle] = {
    "counts": counts.judge,
    "rows": rows.judge,
    "pages": pages.judge,
    "locks": locks.judge,
    "history": history.judge,
    "content": content.judge,
    "lockstep": lockstep.judge,
    "checker": checker.judge,
    "answers": answers.judge,
    "progress": progress.judge,
}
