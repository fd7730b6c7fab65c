"""The mutants of the reference engine by name: what is known of each, also where torch is missing.

They are written on torch; ``mutants.json`` beside this is made of what they say of themselves:
``python -m slotproof.engines.mutants``. A test holds it to them.
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
class Known:
    """A mutant, without the code; see ``slotproof_engine.mutants.Mutant``."""

    pr: str
    sentence: str
    breaks: tuple[str, ...]
    needs: Mapping[str, int | str | bool]


@cache
def known_mutants() -> dict[str, Known]:
    """All of them by name, in their order.

    >>> known_mutants()["22753-sticky-active"].breaks
    ('INV-ONCE', 'INV-SUM-FULL')
    """
    table = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        name: Known(**{**fields, "breaks": tuple(fields["breaks"])})
        for name, fields in table.items()
    }


def made() -> str:
    """What the file has to be; this takes torch."""
    from slotproof_engine.mutants import MUTANTS

    return json_text(
        {
            name: asdict(Known(each.pr, each.sentence, each.breaks, dict(each.needs)))
            for name, each in MUTANTS.items()
        }
    )


if __name__ == "__main__":
    write_whole(FILE, made())
    say(f"{FILE.name}: {len(json.loads(made()))} mutants")
