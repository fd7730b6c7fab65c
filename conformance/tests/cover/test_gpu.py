"""The reference engine on a GPU, with all oracles: nothing is found, mutants are."""

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


@pytest.mark.parametrize("model", ["stamps", "transformer"])
def test_the_reference_conforms(model: str) -> None:
    plan = Plan(dict(CONFIGS), examples=60)
    outcome = campaign.run(InProcessEngine(None, "cuda", model), "reference", plan)
    assert outcome.trace is None


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_dies(name: str) -> None:
    """INV-OWNER and the others, as on the CPU."""
    engine = InProcessEngine(name, "cuda")
    outcome = campaign.run(engine, f"reference:{name}", Plan(dict(CONFIGS)))
    assert outcome.trace is not None
    clauses = {violation.invariant for violation in outcome.trace.violations}
    assert clauses & set(MUTANTS[name].breaks)
