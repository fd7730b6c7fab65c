"""The reference engine on a GPU, with all oracles: nothing is found, and five mutants are."""

import pytest
import torch

from slotproof.engines.reference import InProcessEngine
from slotproof.protocol.config import CONFIGS
from slotproof.search import campaign
from slotproof.search.plan import Plan
from slotproof_engine.mutants import MUTANTS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU"),
]
KINDS = {
    "22213-double-count": "figures of the check",
    "22790a-abort-drops-row": "memory that an abort loses",
    "22900-trim-forgets-cursor": "the sliding-window cursor",
    "42571-double-free": "a page that is free twice, which the page audit sees, too",
    "stale-first-position": "content",
}
"""Mutants, one for each kind of fault."""


@pytest.mark.slow
@pytest.mark.parametrize(("model", "examples"), [("stamps", 100), ("transformer", 40)])
def test_the_reference_conforms(model: str, examples: int) -> None:
    """A part of the plan. `slotproof run --engine reference@cuda` takes minutes for all of it."""
    plan = Plan(dict(CONFIGS), examples=examples)
    outcome = campaign.run(InProcessEngine(None, "cuda", model), "reference", plan)
    assert outcome.trace is None


@pytest.mark.parametrize("name", KINDS)
def test_a_mutant_of_each_kind_dies(name: str) -> None:
    engine = InProcessEngine(name, "cuda")
    outcome = campaign.run(engine, f"reference:{name}", Plan(dict(CONFIGS)))
    assert outcome.trace is not None
    clauses = {violation.invariant for violation in outcome.trace.violations}
    assert clauses & set(MUTANTS[name].breaks)
