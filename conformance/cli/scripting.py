"""``slotproof prove --smtlib``: the obligations as files that any SMT solver reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from slotproof.conformance.cli.errors import UsageProblem
from slotproof.conformance.cli.options import writing
from slotproof.conformance.files import write_whole
from slotproof.conformance.terminal import say, say_json
from slotproof.model.transitions import TRANSITIONS

INIT = "INIT"


def write_scripts(
    folder: Path, page_sizes: Iterable[int | None], transitions: Iterable[str] | None, as_json: bool
) -> int:
    """A file for each transition, layer and page size, in one folder."""
    from slotproof.model.obligations import Spec
    from slotproof.model.smtlib import scripts

    if folder.exists() and not folder.is_dir():
        raise UsageProblem(f"--smtlib {folder}: is no folder")
    with writing(folder, "--smtlib"):
        folder.mkdir(parents=True, exist_ok=True)
    files = obligations = 0
    for size in page_sizes:
        for name in transitions or (INIT, *TRANSITIONS):
            for script in scripts(Spec(), name, size):
                with writing(folder / script.file, "--smtlib"):
                    write_whole(folder / script.file, script.text())
                files += 1
                obligations += len(script.goals)
    if as_json:
        say_json({"status": 0, "folder": str(folder), "files": files, "obligations": obligations})
    else:
        say(
            f"{obligations} obligations in {files} files of {folder}; a solver says `unsat` to "
            f"each: `cvc5 --incremental FILE` or `z3 FILE`"
        )
    return 0
