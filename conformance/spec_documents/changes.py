"""What changed in the spec since a git revision: transition by transition, field by field."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

import slotproof.model
from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.engines import children
from slotproof.model.outline import Outline, outline

MODEL = Path(slotproof.model.__file__).resolve().parent
READERS = ("idioms.py", "named.py", "outline.py", "render.py")
"""Modules of today that read the spec of then: what differs is then the spec."""
_READ = """
import json, pathlib, slotproof.model
from slotproof.model.outline import outline
assert pathlib.Path(slotproof.model.__file__).parent == pathlib.Path("slotproof/model").resolve()
print(json.dumps(outline()))
"""


class Change(TypedDict):
    """One thing that the spec says otherwise. ``None``: it says nothing of it."""

    section: str
    name: str
    field: str
    before: str | None
    after: str | None


def since(revision: str) -> list[Change]:
    """What the spec in this checkout says and did not say at the revision.

    Raises :class:`UsageProblem` where there is no git, no checkout, no such revision, or no
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
                if before.get(field) != after.get(field):
                    yield Change(
                        section=section,
                        name=name,
                        field=field,
                        before=before.get(field),
                        after=after.get(field),
                    )


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
    top = Path(_git("rev-parse", "--show-toplevel", problem="--diff needs a checkout of slotproof"))
    if top.resolve() / "model" != MODEL:
        raise UsageProblem("--diff needs a checkout of slotproof, and this one is installed")
    commit = _git(
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{revision}^{{commit}}",
        problem=f"--diff: there is no revision {revision!r}",
    )
    _git(
        "cat-file",
        "-e",
        f"{commit}:model/transitions.py",
        problem=f"--diff: there is no spec at {revision}: no model/transitions.py",
    )
    archive = _run("git", "-C", str(top), "archive", "--format=tar", commit, "--", "model").stdout
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder).resolve()
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(here / "slotproof", filter="data")
        for name in READERS:
            (here / "slotproof" / "model" / name).write_bytes((MODEL / name).read_bytes())
        done = _run(sys.executable, "-c", _READ, within=here)
    if done.returncode:
        why = (done.stderr.decode().strip().splitlines() or ["no reason given"])[-1]
        raise UsageProblem(f"--diff: the spec at {revision} can't be read: {why}")
    found: Outline = json.loads(done.stdout)
    return found


def _git(*arguments: str, problem: str) -> str:
    """What git says; the problem in one line where it refuses."""
    done = _run("git", "-C", str(MODEL), *arguments)
    if done.returncode:
        raise UsageProblem(problem)
    return done.stdout.decode().strip()


def _run(
    program: str, *arguments: str, within: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """A program to its end; Python inside a folder imports from there first."""
    found = shutil.which(program)
    if found is None:
        raise UsageProblem(f"--diff needs {program}")
    paths = {"PYTHONPATH": str(within), "PYTHONDONTWRITEBYTECODE": "1"} if within else {}
    return children.run([found, *arguments], cwd=within, env={**os.environ, **paths})
