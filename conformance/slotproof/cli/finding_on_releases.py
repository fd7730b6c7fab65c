"""Replay of a trace on the installed releases, or without the trace's patches. slotproof starts
only releases, because a trace file may name any program."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from importlib.metadata import distributions
from pathlib import Path

from packaging.version import Version

from slotproof.cli.errors import UsageProblem
from slotproof.engines.base import Engine, EngineUnusable, built
from slotproof.engines.registry import EngineSpec
from slotproof.environments.store import Entry, Store, default_folder
from slotproof.matrices.named_findings import Refused, again as replayed
from slotproof.reports.alone import harness_of
from slotproof.reports.issue import Elsewhere
from slotproof.reports.trace import Trace


def elsewhere(trace: Trace) -> list[Elsewhere]:
    """Return the result of the trace on each installed release, newest first. Raises
    :class:`UsageProblem` if no environment is usable."""
    (family, _), store = harness_of(trace), Store(default_folder())
    made = [entry for entry in store.entries() if entry.engine == family.name]
    if not (ready := [entry for entry in made if not store.damage(entry)]):
        raise UsageProblem(
            f"there is no environment of {family.name} in {store.folder}: "
            f"`slotproof env create {family.name}=={family.example}` makes one"
        )
    return [
        Elsewhere(*_says(entry, trace), ", ".join(_versions(store, entry)))
        for entry in sorted(ready, key=lambda entry: Version(entry.release), reverse=True)
    ]


def unpatched(trace: Trace, path: Path) -> Trace:
    """Replay a trace without its patches on the same release, and return the new trace. Raises
    :class:`UsageProblem` unless the new trace violates the first clause of the old trace."""
    build, patches = trace.identity, ", ".join(trace.patches)
    store, name = Store(default_folder()), f"{build.name}=={build.release}"
    if (entry := store.find(name) if build.release else None) is None or store.damage(entry):
        file, argument = shlex.quote(str(path)), shlex.quote(trace.found_on)
        raise UsageProblem(
            f"{path} was found with patches ({patches}), and a report needs a trace without them; "
            f"write it: slotproof replay {file} --engine {argument} --patch none --out NEW.itf.json"
        )
    with _started(name) as engine:
        if not built(engine).release:
            raise UsageProblem(f"{entry.path} no longer holds {name}, the build of {path}")
        new = trace.again(engine, name, trace.chosen_profile)
    first = trace.violations[0].clause
    if first in (seen := [violation.clause for violation in new.violations]):
        return new
    does = f"breaks {seen[0]}, not {first}," if seen else "conforms"
    raise UsageProblem(f"{path}: the trace {does} on {name} without its patches ({patches})")


def _started(release: str) -> AbstractContextManager[Engine]:
    return closing(EngineSpec(release, step_timeout=60.0).open())


def _says(entry: Entry, trace: Trace) -> tuple[str, str]:
    """Return the version of the installed build, and the result of the trace on that build."""
    number = f"{entry.release}+unverified"
    try:
        with _started(entry.name) as engine:
            number = built(engine).number
            broken = replayed(engine, trace)[-1].violations
    except (Refused, EngineUnusable) as reason:
        return number, f"not tried: {reason}"
    if not broken:
        return number, "no"
    if {old.clause for old in trace.violations} & {new.clause for new in broken}:
        return number, "yes"
    return number, f"another violation comes first: {broken[0].detail}"


def _versions(store: Store, entry: Entry) -> Iterator[str]:
    """Yield the environment's versions of torch and Python."""
    sites = [entry.site, store.folder / entry.shared]
    for package in distributions(name="torch", path=list(map(str, filter(Path.is_dir, sites)))):
        yield f"torch {package.version}"
    yield f"Python {entry.python_version}"
