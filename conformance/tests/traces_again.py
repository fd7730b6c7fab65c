"""``make traces``: every committed trace recorded again, by the build that it was found on and the
code of today.

A trace is written again in the form that it had, with its states or without, if it still shows the
clause that it is kept for. Otherwise the file stays, the program says so and ends with status 1.
In its scope are all traces in ``docs/findings`` and those of the snapshots. A trace beside a matrix
keeps its commands, which the table counts.
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
"""The trace of a documented choice: it is not judged any more, so that no replay shows it."""
PATIENCE = 600.0
"""Seconds for a step, and for the start of a build on a busy machine."""


class NotShown(Exception):
    """A trace does not show any more what it is kept for."""


def committed(only: str = "*.itf.json") -> list[Path]:
    """Return the traces in scope whose path in the repository ends as a pattern says."""
    paths = sorted([*FINDINGS.rglob("*.itf.json"), *SNAPSHOTS.glob("*.itf.json")])
    return [path for path in paths if path.match(only) and not path.match(CHOICE)]


def build_of(trace: Trace) -> EngineSpec:
    """Return the build that a trace was found on. A driver's option is in the trace's command."""
    if not trace.spec.startswith("cmd:"):
        return EngineSpec(trace.found_on, step_timeout=PATIENCE, patches=trace.patches)
    name, _, release = trace.engine.partition(" ")
    python = of_release(f"{name}=={release}").python
    command = [str(python), str(FAMILIES[name].driver), *_options(trace)]
    return EngineSpec(f"cmd:{shlex.join(command)}", step_timeout=PATIENCE)


def spec_of(trace: Trace) -> str:
    """Return the ``--engine`` argument that the file gives, without a path of this machine."""
    if not trace.spec.startswith("cmd:"):
        return trace.found_on
    driver = FAMILIES[trace.engine.partition(" ")[0]].driver
    return " ".join(["cmd:ENV/bin/python", driver.relative_to(ROOT).as_posix(), *_options(trace)])


def _options(trace: Trace) -> list[str]:
    return [word for word in shlex.split(trace.spec) if word.startswith("--")]


def recorded(old: Trace, engine: Engine) -> Trace:
    """Return the trace as it is to be written. Raises :class:`NotShown`."""
    argument = spec_of(old)
    new = old.again(engine, argument, old.chosen_profile)
    new = replace(new, build=replace(built(engine), argument=argument))
    wanted = old.violations[0].clause
    if wanted not in {each.clause for each in new.violations}:
        shown = ", ".join(each.clause for each in new.violations) or "it conforms"
        raise NotShown(f"does not show {wanted} any more: {shown}")
    return new if old.states else new.without_states()


def by_release(family: str) -> dict[str, list[Path]]:
    """Return the traces of an engine's releases by what their names say: ENGINE-RELEASE-WHAT."""
    found = defaultdict(list)
    for path in committed(f"{family}-*.itf.json"):
        found[path.name.split("-")[1]].append(path)
    return dict(found)


def by_build(paths: Iterable[Path]) -> dict[tuple[str, ...], list[tuple[Path, Trace]]]:
    """Return traces by what has to be started for them."""
    found = defaultdict(list)
    for path in paths:
        trace = load_trace(path)
        found[trace.engine, trace.spec.partition(":")[0], *_options(trace), *trace.patches].append(
            (path, trace)
        )
    return found


@dataclass(frozen=True)
class Made:
    """A committed trace, and its file as today's code writes it."""

    path: Path
    text: str = ""
    why_not: str = ""
    """Why there is no text."""

    @property
    def stale(self) -> bool:
        return self.text != self.path.read_text(encoding="utf-8")


def made(paths: Iterable[Path]) -> Iterator[Made]:
    """Record traces again, each build started once. Nothing is written."""
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
        for folder in (default_folder(), ROOT):  # of this machine, in an engine's traceback
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
    for each in made(paths):
        failed += bool(each.why_not)
        said = each.why_not or ("recorded" if each.stale else "as it was")
        if not each.why_not:
            write_whole(each.path, each.text)
        print(f"{each.path.relative_to(ROOT)}: {said}", flush=True)
    print(f"{len(paths) - failed} of {len(paths)} recorded in {time.monotonic() - begin:.0f} s")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
