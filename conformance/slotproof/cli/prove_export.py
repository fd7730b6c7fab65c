"""``slotproof prove export``: what the proofs used, for the documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slotproof.cli.options import JsonOption, jobs_count, writable_file, writing, z3_missing
from slotproof.cli.progress_line import progress_bar
from slotproof.cli.proof_options import ProofJobsOption
from slotproof.support.files import write_whole
from slotproof.support.terminal import json_text, say, say_json


def export(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where it is written.")],
    jobs: ProofJobsOption = 0,
    as_json: JsonOption = False,
) -> int:
    """Prove everything, and refute every known bug; keep what the proofs used in a file."""
    try:
        from slotproof_model.proofs import cores, prove as proofs
    except ModuleNotFoundError as error:
        raise z3_missing(error) from None
    from slotproof_model.bugs.museum import EXHIBITS

    writable_file(path, "FILE")
    workers = jobs_count(jobs, 0) or None
    with progress_bar(not as_json) as tell:
        results, vacuity = proofs.prove(
            page_sizes=[*proofs.PAGE_SIZES, None],
            jobs=workers,
            tell=lambda done, count: tell("proving", done, count),
        )
        museum = {}
        for done, (name, exhibit) in enumerate(EXHIBITS.items()):
            tell("known bugs", done, len(EXHIBITS))
            spec = exhibit.spec
            found, _ = proofs.prove(spec, [cores.CORES_AT], workers, spec.rewritten or None)
            museum[name] = cores.refutations(found)
    unproved = [each.name for each in results if each.status != "proved"]
    unproved += [f"{each.transition} / {each.problem}" for each in vacuity if each.vacuous]
    document = cores.document(results, unproved, museum)
    with writing(path, "FILE"):
        write_whole(path, json_text(document))
    status = int(bool(unproved))
    if as_json:
        say_json({"status": status, "file": str(path), **document})
    else:
        say(f"{len(results)} obligations, {len(unproved)} not proved; written to {path}")
    return status
