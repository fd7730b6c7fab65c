"""The strict stand-in worker on a real build: each check finds a wrong batch, and only then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slotproof.engines.base import Engine
from slotproof.engines.registry import EngineSpec
from slotproof.lockstep.referee import Setup, play
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.reports.wording import CLAUSES
from tests.turns import steps, turn

pytestmark = pytest.mark.sglang

DRIVER = Path(__file__).parents[2] / "slotproof" / "drivers" / "sglang"
BROKEN = Path(__file__).with_name("broken_worker.py")
NEW = "0.5.23"
OTHERS = tuple(clause for clause in CLAUSES if not clause.startswith("INV-ALIVE"))
PLAIN, PAGED = EngineConfig(), EngineConfig(page_size=4)
SHOWN: dict[str, tuple[EngineConfig, str]] = {
    "row-of-another": (PLAIN, "ForwardBatch.init_new: row-of-another has row"),
    "no-such-row": (PLAIN, "triton_backend.py init_forward_metadata: "),
    "prefix": (PLAIN, "ForwardBatch.init_new: prefix_lens + extend_lens is"),
    "host-lengths": (PLAIN, "ForwardBatch.init_new: seq_lens_cpu [2, 99], not [2, 5]"),
    "sum-of-lengths": (PLAIN, "triton_backend.py init_forward_metadata: seq_lens_sum 99, not 7"),
    "short-input": (PLAIN, "ForwardBatch.init_new: 6 input_ids for 7 tokens"),
    "another-token": (PLAIN, "has token 99 at position 4, not 5"),
    "outside-row": (PLAIN, "set_kv_buffer: outside-row writes outside its row"),
    "free-page": (PLAIN, "free-page reads page"),
    "padding": (PLAIN, "padding reads page 0 at position 4, which is free"),
    "place-in-page": (PAGED, "flashattention_backend.py init_forward_metadata: place-in-page has"),
    "page-of-another": (PLAIN, "set_kv_buffer: r1 writes to page"),
    "page-of-tree": (PLAIN, "of the tree"),
    "no-window-kv": (
        EngineConfig(window=2, swa_tokens=40),
        "SWAKVPool.set_kv_buffer: no-window-kv has no sliding-window KV at position 4",
    ),
    "temperatures": (PLAIN, "Sampler.forward: 1 temperatures for 2 requests"),
    "logprobs": (EngineConfig(logprobs=True), "LogitsMetadata.from_forward_batch: logprobs"),
    "positions": (PLAIN, "compute_position: positions [1, 2, 1, 2, 3, 4, 5]"),
    "too-many": (EngineConfig(max_running=1), "PrefillAdder: 2 requests in a batch, at most 1"),
    "long-chunk": (EngineConfig(chunk=4), "PrefillAdder: 7 tokens in a prefill of at most 4"),
    "round": (EngineConfig(draft=2), "assign_extend_cache_locs: r1 drafts up to"),
}
"""Configuration and message of each fault."""


def commands(name: str) -> list[Command]:
    before = [turn("r0", 3, session=None, first=70), steps(2)]  # These tokens stay in the tree.
    return [*before, turn("r1", 2, 4, None, 30), turn(name, 5, 4, None), steps(2), steps()]


@pytest.fixture(scope="module")
def broken(python_of: Callable[[str], Path]) -> Iterator[Engine]:
    """A build that gives a fault to the request named after it."""
    program = f"cmd:env PYTHONPATH={DRIVER} {python_of(NEW)} {BROKEN}"
    build = EngineSpec(program, step_timeout=30).open()
    yield build
    build.close()


@pytest.mark.parametrize("fault", SHOWN)
def test_a_wrong_batch_is_a_crash_that_names_its_reader(fault: str, broken: Engine) -> None:
    config, text = SHOWN[fault]
    violations = play(broken, Setup(config, ignored=OTHERS), commands(fault)).log[-1].violations
    assert [violation.clause for violation in violations] == ["INV-ALIVE.crash"]
    assert "the worker misreads the batch in " in violations[0].detail
    assert text in violations[0].detail


@pytest.mark.parametrize("overlap", [False, True])
def test_a_request_without_a_fault_is_read_well(overlap: bool, broken: Engine) -> None:
    config = EngineConfig(
        page_size=4, overlap=overlap, chunk=8, mixed=True, window=2, swa_tokens=48
    )
    assert play(broken, Setup(config), [*commands("r2"), steps(8)]).log[-1].violations == []
