"""The engine's state on a device: Triton kernels end to end, and no host round trip."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from slotproof_engine import EngineConfig, ReferenceEngine
from tests.test_walks import command, configuration


def messages(seed: int, **own: Any) -> list[dict[str, Any]]:
    """Return all messages to clients in a random walk."""
    r = random.Random(seed)
    engine = ReferenceEngine(EngineConfig.of({**configuration(r), **own}))
    for sid in "ab":
        engine.do({"do": "open", "session": sid})
    told: list[dict[str, Any]] = []
    for number in range(8):
        engine.do(command(r, number))
        for _ in range(2):
            engine.step()
            told += engine.messages
            assert engine.checker.verdict == "ok"
    return told


@pytest.mark.parametrize("model", ["stamps", "transformer"])
def test_an_engine_on_triton_kernels_says_the_same(triton_device: str, model: str) -> None:
    for seed in range(2):
        own = {"device": triton_device, "kernels": "triton", "model": model, "audit": True}
        assert messages(seed, **own) == messages(seed, model=model)


def test_page_sizes_that_triton_kernels_do_not_take() -> None:
    config = EngineConfig(page_size=3, total_tokens=30, kernels="triton")
    with pytest.raises(ValueError, match=r"power of 2|Triton is not installed"):
        ReferenceEngine(config)


@pytest.mark.gpu
@pytest.mark.parametrize("config", [{}, {"window": 3, "swa_tokens": 64}, {"page_size": 4}])
@pytest.mark.parametrize("model", ["stamps", "transformer"])
def test_decoding_reads_back_sampled_tokens_and_nothing_else(
    gpu: str, config: dict[str, int], model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = ReferenceEngine(EngineConfig.of({**config, "device": gpu, "model": model}))
    for rid in ("a", "b"):
        engine.do({"do": "submit", "session": None, "rid": rid, "tokens": [1, 2, 3], "max_new": 30})
    engine.do({"do": "step", "n": 5})  # prefill, and kernels are compiled

    read = torch.Tensor.tolist
    reads = []

    def counted(tensor: torch.Tensor) -> Any:
        """Count a wait: no other call may wait."""
        reads.append(tensor.shape)
        torch.cuda.set_sync_debug_mode("default")
        try:
            return read(tensor)
        finally:
            torch.cuda.set_sync_debug_mode("error")

    monkeypatch.setattr(torch.Tensor, "tolist", counted)
    torch.cuda.set_sync_debug_mode("error")
    try:
        engine.do({"do": "step", "n": 8})
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert [event[0] for event in engine.events if event[0] != "T-SWA-ADVANCE"] == ["T-DECODE"] * 2
    assert reads == [torch.Size([2])] * 8
