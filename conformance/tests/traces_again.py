"""``make traces``: record every committed trace again, on its build and with today's code.

The form is unchanged, with or without states. A trace is rewritten only if the build still
violates its clause. Otherwise the file stays, and the program reports it and exits with status 1.
The scope is ``docs/findings`` and the snapshots. The commands of traces beside a matrix stay: the
table counts them.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from slotproof.engines.base import Engine, EngineUnusable, built
from slotproof.engines.registry import EngineSpec
from slotproof.engines.releases import of_release
from slotproof.environments.families import FAMILIES
from slotproof.environments.store import default_folder
from slotproof.reports.trace import Trace, load_trace
from slotproof.support.files import write_whole
from slotproof.traces import itf

ROOT = Path(__file__).resolve().parents[2]
FINDINGS = ROOT / "docs" / "findings"
SNAPSHOTS = ROOT / "conformance" / "tests" / "snapshots"
CHOICE = "vllm-*-paused-session-pins.itf.json"
"""Traces of a documented choice. The referee no longer judges it, so no replay can violate it."""
PATIENCE = 600.0
"""Timeout in seconds for a step, and for the start of a build on a busy machine."""


class NotShown(Exception):
    """Raised if a trace no longer violates its clause."""


def committed(only: str = "*.itf.json") -> list[Path]:
    """Return the traces in scope with a path that matches the pattern at its end."""
    paths = sorted([*FINDINGS.rglob("*.itf.json"), *SNAPSHOTS.glob("*.itf.json")])
    return [path for path in paths if path.match(only) and not path.match(CHOICE)]


def build_of(trace: Trace) -> EngineSpec:
    """Return the build of a trace. A driver's option is in the trace's command."""
    if not trace.spec.startswith("cmd:"):
        return EngineSpec(trace.found_on, step_timeout=PATIENCE, patches=trace.patches)
    name, _, release = trace.engine.partition(" ")
    python = of_release(f"{name}=={release}").python
    command = [str(python), str(FAMILIES[name].driver), *_options(trace)]
    return EngineSpec(f"cmd:{shlex.join(command)}", step_timeout=PATIENCE)


def spec_of(trace: Trace) -> str:
    """Return the ``--engine`` argument for the file, without a path of this machine."""
    if not trace.spec.startswith("cmd:"):
        return trace.found_on
    driver = FAMILIES[trace.engine.partition(" ")[0]].driver
    return " ".join(["cmd:ENV/bin/python", driver.relative_to(ROOT).as_posix(), *_options(trace)])


def _options(trace: Trace) -> list[str]:
    return [word for word in shlex.split(trace.spec) if word.startswith("--")]


def recorded(old: Trace, engine: Engine) -> Trace:
    """Return the trace, recorded on the engine. Raises :class:`NotShown`."""
    argument = spec_of(old)
    new = old.again(engine, argument, old.chosen_profile)
    new = replace(new, build=replace(built(engine), argument=argument))
    wanted = old.violations[0].clause
    if wanted not in {violation.clause for violation in new.violations}:
        shown = ", ".join(violation.clause for violation in new.violations) or "it conforms"
        raise NotShown(f"does not show {wanted} any more: {shown}")
    return new if old.states else new.without_states()


def by_release(family: str) -> dict[str, list[Path]]:
    """Return the traces of an engine, by the release in their file names: ENGINE-RELEASE-WHAT."""
    traces = defaultdict(list)
    for path in committed(f"{family}-*.itf.json"):
        traces[path.name.split("-")[1]].append(path)
    return dict(traces)


def by_build(paths: Iterable[Path]) -> dict[tuple[str, ...], list[tuple[Path, Trace]]]:
    """Return the traces, grouped by the build to start."""
    builds = defaultdict(list)
    for path in paths:
        trace = load_trace(path)
        builds[trace.engine, trace.spec.partition(":")[0], *_options(trace), *trace.patches].append(
            (path, trace)
        )
    return builds


@dataclass(frozen=True)
class Made:
    """A committed trace, and its file as written by today's code."""

    path: Path
    text: str = ""
    why_not: str = ""
    """Reason for a missing text."""

    @property
    def stale(self) -> bool:
        return self.text != self.path.read_text(encoding="utf-8")


def made(paths: Iterable[Path]) -> Iterator[Made]:
    """Record traces again, starting each build once. Writes nothing."""
    for traces in by_build(paths).values():
        try:
            with closing(build_of(traces[0][1]).open()) as engine:
                for path, old in traces:
                    yield _made(path, old, engine)
        except EngineUnusable as reason:
            yield from (Made(path, why_not=str(reason)) for path, _ in traces)


def _made(path: Path, old: Trace, engine: Engine) -> Made:
    try:
        text = itf.text_of(recorded(old, engine))
        for folder in (default_folder(), ROOT):  # Paths of this machine, in an engine's traceback.
            text = text.replace(f"{folder}/", "")
        return Made(path, text)
    except (EngineUnusable, NotShown) as reason:
        return Made(path, why_not=str(reason))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make traces", description=__doc__)
    parser.add_argument("--only", metavar="GLOB", default="*.itf.json")
    asked = parser.parse_args()
    paths = committed(asked.only)
    if not paths:
        parser.error(f"no committed trace matches {asked.only}")
    failed, begin = 0, time.monotonic()
    for trace in made(paths):
        failed += bool(trace.why_not)
        said = trace.why_not or ("recorded" if trace.stale else "as it was")
        if not trace.why_not:
            write_whole(trace.path, trace.text)
        print(f"{trace.path.relative_to(ROOT)}: {said}", flush=True)
    print(f"{len(paths) - failed} of {len(paths)} recorded in {time.monotonic() - begin:.0f} s")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
