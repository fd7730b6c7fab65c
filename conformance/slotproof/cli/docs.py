"""``slotproof docs``: the spec documents, written or checked."""

from __future__ import annotations

from pathlib import Path

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import JSON, answer, option, writing

FOLDER = Path("docs/reference/spec")


def docs(
    check: bool = option("--check", "Output", "Write nothing. Fail if a document is stale.", False),
    out: Path = option("--out DIR", "Output", "Folder for the documents.", FOLDER),
    as_json: bool = JSON,
) -> int:
    """Write the spec documents: transitions, invariants, life cycles, bugs, profiles, TLA+."""
    if check and not out.is_dir():
        raise UsageProblem(f"there is no {out}: run the command in a checkout, or give --out")
    if out == FOLDER and not FOLDER.parent.is_dir():
        raise UsageProblem(f"no {FOLDER.parent} here: run slotproof in a checkout, or give --out")
    from slotproof.spec_documents import contents

    wanted = contents.documents()
    if check:
        stale = contents.stale(wanted, out)
        hint = f"stale documents: {', '.join(stale)}; `slotproof docs` writes them"
        fine = f"{len(wanted)} documents in {out} are up to date"
        document = {"status": int(bool(stale)), "stale": stale}
        return answer(document, [hint if stale else fine], as_json)
    with writing(out):
        written = contents.write_all(wanted, out)
    text = f"{len(wanted)} documents in {out}: {len(written)} changed"
    return answer({"status": 0, "written": written}, [text], as_json)
