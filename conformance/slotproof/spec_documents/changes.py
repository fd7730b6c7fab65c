"""What changed in the spec since a git revision: transition by transition, field by field."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import slotproof_model
from slotproof.support import children
from slotproof_model.text.outline import Outline, outline

MODEL = Path(slotproof_model.__file__).resolve().parent
PLACE = "model/slotproof_model"
"""Where a checkout has it."""
READERS = tuple(f"text/{name}.py" for name in ("idioms", "named", "outline", "render"))
"""Modules of today that read the spec of then: what differs is then the spec."""
_READ = """
import json, pathlib, slotproof_model
from slotproof_model.text.outline import outline
there = pathlib.Path("model/slotproof_model").resolve()
assert pathlib.Path(slotproof_model.__file__).parent == there
print(json.dumps(outline()))
"""


class NoSpec(Exception):
    """There is none to compare with; one line that says why."""


class Change(TypedDict):
    """One thing that the spec says otherwise. ``None``: it says nothing of it."""

    section: str
    name: str
    field: str
    before: str | None
    after: str | None


def since(revision: str) -> list[Change]:
    """What the spec in this checkout says and did not say at the revision.

    Raises :class:`NoSpec` where there is no git, no checkout, no such revision, or no
    spec in it.
    """
    return list(between(_outline_at(revision), outline()))


def between(old: Outline, new: Outline) -> Iterator[Change]:
    """What differs.

    >>> old = {"transitions": {"T-A": {"sentence": "one"}}}
    >>> new = {"transitions": {"T-A": {"sentence": "two"}}}
    >>> [(each["field"], each["before"], each["after"]) for each in between(old, new)]
    [('sentence', 'one', 'two')]
    """
    for section in dict.fromkeys([*new, *old]):
        theirs, ours = old.get(section, {}), new.get(section, {})
        for name in dict.fromkeys([*ours, *theirs]):
            before, after = theirs.get(name, {}), ours.get(name, {})
            for field in dict.fromkeys([*after, *before]):
                was, now = before.get(field), after.get(field)
                if was != now:
                    yield Change(section=section, name=name, field=field, before=was, after=now)


def text(changes: list[Change], revision: str) -> str:
    """The changes for a reader.

    >>> print(text([], "main"))
    the spec says what it said at main
    >>> change = Change(section="terms", name="known", field="is", before="x", after="y")
    >>> print(text([change], "main"))
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
    last = ("", "")
    for each in changes:
        here = (each["section"], each["name"])
        if here != last:
            lines += ["", f"{each['section']}: {each['name']}"]
            last = here
        lines.append(f"  {each['field']}")
        lines += [f"    − {each['before']}"] if each["before"] is not None else []
        lines += [f"    + {each['after']}"] if each["after"] is not None else []
    return "\n".join(lines)


def _outline_at(revision: str) -> Outline:
    """The spec of a revision, read by a process that has that model and today's readers."""
    top = _git(
        MODEL, "rev-parse", "--show-toplevel", problem="--diff needs a checkout of slotproof"
    )
    if Path(top).resolve() / PLACE != MODEL:
        raise NoSpec("--diff needs a checkout of slotproof, and this one is installed")
    named = ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"]
    commit = _git(MODEL, *named, problem=f"--diff: there is no revision {revision!r}")
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder).resolve()
        archive = ["archive", f"--output={here}/spec.tar", commit, "--"]
        missing = f"--diff: there is no spec at {revision}: no {PLACE}/spec/transitions.py"
        _git(Path(top), *archive, PLACE, f"{PLACE}/spec/transitions.py", problem=missing)
        shutil.unpack_archive(here / "spec.tar", here, filter="data")
        for name in READERS:
            shutil.copyfile(MODEL / name, here / PLACE / name)
        # Python in a folder imports from there first.
        paths = {"PYTHONPATH": str(here / "model"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = children.run([sys.executable, "-c", _READ], cwd=here, env={**os.environ, **paths})
    if done.returncode:
        why = (done.stderr.decode().strip().splitlines() or ["no reason given"])[-1]
        raise NoSpec(f"--diff: the spec at {revision} can't be read: {why}")
    found: Outline = json.loads(done.stdout)
    return found


def _git(folder: Path, *arguments: str, problem: str) -> str:
    """What git says; the problem in one line where it refuses."""
    git = shutil.which("git")
    if git is None:
        raise NoSpec("--diff needs git")
    done = children.run([git, "-C", folder, *arguments])
    if done.returncode:
        raise NoSpec(problem)
    return done.stdout.decode().strip()
