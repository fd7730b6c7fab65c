"""A referee for session-slot KV accounting in LLM serving engines.

>>> from slotproof import Scenario
>>> with Scenario("reference") as engine:
...     engine.open("s1").transitions  # nothing runs yet: a command waits in the inbox
...     engine.step().transitions
[]
['T-OPEN']

Each name is imported at its first use. ``import slotproof`` alone imports neither torch nor Z3 nor
Hypothesis.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slotproof.engines.base import EngineUnusable
    from slotproof.logs.judging import validate
    from slotproof.reports.scenario import Happened, Scenario, Violated
    from slotproof.reports.trace import Trace, load_trace
    from slotproof.search.running import run

__version__ = "0.1.0"
__all__ = [
    "EngineUnusable",
    "Happened",
    "Scenario",
    "Trace",
    "Violated",
    "__version__",
    "load_trace",
    "run",
    "validate",
]

_PLACES = {
    "EngineUnusable": "engines.base",
    "Happened": "reports.scenario",
    "Scenario": "reports.scenario",
    "Trace": "reports.trace",
    "Violated": "reports.scenario",
    "load_trace": "reports.trace",
    "run": "search.running",
    "validate": "logs.judging",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'slotproof' has no attribute {name!r}")
    value = getattr(import_module(f"slotproof.{_PLACES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
