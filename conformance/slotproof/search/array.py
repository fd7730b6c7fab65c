"""Configurations of a run: a covering array of the features offered by an engine.

Bugs occur where two or three features meet. ``FEATURES`` lists the levels of each feature.
``FIELDS`` computes fields of a configuration from levels. ``CONSTRAINTS`` excludes combinations of
levels. An array of strength two has each possible pair of levels in at least one configuration. An
array of strength three has each possible triple of levels.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from covertable.main import Controller

from slotproof.engines.base import Capabilities
from slotproof.protocol.config import CHOSEN, LATER, OPTIONS, BadConfig, EngineConfig

Levels = tuple[Any, ...]
Row = dict[str, Any]

NAMES = {2: "pairs", 3: "triples"}
"""Name of an array, by strength. The configurations of ``pairs`` are ``pairs-01``, …"""

WAYS = tuple(sorted(CHOSEN - {"overlap"}))
"""Choices of vLLM's profile. An engine makes all of these choices, or none."""
FEATURES: dict[str, Levels] = {
    "page_size": (1, 4, 16),
    "pool": ("roomy", "context", "context - page", "context + page"),
    "max_running": (4, 1, 2, 6),
    "spare_rows": (0, 2),
    "window": (0, 2, 6),
    "swa_pool": ("none", "window", "window + page", "roomy"),
    "chunk": ("none", "page", "part", "two pages"),
    "reserve": (0, 50),
    "draft": (0, 2, 5),
    "topk": (1, 4),
    "overlap": (False, True),
    "batches": (2, 3),
    "retract": ("keep", "wipe"),
    "timeout": (300, 30, 1, 0),
    "aligned_reuse": (False, True),
    "ways": ((), WAYS),
    **dict.fromkeys(OPTIONS, (False, True)),
    "queue": (0, 2),
    "waiting_timeout": (0, 30),
    "running_timeout": (0, 60),
}
"""Levels of each feature. Sizes have levels at and around their limits."""


def _whole_pages(tokens: int, page_size: int) -> int:
    return -(-tokens // page_size) * page_size


def context_len(page_size: int, pool: str) -> int:
    return max(48 if pool == "roomy" else 32, 3 * page_size)


def total_tokens(page_size: int, pool: str, max_running: int) -> int:
    context = _whole_pages(context_len(page_size, pool), page_size)
    if pool == "roomy":
        return max(64, 2 * context if page_size > 4 else 16 * max_running)
    return context + {"-": -1, "+": 1}.get(pool.removeprefix("context")[1:2], 0) * page_size


def swa_tokens(
    page_size: int, pool: str, max_running: int, window: int, swa_pool: str, chunk: str
) -> int:
    if swa_pool == "none":
        return 0
    total = total_tokens(page_size, pool, max_running)
    least = _whole_pages(window + max(chunk_tokens(page_size, chunk), page_size), page_size)
    return min(total, {"window": least, "window + page": least + page_size}.get(swa_pool, total))


def chunk_tokens(page_size: int, chunk: str) -> int:
    page = max(4, page_size)
    return {"none": 0, "page": page, "part": page + page // 2}.get(chunk, 2 * page)


FIELDS: dict[str, Callable[..., Any]] = {
    "context_len": context_len,
    "total_tokens": total_tokens,
    "swa_tokens": swa_tokens,
    "chunk": chunk_tokens,
    "rows": lambda max_running, spare_rows: max_running + spare_rows,
}
"""Functions that compute configuration fields from features. Each parameter of a function is the
name of a feature. A field without a function takes its value from the feature with its name."""


CONSTRAINTS: tuple[Callable[..., bool], ...] = (
    lambda window, swa_pool: (window == 0) == (swa_pool == "none"),
    lambda draft, topk: topk == 1 or draft > 0,
    lambda overlap, batches: overlap or batches == 2,
    # No transition describes SGLang's first move of a restored turn's cursor without a tree.
    lambda window, swa_pool, no_tree: not no_tree or (window == 0 and swa_pool == "none"),
    lambda page_size, aligned_reuse: page_size > 1 or not aligned_reuse,
    lambda chunk, mixed: chunk != "none" or not mixed,
    lambda timeout, own_timeouts: timeout > 0 or not own_timeouts,
)
"""Tests that exclude combinations of levels that no engine can run, or that test nothing new."""


TOGETHER = ("page_size", "window", "draft")
"""Features that interact. Every array has each combination of the levels of these features."""


@dataclass(frozen=True)
class Array:
    """Configurations of a search, with their levels."""

    rows: dict[str, Row]
    """Levels of each configuration, by the configuration's name."""
    levels: dict[str, Levels]
    """Levels that the engine offers, for each feature."""
    offered: tuple[Capabilities, ...]

    @property
    def configs(self) -> dict[str, EngineConfig]:
        return {name: config_of(row) for name, row in self.rows.items()}

    @property
    def fixed(self) -> dict[str, Any]:
        """Features with a single offered level, mapped to this level."""
        return {name: every[0] for name, every in self.levels.items() if len(every) == 1}

    def share(self, size: int, names: Iterable[str]) -> tuple[int, int]:
        """Return how many tuples of ``size`` levels the rows ``names`` have, and how many exist."""
        several = [name for name, every in self.levels.items() if len(every) > 1]
        tables = [_table(test, self.levels) for of in self.offered for test in constraints(of)]
        ran = [self.rows[name] for name in names]
        possible = covered = 0
        for features in combinations(several, size):
            seen = {tuple(row[name] for name in features) for row in ran}
            allowed = [_projected(of, table, features) for of, table in tables]
            for row in product(*(self.levels[name] for name in features)):
                fits = all(tuple(row[i] for i in places) in able for places, able in allowed)
                possible += fits
                covered += fits and row in seen
        return covered, possible


Table = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""Features read by a condition, and the combinations of their levels that the condition allows."""


def _table(condition: Condition, levels: Mapping[str, Levels]) -> Table:
    test, needs = condition
    return needs, [row for row in product(*(levels[name] for name in needs)) if test(*row)]


def _projected(
    of: tuple[str, ...], table: list[tuple[Any, ...]], features: tuple[str, ...]
) -> tuple[list[int], set[tuple[Any, ...]]]:
    """Return the condition's features, as indices in ``features``, and their allowed levels."""
    shared = [name for name in of if name in features]
    columns = [of.index(name) for name in shared]
    able = {tuple(combination[column] for column in columns) for combination in table}
    return [features.index(name) for name in shared], able


def array(offered: Sequence[Capabilities], strength: int = 2) -> Array:
    """Return an array for all engines. Raises :class:`BadConfig` without a shared configuration."""
    made = levels(offered[0])
    for other in offered[1:]:
        theirs = levels(other)
        both = {n: tuple(x for x in all_ if x in theirs.get(n, all_)) for n, all_ in made.items()}
        made = {name: every or made[name] for name, every in both.items()}
    if not (every := [row for row in _rows(made, offered, strength) if not _refused(row, offered)]):
        who = "these builds share" if len(offered) > 1 else "the engine can take"
        raise BadConfig(f"{who} no configuration: name configurations with --config")
    width = max(2, len(str(len(every))))
    stem = NAMES.get(strength, "pairs")
    return Array({f"{stem}-{n:0{width}}": row for n, row in enumerate(every, 1)}, made, (*offered,))


def _refused(row: Row, offered: Sequence[Capabilities]) -> bool:
    return any(engine.refuses(config_of(row)) is not None for engine in offered)


def config_of(row: Row) -> EngineConfig:
    """Return the configuration made from levels."""
    fields = EngineConfig.__annotations__.keys()
    made = {name: level for name, level in row.items() if name in fields and name not in FIELDS}
    ways = dict.fromkeys(row["ways"], True)
    sizes = {name: make(*map(row.get, _needs(make))) for name, make in FIELDS.items()}
    named = {name: row[name] for name in FIELDS.keys() - FEATURES.keys() if name in row}
    if context := named.get("context_len"):
        sizes["total_tokens"] = max(sizes["total_tokens"], _whole_pages(context, row["page_size"]))
    return EngineConfig.from_json(made | ways | sizes | named)


def levels(offered: Capabilities) -> dict[str, Levels]:
    """Return the levels of each feature offered by an engine."""
    made = dict(FEATURES)
    made["page_size"] = _some(made["page_size"], sorted(offered.page_sizes))
    if "swa" not in offered.pools:
        made["window"], made["swa_pool"] = (0,), ("none",)
    able = {name: offered.config.get(name, [False]) or [False, True] for name in WAYS}
    fits = [way for way in made["ways"] if all((name in way) in able[name] for name in WAYS)]
    made["ways"] = tuple(fits) or (tuple(name for name in WAYS if able[name][0]),)
    for name, every in made.items():
        if name in LATER and name not in offered.config:
            made[name] = every[:1]
        elif offered.config.get(name) and name not in FIELDS:
            made[name] = _some(every, offered.config[name])
    return made | _named(offered, made)


def _named(offered: Capabilities, made: Mapping[str, Levels]) -> dict[str, Levels]:
    """Return sizes that the engine lists and no levels produce. These sizes become features."""
    return {
        name: _some((), values)
        for name, make in FIELDS.items()
        if name not in FEATURES
        and (values := offered.config.get(name))
        and not any(make(*row) in values for row in product(*(made[n] for n in _needs(make))))
    }


def _some(wanted: Levels, offered: Iterable[Any]) -> Levels:
    """Return offered levels: wanted levels, and if under two, also the first, middle and last."""
    known = list(offered)
    among = [level for level in wanted if level in known]
    if len(among) < 2:
        among += [known[0], known[len(known) // 2], known[-1]]
    return tuple(dict.fromkeys(among))


Condition = tuple[Callable[..., bool], tuple[str, ...]]
"""A test on levels, and the features whose levels are passed to the test."""


def constraints(offered: Capabilities) -> Iterator[Condition]:
    """Yield the conditions on the levels of a configuration."""
    for test in CONSTRAINTS:
        yield test, _needs(test)
    named = _named(offered, levels(offered))
    for name, make in FIELDS.items():
        if name not in named and (values := offered.config.get(name)):
            yield (lambda *row, make=make, values=values: make(*row) in values), _needs(make)
    if offered.whole_chunks:
        yield (lambda page, chunk: chunk_tokens(page, chunk) % page == 0), ("page_size", "chunk")
    if offered.rounds_in_chunks:
        yield _round_fits, ("page_size", "chunk", "draft", "topk")
    if offered.shallow_rounds:
        yield (lambda draft, batches: draft == 0 or batches == 2), ("draft", "batches")


def _round_fits(page_size: int, chunk: str, draft: int, topk: int) -> bool:
    return chunk == "none" or (topk == 1 and chunk_tokens(page_size, chunk) > draft)


def _needs(make: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(make).parameters)


def _rows(made: Mapping[str, Levels], offered: Sequence[Capabilities], strength: int) -> list[Row]:
    """Return the rows of an array. The first row has the first level of each feature."""
    first = {name: every[0] for name, every in made.items()}
    several = {name: every for name, every in made.items() if len(every) > 1}
    if len(several) < 2:
        return [first | {name: level} for name in several for level in several[name]] or [first]
    tests = [test for engine in offered for test in constraints(engine)]
    conditions = [_condition(*test, first, several) for test in tests]
    together = [name for name in TOGETHER if name in several]
    generated = Controller(
        several,
        strength=min(strength, len(several)),
        constraints=[condition for condition in conditions if condition["requires"]],
        presets=[{name: first[name] for name in several}],
        sub_models=[{"fields": together, "strength": 3}] if len(together) == 3 else None,
    ).make()
    return [first | row for row in generated]


def _condition(
    test: Callable[..., bool], needs: tuple[str, ...], first: Row, several: Mapping[str, Levels]
) -> dict[str, Any]:
    """Return a condition in the generator's form. Features with a single level are left out."""

    def evaluate(row: Row) -> bool:
        return test(*((first | row)[name] for name in needs))

    free = [name for name in needs if name in several]
    return {"operator": "fn", "requires": free, "evaluate": evaluate}
