"""Configurations are a covering array of the features that an engine offers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotproof.engines.base import Capabilities
from slotproof.engines.reference import InProcessEngine
from slotproof.protocol.config import CONFIGS, OPTIONS, BadConfig
from slotproof.search.array import CONSTRAINTS, FEATURES, Array, array
from slotproof.search.plan import Plan
from slotproof.support.statuses import INCONCLUSIVE

REFERENCE = InProcessEngine().capabilities
SERVER = replace(REFERENCE, config=REFERENCE.config | {name: [] for name in OPTIONS})
"""An engine with each option of a server."""
ENGINES: dict[str, Capabilities] = {
    "reference": REFERENCE,
    "server": SERVER,
    "bare": Capabilities(frozenset()),
    "pages of 8": replace(REFERENCE, page_sizes=(8,)),
    "pages of 32 and 256": replace(REFERENCE, page_sizes=(32, 256), whole_chunks=True),
    "rounds in chunks": replace(REFERENCE, rounds_in_chunks=True),
    "one way": replace(REFERENCE, config=REFERENCE.config | {"loan_publishes": [True]}),
    "a mixed way": replace(REFERENCE, config={"loan_publishes": [True], "drops_last": [False]}),
    "some sizes": replace(
        REFERENCE,
        page_sizes=(1, 8, 64),
        config=REFERENCE.config | {"draft": [0, 1, 3], "window": [0, 4], "topk": [1, 2]},
    ),
    **{
        f"one {name}": replace(REFERENCE, config=REFERENCE.config | {name: [value]})
        for name, value in {"rows": 64, "context_len": 4096, "total_tokens": 4096}.items()
    },
    "listed sizes": replace(REFERENCE, config=REFERENCE.config | {"total_tokens": [64, 96]}),
}


def shares(made: Array, size: int) -> tuple[int, int]:
    return made.share(size, made.rows)


@pytest.mark.parametrize("name", ENGINES)
def test_each_pair_of_levels_is_in_a_configuration_that_the_engine_takes(name: str) -> None:
    made = array([ENGINES[name]])
    covered, possible = shares(made, 2)
    assert 0 < covered == possible
    assert all(ENGINES[name].refuses(config) is None for config in made.configs.values())
    assert len(made.rows) <= 32


@pytest.mark.parametrize("name", ["reference", "bare", "pages of 8"])
def test_strength_three_has_each_triple(name: str) -> None:
    made, pairs = array([ENGINES[name]], 3), array([ENGINES[name]])
    covered, possible = shares(made, 3)
    assert covered == possible > shares(pairs, 3)[0]
    assert all(row.startswith("triples-") for row in made.rows)


def test_the_first_configuration_is_the_plainest() -> None:
    assert array([SERVER]).configs["pairs-01"] == CONFIGS["p1"]


def test_fewer_configurations_have_fewer_pairs() -> None:
    made = array([REFERENCE])
    one = made.share(2, ["pairs-01"])
    several = sum(len(every) > 1 for every in made.levels.values())
    assert one == (several * (several - 1) // 2, shares(made, 2)[1])


def test_no_impossible_pair_is_counted() -> None:
    """Without a window there is no pool for it, so some pairs are impossible."""
    made = array([REFERENCE])
    levels = [made.levels[name] for name in ("window", "swa_pool")]
    pairs = [(w, p) for w in levels[0] for p in levels[1] if CONSTRAINTS[0](w, p)]
    only = replace(made, levels={name: made.levels[name][:1] for name in made.levels})
    only = replace(
        only, levels=only.levels | dict(zip(("window", "swa_pool"), levels, strict=True))
    )
    assert shares(only, 2) == (len(pairs), len(pairs)) and len(pairs) < 12


def test_what_an_engine_does_not_offer_is_fixed() -> None:
    fixed = array([ENGINES["bare"]]).fixed
    assert fixed["page_size"] == 1 and fixed["window"] == 0 and fixed["priority"] is False
    assert fixed.keys() < FEATURES.keys()
    assert array([SERVER]).fixed == {}


def test_what_an_engine_offers_beside_the_levels_is_taken() -> None:
    """Some of an engine's values become levels. Sizes made by no level are features."""
    some = array([ENGINES["some sizes"]])
    assert (some.levels["page_size"], some.levels["draft"]) == ((1, 8, 64), (0, 1, 3))
    assert (some.levels["window"], some.levels["topk"]) == ((0, 4), (1, 2))
    for name in ("rows", "context_len", "total_tokens"):
        made = array([ENGINES[f"one {name}"]])
        (value,) = ENGINES[f"one {name}"].config[name]
        assert {getattr(config, name) for config in made.configs.values()} == {value}
        assert made.fixed[name] == value


def test_sizes_are_at_their_boundaries() -> None:
    configs = array([REFERENCE]).configs.values()
    beside = {(c.total_tokens - c.context_len) // c.page_size for c in configs}
    assert {-1, 0, 1} <= beside
    assert {c.rows - c.max_running for c in configs} == {0, 2}
    least = {c.swa_tokens - c.window for c in configs if c.window}
    assert min(least) <= 4 and any(c.swa_tokens == c.total_tokens for c in configs if c.window)


def test_two_builds_have_one_array() -> None:
    """The array has only features of both builds. A name means the same for both."""
    small = replace(REFERENCE, page_sizes=(4, 16), pools=("full",))
    made = array([SERVER, small])
    assert all(build.refuses(c) is None for build in (SERVER, small) for c in made.configs.values())
    assert made.rows.keys() == array([small, SERVER]).rows.keys()
    with pytest.raises(BadConfig, match="these builds share no configuration"):
        array([replace(REFERENCE, page_sizes=(1,)), small])


@pytest.mark.parametrize(
    ("names", "configs"), [(["pairs-07"], ["pairs-07"]), (["p4", "pairs-02"], ["p4", "pairs-02"])]
)
def test_a_configuration_is_named_by_its_number(names: list[str], configs: list[str]) -> None:
    plan = Plan.named(names).of(REFERENCE)
    assert list(plan.configs) == configs and plan.array is None
    assert plan.configs[names[-1]] == array([REFERENCE]).configs[names[-1]]
    assert plan.of(REFERENCE) == plan


@pytest.mark.parametrize("name", ["pairs-99", "triples-001", "pairs-1"])
def test_a_number_that_there_is_not(name: str) -> None:
    with pytest.raises(BadConfig, match=f"no configuration {name}; the last is pairs-28"):
        Plan.named([name]).of(REFERENCE)


def test_a_run_says_which_share_it_searched(cli: Any) -> None:
    said = cli(["run", "--examples", "28", "--steps", "3"], INCONCLUSIVE)
    assert "configurations  28, with 935 of 935 pairs, " in said
    assert "                the engine does not offer priority, queue, " in said
    document = cli.json(["run", "--examples", "28", "--steps", "3", "--json"], INCONCLUSIVE)
    assert document["array"]["pairs"] == [935, 935] and document["array"]["fixed"]["mixed"] is False
    wrong = cli.wrong(["run", "--config", "pairs-99"])
    assert "there is no configuration pairs-99" in wrong
    assert "--strength" in cli.wrong(["run", "--strength", "4"])
