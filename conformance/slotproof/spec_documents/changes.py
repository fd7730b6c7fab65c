"""What changed in the spec since a git revision: transition by transition, field by field."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import slotproof_model
from slotproof.support import children
from slotproof_model.text.outline import outline

MODEL = Path(slotproof_model.__file__).resolve().parent
PLACE = "model/slotproof_model/"
"""Where a checkout has it."""
READERS = tuple(f"text/{name}.py" for name in ("idioms", "named", "outline", "render"))
"""Modules of today that read the spec of then: what differs is then the spec."""
_READ = (
    "import json; from slotproof_model.text.outline import outline; print(json.dumps(outline()))"
)


class NoSpec(Exception):
    """There is none to compare with; one line that says why."""


class Change(NamedTuple):
    """One thing that the spec says otherwise. ``None``: it says nothing of it."""

    section: str
    name: str
    field: str
    before: str | None
    after: str | None


def since(revision: str) -> list[Change]:
    """Return what the spec in this checkout says and did not say at the revision.

    Raises :class:`NoSpec` where there is no git, no checkout, no such revision, or no
    spec in it.
    """
    return list(between(_outline_at(revision), outline()))


def between(old: Mapping[str, Any], new: Mapping[str, Any], *place: str) -> Iterator[Change]:
    """Yield what differs, in the order of the new outline.

    >>> old = {"transitions": {"T-A": {"sentence": "one"}}}
    >>> new = {"transitions": {"T-A": {"sentence": "two"}}}
    >>> [each[2:] for each in between(old, new)]
    [('sentence', 'one', 'two')]
    """
    for name in dict.fromkeys([*new, *old]):
        was, now = old.get(name), new.get(name)
        if len(place) < 2:
            yield from between(was or {}, now or {}, *place, name)
        elif was != now:
            section, of = place
            yield Change(section, of, name, was, now)


def text(changes: list[Change], revision: str) -> str:
    """Return the changes for a reader.

    >>> print(text([], "main"))
    the spec says what it said at main
    >>> print(text([Change("terms", "known", "is", "x", "y")], "main"))
    1 change since main
    <BLANKLINE>
    terms: known
      is
        − x
        + y
    """
    if not changes:
        return f"the spec says what it said at {revision}"
    lines = [f"{len(changes)} change{'s' * (len(changes) > 1)} since {revision}"]
    for (section, name), group in groupby(changes, itemgetter(0, 1)):
        lines += ["", f"{section}: {name}"]
        for each in group:
            lines.append(f"  {each.field}")
            sides = ("−", each.before), ("+", each.after)
            lines += [f"    {sign} {side}" for sign, side in sides if side is not None]
    return "\n".join(lines)


def _outline_at(revision: str) -> dict[str, Any]:
    """Read the spec of a revision in a process that has that model and today's readers."""
    problem = "--diff needs a checkout of slotproof"
    if _git("rev-parse", "--show-prefix", problem=problem) != PLACE:
        raise NoSpec(f"{problem}, and this one is installed")
    named = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    commit = _git(*named, problem=f"--diff: there is no revision {revision!r}")
    with tempfile.TemporaryDirectory() as folder:
        tar, model = Path(folder, "spec.tar"), Path(folder, PLACE)
        wanted = [f"--output={tar}", f"--prefix={PLACE}", commit, "--", ".", "spec/transitions.py"]
        problem = f"--diff: there is no spec at {revision}: no {PLACE}spec/transitions.py"
        _git("archive", *wanted, problem=problem)
        shutil.unpack_archive(tar, folder, filter="data")
        for name in READERS:
            shutil.copyfile(MODEL / name, model / name)
        paths = {"PYTHONPATH": str(model.parent), "PYTHONDONTWRITEBYTECODE": "1"}
        done = children.run([sys.executable, "-P", "-c", _READ], env={**os.environ, **paths})
    if done.returncode:
        why = (done.stderr.decode().strip().splitlines() or ["no reason given"])[-1]
        raise NoSpec(f"--diff: the spec at {revision} can't be read: {why}")
    return dict(json.loads(done.stdout))


def _git(*arguments: str, problem: str) -> str:
    """Return what git says of this checkout. Raises :class:`NoSpec` where it refuses."""
    if (git := shutil.which("git")) is None:
        raise NoSpec("--diff needs git")
    done = children.run([git, "-C", MODEL, *arguments])
    if done.returncode:
        raise NoSpec(problem)
    return done.stdout.decode().strip()
