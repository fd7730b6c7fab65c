"""What the patches of a trace hide: its commands on the same release without them."""

from __future__ import annotations

import shlex
from contextlib import closing
from pathlib import Path

from slotproof.cli.errors import UsageProblem
from slotproof.cli.finding_on_releases import STEP_TIMEOUT
from slotproof.engines.base import built
from slotproof.engines.registry import EngineSpec
from slotproof.environments.store import Store, default_folder
from slotproof.reports.trace import Trace


def unpatched(trace: Trace, path: Path) -> Trace:
    """Return the trace of a replay without patches that still breaks the first clause.

    A file may name any program: only a release is started, in an environment that is there. Raises
    :class:`UsageProblem` with one line.
    """
    build, patches = trace.identity, ", ".join(trace.mends)
    store, name = Store(default_folder()), f"{build.name}=={build.release}"
    entry = store.find(name) if build.release else None
    if entry is None or store.damage(entry):
        file, argument = shlex.quote(str(path)), shlex.quote(trace.found_on)
        raise UsageProblem(
            f"{path} was found with patches ({patches}), and a report needs a trace without them: "
            f"slotproof replay {file} --engine {argument} --patch none --out NEW.itf.json makes one"
        )
    with closing(EngineSpec(name, step_timeout=STEP_TIMEOUT).open()) as engine:
        if not built(engine).release:
            raise UsageProblem(f"{entry.path} is not {name} any more, which {path} was found on")
        new = trace.again(engine, name, trace.chosen_profile)
    first = trace.violations[0].clause
    if first in (seen := [each.clause for each in new.violations]):
        return new
    does = f"breaks {seen[0]}, not {first}," if seen else "conforms"
    raise UsageProblem(f"{path}: the trace {does} on {name} without its patches ({patches})")
