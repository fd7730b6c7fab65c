"""A model with a sliding window, for a build that has none this small.

A Llama of two layers: the first attends to everything, the second to the last `window`
tokens and to the token itself. The build decides by the name of the architecture which
layers slide; here it is told. Both pools, their allocator and the tree are the build's own.

| what | why |
|---|---|
| `is_hybrid_swa_model`, `get_hybrid_layer_ids` | Llama is in no release's list |
| `get_attention_sliding_window_size` | so that the scheduler learns the window |
| `get_key_buffer`, `get_value_buffer` of the sliding layers | `torch_native` reads them with indices of the full pool: they are given in that order |
| `SGLANG_SWA_EVICTION_INTERVAL=1` | by default the cursor waits for 128 tokens, more than a row here |
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
    """Whether the build's CPU attention knows of windows.

    Up to 0.5.12 it reads every position, those whose KV was given back included: what a turn
    says then depends on when they were, and is no oracle.
    """
    module = importlib.import_module("sglang.srt.layers.attention.torch_native_backend")
    return hasattr(module.TorchNativeAttnBackend, "_make_sliding_window_mask")


def refusal(config: dict[str, Any]) -> str | None:
    """Why no build makes this window or this pool, in one line; None if it can be tried."""
    window, swa, page = config["window"], config["swa_tokens"], config["page_size"]
    if bool(window) != bool(swa):
        return "config.window and config.swa_tokens come together: both 0, or both not"
    if not window:
        return None
    if swa % page:
        return f"config.swa_tokens: {swa} is no multiple of the page size {page}"
    if swa > config["total_tokens"]:
        return f"config.swa_tokens: {swa} is more than total_tokens; SGLang takes a share of it"
    if swa <= window + page:
        return f"config.swa_tokens: SGLang wants more than window and a page, {window + page}"
    return None


def server_args(config: dict[str, Any]) -> dict[str, Any]:
    """The arguments that size both pools.

    SGLang takes the second pool as a share of the first, rounded down. 0.5.10 takes
    `max_total_tokens` as what each of the layers would get if all had the same.
    """
    if not config["window"]:
        return {}
    full, swa = config["total_tokens"], config["swa_tokens"]
    if importlib.util.find_spec("sglang.srt.model_executor.pool_configurator") is None:
        return {"max_total_tokens": (full + swa) // LAYERS, "swa_full_tokens_ratio": swa / full}
    return {"swa_full_tokens_ratio": min(1.0, (swa + 0.5) / full)}


def prepare(config: dict[str, Any]) -> None:
    """Tell the build which layers slide; in a process that makes this one scheduler."""
    if not config["window"]:
        return
    os.environ.setdefault("SGLANG_SWA_EVICTION_INTERVAL", "1")
    models: Any = importlib.import_module("sglang.srt.configs.model_config")
    llama: Any = importlib.import_module("sglang.srt.models.llama")
    models.is_hybrid_swa_model = lambda *_, **__: True
    models.get_hybrid_layer_ids = lambda *_, **__: (list(SLIDING), list(FULL))
    llama.LlamaForCausalLM.get_attention_sliding_window_size = lambda _: config["window"]


def finish(scheduler: Any, model: Any, config: dict[str, Any]) -> str | None:
    """Let attention find its keys; what is wrong with the pools that were made, in one line."""
    if not config["window"]:
        return None
    allocator = scheduler.token_to_kv_pool_allocator
    made = int(allocator.size_full), int(allocator.size_swa)
    wanted = config["total_tokens"], config["swa_tokens"]
    if made != wanted:
        return (
            f"config.swa_tokens: this build makes pools of {made[0]} and {made[1]} tokens "
            f"where {wanted[0]} and {wanted[1]} are asked for"
        )
    for index in SLIDING:
        model.model.layers[index].self_attn.attn.sliding_window_size = config["window"]
    _read_through_mapping(allocator.get_kvcache(), allocator)
    return None


def _read_through_mapping(kvcache: Any, allocator: Any) -> None:
    def in_full_order(read: Any) -> Any:
        def buffer(layer_id: int) -> Any:
            found = read(layer_id)
            if layer_id not in SLIDING:
                return found
            # The last entry maps -1 to -1; what is given back maps to the padding at 0.
            return found[allocator.full_to_swa_index_mapping[:-1]]

        return buffer

    kvcache.get_key_buffer = in_full_order(kvcache.get_key_buffer)
    kvcache.get_value_buffer = in_full_order(kvcache.get_value_buffer)
