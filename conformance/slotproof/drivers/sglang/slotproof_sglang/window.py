"""Small model with a sliding window, for builds without a small sliding-window model.

The model is a Llama of two layers. The first layer attends to everything, the second to the last
`window` tokens and to the token itself. The build chooses the sliding layers by the architecture's
name, so the driver overrides the choice. Both pools, their allocator and the tree are unchanged.

| changed | why |
|---|---|
| `is_hybrid_swa_model`, `get_hybrid_layer_ids` | Llama is in no release's list |
| `get_attention_sliding_window_size` | the scheduler reads the window's size from this function |
| `get_key_buffer`, `get_value_buffer` of the sliding layers | `torch_native` reads them with indices of the full pool, so they are returned in the full pool's order |
| `SWARequestCapPoolConfigurator` | with `no_tree` and `chunk`, it ignores the requested size of the second pool |
| `SGLANG_SWA_EVICTION_INTERVAL=1` | by default the cursor waits for 128 tokens, more than a row has |
"""  # noqa: E501  # a table

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

LAYERS = 2
SLIDING = [1]
FULL = [0]


def attended() -> bool:
    """Return True if the build's attention on a CPU respects a window.

    Up to 0.5.12, attention reads every position, even positions whose KV is freed. The tokens of a
    turn then depend on when KV is freed and prove nothing.
    """
    module = importlib.import_module("sglang.srt.layers.attention.torch_native_backend")
    return hasattr(module.TorchNativeAttnBackend, "_make_sliding_window_mask")


def refusal(config: dict[str, Any]) -> str | None:
    """Return one line on why no build can have this window or pool, or None."""
    window, swa, page = config["window"], config["swa_tokens"], config["page_size"]
    if bool(window) != bool(swa):
        return "config.window and config.swa_tokens must both be 0 or both be positive"
    if not window:
        return None
    if swa % page:
        return f"config.swa_tokens: {swa} is not a multiple of the page size {page}"
    if swa > config["total_tokens"]:
        return f"config.swa_tokens: {swa} must not exceed config.total_tokens in SGLang"
    if swa <= window + page:
        return f"config.swa_tokens: must exceed {window + page}, the sum of window and page size"
    return None


def server_args(config: dict[str, Any]) -> dict[str, Any]:
    """Return the server arguments that determine the sizes of both pools.

    SGLang computes the second pool's size as a share of the first pool's size, rounded down. In
    0.5.10, `max_total_tokens` is the mean size of the layers' pools.
    """
    if not config["window"]:
        return {}
    full, swa = config["total_tokens"], config["swa_tokens"]
    if importlib.util.find_spec("sglang.srt.model_executor.pool_configurator") is None:
        # The build divides the sum evenly among its layers, in whole pages.
        spare = -(full + swa) % (LAYERS * config["page_size"])
        ratio = (swa + spare / LAYERS) / full
        return {"max_total_tokens": (full + swa + spare) // LAYERS, "swa_full_tokens_ratio": ratio}
    return {"swa_full_tokens_ratio": min(1.0, (swa + 0.5) / full)}


def prepare(config: dict[str, Any]) -> None:
    """Set the sliding layers of the build. Afterwards the process can build only this scheduler."""
    if not config["window"]:
        return
    os.environ.setdefault("SGLANG_SWA_EVICTION_INTERVAL", "1")
    models: Any = importlib.import_module("sglang.srt.configs.model_config")
    llama: Any = importlib.import_module("sglang.srt.models.llama")
    pools = "sglang.srt.model_executor.pool_configurator"
    if importlib.util.find_spec(pools) is not None:
        capped: Any = getattr(importlib.import_module(pools), "SWARequestCapPoolConfigurator", None)
        if capped is not None:
            capped.is_applicable = staticmethod(lambda _: False)
    models.is_hybrid_swa_model = lambda *_, **__: True
    models.get_hybrid_layer_ids = lambda *_, **__: (list(SLIDING), list(FULL))
    llama.LlamaForCausalLM.get_attention_sliding_window_size = lambda _: config["window"]


def finish(scheduler: Any, config: dict[str, Any]) -> str | None:
    """Connect attention to its keys. If a pool has a wrong size, return one line, else None."""
    if not config["window"]:
        return None
    allocator = scheduler.token_to_kv_pool_allocator
    made = int(allocator.size_full), int(allocator.size_swa)
    wanted = config["total_tokens"], config["swa_tokens"]
    if made != wanted:
        return (
            f"config.swa_tokens: this build makes pools of {made[0]} and {made[1]} tokens "
            f"instead of {wanted[0]} and {wanted[1]}"
        )
    model = scheduler.tp_worker.model_runner.model
    for index in SLIDING:
        model.model.layers[index].self_attn.attn.sliding_window_size = config["window"]
    _read_through_mapping(allocator.get_kvcache(), allocator)
    return None


def _read_through_mapping(kvcache: Any, allocator: Any) -> None:
    def in_full_order(read: Any) -> Any:
        def buffer(layer_id: int) -> Any:
            whole = read(layer_id)
            if layer_id not in SLIDING:
                return whole
            # The last entry maps -1 to -1. A freed token maps to the padding at 0.
            return whole[allocator.full_to_swa_index_mapping[:-1]]

        return buffer

    kvcache.get_key_buffer = in_full_order(kvcache.get_key_buffer)
    kvcache.get_value_buffer = in_full_order(kvcache.get_value_buffer)
