"""What a value may be, for completion in a shell: names that begin as the word does.

``cmd:…`` and ``module:factory`` have no list. What can't be read (a broken store of environments)
is no reason to complain between two keys: then there are fewer names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from slotproof.engines.mutants import mutant_records
from slotproof.engines.registry import MODELS
from slotproof.environments.families import FAMILIES
from slotproof.environments.store import Store, default_folder
from slotproof.protocol.config import CONFIGS
from slotproof.search import baseline as baselines
from slotproof_model.spec.profiles import PROFILES
from slotproof_model.spec.transitions import TRANSITIONS

Complete = Callable[[str], list[str]]


def _some(names: Callable[[], Iterable[str]]) -> Complete:
    """What typer asks: the names that begin with what is there."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def _releases() -> Iterator[str]:
    """Those that have an environment."""
    try:
        yield from (entry.name for entry in Store(default_folder()).entries() if entry.release)
    except (OSError, ValueError):
        return


def _engines() -> Iterator[str]:
    yield from MODELS
    yield from (f"{model}:{mutant}" for model in MODELS for mutant in mutant_records())
    yield from FAMILIES
    yield from _releases()
    yield from ("cmd:",)


def _exhibits() -> Iterator[str]:
    try:
        from slotproof_model.bugs.museum import EXHIBITS
    except ModuleNotFoundError:  # Z3
        return
    yield from EXHIBITS


def _mends() -> Iterator[str]:
    yield from ("all", "none")
    yield from (name for family in FAMILIES.values() for name in family.mends)


engines = _some(_engines)
environments = _some(_releases)
configs = _some(lambda: CONFIGS)
profiles = _some(lambda: PROFILES)
clauses = _some(lambda: sorted(baselines.clauses()))
transitions = _some(lambda: ("INIT", *TRANSITIONS))
exhibits = _some(_exhibits)
mends = _some(_mends)
devices = _some(lambda: ("cpu", "cuda"))
