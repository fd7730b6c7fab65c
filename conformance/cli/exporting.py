"""``slotproof prove --export``: what the proofs used, kept for the spec documents."""

from __future__ import annotations

from pathlib import Path

from slotproof.conformance.cli.options import writable_file, writing
from slotproof.conformance.files import write_whole
from slotproof.conformance.terminal import json_text, say, say_json


def export_cores(path: Path, jobs: int | None, as_json: bool) -> int:
    """Prove everything and every exhibit of the museum; status 1 if an obligation fails."""
    from slotproof.model import cores, prove as proofs
    from slotproof.model.museum import EXHIBITS

    writable_file(path, "--export")
    results, vacuity = proofs.prove(page_sizes=[*proofs.PAGE_SIZES, None], jobs=jobs)
    unproved = [each.name for each in results if each.status != "proved"]
    unproved += [f"{each.transition} / {each.problem}" for each in vacuity if each.vacuous]
    museum = {}
    for name, exhibit in EXHIBITS.items():
        spec = exhibit.spec
        found, _ = proofs.prove(spec, [cores.CORES_AT], jobs, spec.rewritten or None)
        museum[name] = cores.refutations(found)
    document = cores.document(results, unproved, museum)
    with writing(path, "--export"):
        write_whole(path, json_text(document))
    status = int(bool(unproved))
    if as_json:
        say_json({"status": status, "file": str(path), **document})
    else:
        say(f"{len(results)} obligations, {len(unproved)} not proved; written to {path}")
    return status
