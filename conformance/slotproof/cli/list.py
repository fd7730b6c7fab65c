"""``slotproof list``: what there is to name on the command line and in reports."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import typer

from slotproof.cli.options import JSON, answer
from slotproof.engines.mutants import mutant_records
from slotproof.environments.families import FAMILIES, FIRST
from slotproof.protocol.config import CONFIGS, SERVED, EngineConfig
from slotproof_model.spec.expr import show
from slotproof_model.spec.invariants import INVARIANTS
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transitions import TRANSITIONS

ENGINES = {
    "reference": "the reference engine, in this process; with @cuda, on a GPU",
    "reference:MUTANT": "the reference engine with one known bug",
    "reference-transformer": "the reference engine with a tiny transformer for a model; so with "
    ":MUTANT",
    f"{FIRST.name}==RELEASE": f"that {FIRST.title} release, in an environment made for it",
    f"{FIRST.name}@PYTHON": f"the {FIRST.title} build of the environment of that Python",
    **{
        form: f"the same of {family.title}"
        for family in list(FAMILIES.values())[1:]
        for form in (f"{family.name}==RELEASE", f"{family.name}@PYTHON")
    },
    "module:factory": "whatever engine that function makes, in this process",
    "cmd:PROGRAM ARGS": "a driver that speaks the protocol on its pipes",
}
"""What an ``--engine`` argument may be."""

Things = StrEnum(
    "Things", ["ENGINES", "MUTANTS", "PATCHES", "TRANSITIONS", "INVARIANTS", "PROFILES", "CONFIGS"]
)
"""What can be listed."""


def list_things(
    what: Things = typer.Argument(metavar="WHAT", help="What to list."), as_json: bool = JSON
) -> int:
    """List engines, mutants, patches, transitions, invariants, profiles or configs."""
    table = _table(what)
    width = max(map(len, table))
    lines = (f"{name:<{width}}  {entry['sentence']}" for name, entry in table.items())
    return answer(table, lines, as_json)


def _table(what: Things) -> dict[str, Any]:
    match what:
        case Things.ENGINES:
            return {name: {"sentence": sentence} for name, sentence in ENGINES.items()}
        case Things.MUTANTS:
            return {
                name: {"sentence": each.sentence, "source": each.pr, "breaks": list(each.breaks)}
                for name, each in mutant_records().items()
            }
        case Things.PATCHES:
            return {
                name: {"sentence": sentence, "engine": family.name}
                for family in FAMILIES.values()
                for name, sentence in family.patches.items()
            }
        case Things.TRANSITIONS:
            return {
                each.id: {
                    "sentence": each.sentence,
                    "params": list(each.names),
                    "guard": {name: show(expr) for name, expr in each.full_guard.items()},
                    "source": each.source,
                }
                for each in TRANSITIONS.values()
            }
        case Things.INVARIANTS:
            return {
                each.id: {
                    "sentence": each.sentence,
                    "kind": each.kind.value,
                    "conjuncts": {name: show(expr) for name, expr in each.conjuncts.items()},
                    "observed": each.observed,
                }
                for each in INVARIANTS.values()
            }
        case Things.PROFILES:
            return {
                name: {"sentence": profile.sentence, "choices": dict(profile.choices)}
                for name, profile in PROFILES.items()
            }
        case Things.CONFIGS:
            return {name: _config(config.to_json()) for name, config in (CONFIGS | SERVED).items()}


def _config(fields: dict[str, Any]) -> dict[str, Any]:
    """What it has that the plain one has not; of that one, all that is not off."""
    plain = EngineConfig().to_json()
    other = [f"{key}={value}" for key, value in fields.items() if value != plain.get(key)]
    every = [f"{key}={value}" for key, value in fields.items() if value]
    sentence = ", ".join(other) or f"what the others differ from: {', '.join(every)}"
    return {"sentence": sentence, "config": fields}
