"""Descriptions of the reference engine's mutants, by name. Reading the descriptions needs no torch.

``python -m slotproof.engines.mutants`` writes ``mutants.json`` and needs torch. A test compares
that file with the mutants.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from slotproof.support.files import write_whole
from slotproof.support.terminal import json_text, say

FILE = Path(__file__).with_name("mutants.json")


@dataclass(frozen=True)
class MutantRecord:
    """Description of a mutant, without the code of ``slotproof_engine.mutants.Mutant``."""

    pr: str
    sentence: str
    breaks: tuple[str, ...]
    needs: Mapping[str, int | str | bool]


@cache
def mutant_records() -> dict[str, MutantRecord]:
    """Return the descriptions of all mutants by name, in the order of the engine's list.

    >>> mutant_records()["22753-sticky-active"].breaks
    ('INV-ONCE', 'INV-SUM-FULL')
    """
    table = json.loads(FILE.read_text(encoding="utf-8"))
    return {n: MutantRecord(**{**m, "breaks": tuple(m["breaks"])}) for n, m in table.items()}


def made() -> str:
    """Return the contents of ``mutants.json``. Needs torch."""
    from slotproof_engine.mutants import MUTANTS

    records = (MutantRecord(m.pr, m.sentence, m.breaks, dict(m.needs)) for m in MUTANTS.values())
    return json_text(dict(zip(MUTANTS, map(asdict, records), strict=True)))


if __name__ == "__main__":
    write_whole(FILE, made())
    say(f"{FILE.name}: {len(json.loads(made()))} mutants")
