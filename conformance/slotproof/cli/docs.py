"""``slotproof docs``: the spec documents, written, checked, compared with an older spec."""

from __future__ import annotations

from pathlib import Path

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import JSON, answer, option, writing

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
        from slotproof.spec_documents import changes

        try:
            found = changes.since(diff)
        except changes.NoSpec as problem:
            raise UsageProblem(str(problem)) from None
        document = {"status": 0, "revision": diff, "changes": [each._asdict() for each in found]}
        text = changes.text(found, diff).removesuffix("\n")
        return answer(document, text.split("\n"), as_json)
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
        document = {"status": int(bool(stale)), "stale": stale}
        return answer(document, [hint if stale else fine], as_json)
    with writing(out):
        written = contents.write_all(wanted, out)
    text = f"{len(wanted)} documents in {out}: {len(written)} changed"
    return answer({"status": 0, "written": written}, [text], as_json)
