"""``slotproof prove smtlib``: the obligations as files that any SMT solver reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotproof.cli.errors import UsageProblem
from slotproof.cli.options import JsonOption, writing, z3_missing
from slotproof.cli.proof_options import (
    INIT,
    AnyOption,
    PageSizeOption,
    TransitionOption,
    known_transitions,
    page_sizes,
)
from slotproof.support.files import write_whole
from slotproof.support.terminal import say, say_json
from slotproof_model.spec.transitions import TRANSITIONS


def smtlib(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the files are written.")],
    page_size: PageSizeOption = None,
    any_page_size: AnyOption = False,
    transition: TransitionOption = None,
    as_json: JsonOption = False,
) -> int:
    """Write the obligations as SMT-LIB: a file for each transition, layer and page size."""
    try:
        from slotproof_model.proofs import prove as proofs
    except ModuleNotFoundError as error:
        raise z3_missing(error) from None
    from slotproof_model.exports.smtlib import scripts
    from slotproof_model.spec.whole import Spec

    known_transitions(transition)
    sizes = page_sizes(page_size, any_page_size, (*proofs.PAGE_SIZES, None))
    if folder.exists() and not folder.is_dir():
        raise UsageProblem(f"DIR {folder}: is no folder")
    with writing(folder, "DIR"):
        folder.mkdir(parents=True, exist_ok=True)
    files = obligations = 0
    for size in sizes:
        for name in transition or (INIT, *TRANSITIONS):
            for script in scripts(Spec(), name, size):
                with writing(folder / script.file, "DIR"):
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
