"""``slotproof list``: names used on the command line and in reports."""

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
    "reference": "the reference engine, in this process, or on a GPU with @cuda",
    "reference:MUTANT": "the reference engine with one known bug",
    "reference-transformer": "the reference engine with a tiny transformer as its model, also with "
    ":MUTANT",
    f"{FIRST.name}==RELEASE": f"this {FIRST.title} release, in an environment created for it",
    f"{FIRST.name}@PYTHON": f"the {FIRST.title} build installed for this Python",
    **{
        form: f"the same for {family.title}"
        for family in list(FAMILIES.values())[1:]
        for form in (f"{family.name}==RELEASE", f"{family.name}@PYTHON")
    },
    "module:factory": "the engine returned by this Python function, in this process",
    "cmd:PROGRAM ARGS": "a driver program, which speaks the protocol on its pipes",
}
"""Forms of an ``--engine`` argument."""

Things = StrEnum(
    "Things", ["ENGINES", "MUTANTS", "PATCHES", "TRANSITIONS", "INVARIANTS", "PROFILES", "CONFIGS"]
)
"""Kinds of names to list."""


def list_things(
    what: Things = typer.Argument(metavar="WHAT", help="Kind of names."), as_json: bool = JSON
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
                name: {"sentence": bug.sentence, "source": bug.pr, "breaks": list(bug.breaks)}
                for name, bug in mutant_records().items()
            }
        case Things.PATCHES:
            return {
                name: {"sentence": sentence, "engine": family.name}
                for family in FAMILIES.values()
                for name, sentence in family.patches.items()
            }
        case Things.TRANSITIONS:
            return {
                transition.id: {
                    "sentence": transition.sentence,
                    "params": list(transition.names),
                    "guard": {name: show(expr) for name, expr in transition.full_guard.items()},
                    "source": transition.source,
                }
                for transition in TRANSITIONS.values()
            }
        case Things.INVARIANTS:
            return {
                invariant.id: {
                    "sentence": invariant.sentence,
                    "kind": invariant.kind.value,
                    "conjuncts": {name: show(expr) for name, expr in invariant.conjuncts.items()},
                    "observed": invariant.observed,
                }
                for invariant in INVARIANTS.values()
            }
        case Things.PROFILES:
            return {
                name: {"sentence": profile.sentence, "choices": dict(profile.choices)}
                for name, profile in PROFILES.items()
            }
        case Things.CONFIGS:
            return {name: _config(config.to_json()) for name, config in (CONFIGS | SERVED).items()}


def _config(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with its non-default values, or the default one with all values."""
    plain = EngineConfig().to_json()
    other = [f"{key}={value}" for key, value in fields.items() if value != plain.get(key)]
    every = [f"{key}={value}" for key, value in fields.items() if value]
    return {"sentence": ", ".join(other) or f"the default: {', '.join(every)}", "config": fields}
