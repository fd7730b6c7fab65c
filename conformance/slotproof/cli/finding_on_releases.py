"""Which releases have a finding: its trace, on every release whose environment is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import distributions
from pathlib import Path

from packaging.version import Version

from slotproof.cli.errors import UsageProblem
from slotproof.engines.base import EngineUnusable, built
from slotproof.engines.registry import EngineSpec
from slotproof.environments.store import Entry, Store, default_folder
from slotproof.matrices.named_findings import Refused, again
from slotproof.reports.alone import harness_of
from slotproof.reports.issue import Elsewhere
from slotproof.reports.trace import Trace

STEP_TIMEOUT = 60.0


def elsewhere(trace: Trace) -> list[Elsewhere]:
    """The newest release first. Raises :class:`UsageProblem` if there is no environment."""
    (family, _), store = harness_of(trace), Store(default_folder())
    made = [each for each in store.entries() if each.engine == family.name]
    if not (ready := [each for each in made if not store.damage(each)]):
        raise UsageProblem(
            f"there is no environment of {family.name} in {store.folder}: "
            f"`slotproof env create {family.name}=={family.example}` makes one"
        )
    return [
        Elsewhere(*_says(each, trace), ", ".join(_versions(store, each)))
        for each in sorted(ready, key=lambda each: Version(each.release), reverse=True)
    ]


def _says(entry: Entry, trace: Trace) -> tuple[str, str]:
    """Return the build that is there, and what the trace does on it, in a few words."""
    number = f"{entry.release}+unverified"
    try:
        with closing(EngineSpec(entry.name, step_timeout=STEP_TIMEOUT).open()) as engine:
            number = built(engine).number
            broken = again(engine, trace)[-1].violations
    except (Refused, EngineUnusable) as reason:
        return number, f"not tried: {reason}"
    if not broken:
        return number, "no"
    if {each.clause for each in trace.violations} & {each.clause for each in broken}:
        return number, "yes"
    return number, f"something else comes first: {broken[0].detail}"


def _versions(store: Store, entry: Entry) -> Iterator[str]:
    """Of torch and Python, as the environment has them."""
    sites = [entry.site, store.folder / entry.shared]
    for each in distributions(name="torch", path=list(map(str, filter(Path.is_dir, sites)))):
        yield f"torch {each.version}"
    yield f"Python {entry.python_version}"
