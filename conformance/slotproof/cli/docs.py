"""``slotproof docs``: the spec documents, written, checked, compared with an older spec."""

from __future__ import annotations

from pathlib import Path

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import JSON, option, writing
from slotproof.support.terminal import say, say_json, say_text

FOLDER = Path("docs/reference/spec")


def docs(
    check: bool = option("--check", "Output", "Write nothing; fail if a document is stale.", False),
    diff: str | None = option("--diff REV", "Output", "List what changed in the spec since REV."),
    out: Path = option("--out DIR", "Output", "Write the documents to this folder.", FOLDER),
    as_json: bool = JSON,
) -> int:
    """Write the spec documents: transitions, invariants, lives, bugs, profiles, TLA+."""
    if diff is not None:
        if check or out != FOLDER:
            raise UsageProblem("--diff compares two specs and writes nothing: give it --json only")
        return _diff(diff, as_json)
    if check and not out.is_dir():
        raise UsageProblem(f"there are no documents in {out}: run it in a checkout, or give --out")
    if out == FOLDER and not FOLDER.parent.is_dir():
        raise UsageProblem(f"there is no {FOLDER.parent} here: run it in a checkout, or give --out")
    from slotproof.spec_documents import contents

    wanted = contents.documents()
    if check:
        stale = contents.stale(wanted, out)
        hint = f"stale, write them anew with `slotproof docs`: {', '.join(stale)}"
        fine = f"{len(wanted)} documents in {out} are what the spec says"
        return _tell(int(bool(stale)), "stale", stale, as_json, hint if stale else fine)
    with writing(out):
        written = contents.write_all(wanted, out)
    text = f"{len(wanted)} documents in {out}: {len(written)} changed"
    return _tell(0, "written", written, as_json, text)


def _tell(status: int, key: str, names: list[str], as_json: bool, text: str) -> int:
    if as_json:
        say_json({"status": status, key: names})
    else:
        say(text)
    return status


def _diff(revision: str, as_json: bool) -> int:
    from slotproof.spec_documents import changes

    try:
        found = changes.since(revision)
    except changes.NoSpec as problem:
        raise UsageProblem(str(problem)) from None
    if as_json:
        shown = [each._asdict() for each in found]
        say_json({"status": 0, "revision": revision, "changes": shown})
    else:
        say_text(changes.text(found, revision))
    return 0
