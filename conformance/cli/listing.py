"""``slotproof list``: what there is to name on the command line and in reports."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from slotproof.conformance.cli.options import JsonOption
from slotproof.conformance.terminal import say, say_json


class Things(StrEnum):
    """What can be listed."""

    ENGINES = "engines"
    MUTANTS = "mutants"
    TRANSITIONS = "transitions"
    INVARIANTS = "invariants"
    PROFILES = "profiles"
    CONFIGS = "configs"


def list_things(
    what: Annotated[Things, typer.Argument(help="What to list.")], as_json: JsonOption = False
) -> int:
    """List engines, mutants, transitions, invariants, profiles or configs."""
    table = _TABLES[what]()
    if as_json:
        say_json(table)
        return 0
    width = max(map(len, table))
    for name, entry in table.items():
        say(f"{name:<{width}}  {entry['sentence']}")
    return 0


def _engines() -> dict[str, Any]:
    return {
        "reference": {"sentence": "the reference engine, in this process"},
        "reference:MUTANT": {"sentence": "the reference engine with one known bug"},
        "reference-transformer": {
            "sentence": "the reference engine with a tiny transformer for a model; so with :MUTANT"
        },
        "sglang==RELEASE": {"sentence": "that SGLang release, in an environment made for it"},
        "sglang": {"sentence": "the SGLang build of the environment named by --python"},
        "module:factory": {"sentence": "whatever engine that function makes, in this process"},
        "cmd:PROGRAM ARGS": {"sentence": "a driver that speaks the protocol on its pipes"},
    }


def _mutants() -> dict[str, Any]:
    from slotproof.impl.mutants import MUTANTS

    return {
        name: {"sentence": mutant.sentence, "source": mutant.pr, "breaks": list(mutant.breaks)}
        for name, mutant in MUTANTS.items()
    }


def _transitions() -> dict[str, Any]:
    from slotproof.model.expr import show
    from slotproof.model.transitions import TRANSITIONS

    return {
        each.id: {
            "sentence": each.sentence,
            "params": list(each.names),
            "guard": {name: show(expr) for name, expr in each.full_guard.items()},
            "source": each.source,
        }
        for each in TRANSITIONS.values()
    }


def _invariants() -> dict[str, Any]:
    from slotproof.model.expr import show
    from slotproof.model.invariants import INVARIANTS

    return {
        each.id: {
            "sentence": each.sentence,
            "kind": each.kind.value,
            "conjuncts": {name: show(expr) for name, expr in each.conjuncts.items()},
            "observed": each.observed,
        }
        for each in INVARIANTS.values()
    }


def _profiles() -> dict[str, Any]:
    from slotproof.model.profiles import PROFILES

    return {
        name: {"sentence": profile.sentence, "choices": dict(profile.choices)}
        for name, profile in PROFILES.items()
    }


def _configs() -> dict[str, Any]:
    from slotproof.conformance.protocol.config import CONFIGS, EngineConfig

    plain = EngineConfig().to_json()
    result = {}
    for name, config in CONFIGS.items():
        fields = config.to_json()
        words = [f"{key}={value}" for key, value in fields.items() if value != plain[key]]
        result[name] = {"sentence": ", ".join(words) or "the plain one", "config": fields}
    return result


_TABLES = {
    Things.ENGINES: _engines,
    Things.MUTANTS: _mutants,
    Things.TRANSITIONS: _transitions,
    Things.INVARIANTS: _invariants,
    Things.PROFILES: _profiles,
    Things.CONFIGS: _configs,
}
