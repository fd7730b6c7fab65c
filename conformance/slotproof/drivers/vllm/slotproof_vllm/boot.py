"""Construction of a scheduler from a configuration. The driver steps the scheduler.

The build's own `Scheduler` runs with its own `KVCacheManager` and `BlockPool`. Only the model's
configuration is a stub. The cache has one group of full attention. There are no weights and no
workers, so a fresh scheduler takes milliseconds.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from slotproof_driver import stubs
from slotproof_driver.configuration import DEFAULTS, by_signature, filled
from slotproof_driver.usage import UsageError

from . import drafts

#: Packages that some release imports at module level and that a CPU run never needs.
STUBBED = [
    "aiohttp",
    "cachetools",
    "cbor2",
    "cloudpickle",
    "cpuinfo",
    "diskcache",
    "fastapi",
    "gguf",
    "llguidance",
    "mistral_common",
    "openai",
    "openai_harmony",
    "partial_json_parser",
    "prometheus_client",
    "pybase64",
    "uvloop",
    "xgrammar",
]

#: Possible values by field. Fields that are not listed take any value in the valid range.
LIMITS: dict[str, list[Any]] = {
    "page_size": [1, 4, 16],
    "swa_tokens": [0],
    "window": [0],
    "retract": ["keep", "wipe"],
    "aligned_reuse": [False],
    "overlap": [False, True],
    "batches": [2, 3],
    "priority": [False, True],
    "no_tree": [False, True],
}


@dataclass(frozen=True)
class Options:
    """Settings from the arguments of the driver itself."""

    turns_alone: bool = False
    """True to refuse a turn only for its own length, as vLLM's front end does (README)."""


def normalise(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with defaults. Raise `UsageError` for an impossible value."""
    defaults = {**DEFAULTS, "retract": "wipe", "priority": False, "no_tree": False, "batches": 2}
    full: dict[str, Any] = filled(config, defaults, LIMITS)
    if full["batches"] > 2 and not full["overlap"]:
        raise UsageError(f"config.batches: {full['batches']} needs overlap")
    if full["chunk"] < 0:
        raise UsageError(f"config.chunk: {full['chunk']} is negative")
    if full["draft"] and full["chunk"]:
        if drafts.method(full) != "ngram":
            raise UsageError(
                "config.topk: must be 1 with chunks, because no event describes the memory given "
                "to a draft model past a prefill chunk"
            )
        if full["chunk"] <= full["draft"]:
            raise UsageError(
                f"config.chunk: {full['chunk']} is less than a round of {full['draft']} drafts"
            )
    return full


def limits() -> dict[str, list[Any]]:
    """Return, for each field, the values that this build can have."""
    possible = dict(LIMITS)
    if not drafts.offered():
        possible["draft"] = [0]
    if not runs_ahead():
        possible["overlap"], possible["batches"] = [False], [2]
    return possible


def runs_ahead() -> bool:
    """Return True if the build can schedule a batch before it processes the previous output."""
    return importlib.util.find_spec("vllm.v1.core.sched.async_scheduler") is not None


def import_engine() -> str:
    """Import the build under test and return its version."""
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    stubs.prepare(STUBBED)
    for name in ("sched.scheduler", "kv_cache_utils"):
        importlib.import_module(f"vllm.v1.core.{name}")
    utils: Any = importlib.import_module("vllm.v1.core.kv_cache_utils")
    utils.init_none_hash(hasher())
    return str(importlib.import_module("vllm").__version__)


def hasher() -> Any:
    """Return the build's hash function for blocks."""
    return importlib.import_module("vllm.utils.hashing").sha256


def block_hash(config: dict[str, Any]) -> Callable[[bytes | None, list[int]], bytes] | None:
    """Return the build's hash of a block, as a function of the previous block's hash and the
    block's tokens. None without a prefix cache."""
    utils: Any = importlib.import_module("vllm.v1.core.kv_cache_utils")
    return partial(utils.hash_block_tokens, hasher()) if not config["no_tree"] else None


class ModelConfig:
    """Attributes of a text generator that the scheduler reads. All other attributes are None."""

    skip_tokenizer_init = True
    is_multimodal_model = False
    supports_multimodal_inputs = False
    is_encoder_decoder = False
    is_diffusion = False
    enable_return_routed_experts = False
    return_sampling_mask = False
    uses_mrope = False
    runner_type = "generate"
    architecture = "none"
    architectures: tuple[str, ...] = ()

    def __init__(self, max_model_len: int) -> None:
        self.max_model_len = max_model_len

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


def build_scheduler(config: dict[str, Any]) -> Any:
    """Return a fresh scheduler with this configuration."""
    page, pages = config["page_size"], config["total_tokens"] // config["page_size"]
    if config["draft"] and not drafts.offered():
        raise UsageError("config.draft: must be 0 because this build's scheduler takes no drafts")
    if config["overlap"] and not runs_ahead():
        raise UsageError("config.overlap: must be false because this build has no async scheduler")
    settings = vllm_config(config)
    interface = importlib.import_module("vllm.v1.kv_cache_interface")
    torch = importlib.import_module("torch")
    attention = interface.FullAttentionSpec(
        block_size=page, num_kv_heads=1, head_size=1, dtype=torch.float32
    )
    cache = interface.KVCacheConfig(
        num_blocks=pages + 1,  # The extra block is the null block.
        kv_cache_tensors=[],
        kv_cache_groups=[interface.KVCacheGroupSpec(["layer"], attention)],
    )
    structured = importlib.import_module("vllm.v1.structured_output").StructuredOutputManager
    scheduler = importlib.import_module("vllm.v1.core.sched.scheduler").Scheduler
    made = scheduler
    if settings.scheduler_config.async_scheduling:
        made = importlib.import_module("vllm.v1.core.sched.async_scheduler").AsyncScheduler
    offered = {
        "vllm_config": settings,
        "kv_cache_config": cache,
        "structured_output_manager": structured(settings),
        "block_size": page,
        "hash_block_size": page,
    }
    return made(**by_signature(scheduler.__init__, offered))


def vllm_config(config: dict[str, Any]) -> Any:
    """Return the build's configuration. Fields that the build lacks are left out."""
    of = importlib.import_module("vllm.config")
    budget = config["chunk"] or 2 * config["context_len"] * config["max_running"]
    scheduling = {
        "max_num_seqs": config["max_running"],
        "max_num_batched_tokens": max(budget, config["max_running"], config["context_len"]),
        "max_model_len": config["context_len"],
        "enable_chunked_prefill": True,
        "is_encoder_decoder": False,
        "async_scheduling": False,
    }
    made = of.VllmConfig(
        device_config=of.DeviceConfig("cpu"),
        scheduler_config=of.SchedulerConfig(**by_signature(of.SchedulerConfig, scheduling)),
        cache_config=of.CacheConfig(block_size=config["page_size"]),
    )
    if config["priority"]:
        made.scheduler_config.policy = "priority"
    # Set late: without a model, vLLM overrides some of these and refuses a small token budget.
    made.cache_config.enable_prefix_caching = not config["no_tree"]
    made.cache_config.block_size = config["page_size"]
    made.cache_config.num_gpu_blocks = config["total_tokens"] // config["page_size"] + 1
    made.scheduler_config.max_num_batched_tokens = budget
    if config["draft"]:
        object.__setattr__(made, "speculative_config", drafts.speculative_config(config))
    object.__setattr__(made, "model_config", ModelConfig(config["context_len"]))
    _set_depth(made, config)
    return made


def _set_depth(made: Any, config: dict[str, Any]) -> None:
    """Set the number of batches under way, as `VllmConfig.max_concurrent_batches` computes it.

    Three batches need a pipeline of stages: two with asynchronous scheduling for the V2 model
    runner, three without asynchronous scheduling for V1.
    """
    ahead, deep = config["overlap"], config["batches"] > 2
    v2 = bool(getattr(made, "use_v2_model_runner", False))
    made.scheduler_config.async_scheduling = ahead and (v2 or not deep)
    if deep:
        made.parallel_config.pipeline_parallel_size = 2 if v2 else config["batches"]


def aborted() -> Any:
    """Return the build's status constant for a request that a client has aborted."""
    return importlib.import_module("vllm.v1.request").RequestStatus.FINISHED_ABORTED


def model_outputs() -> Callable[[Any, dict[str, list[int]]], Any]:
    """Return a function that turns a batch and its sampled tokens into a model runner's output."""
    made = importlib.import_module("vllm.v1.outputs").ModelRunnerOutput

    def outputs(batch: Any, sampled: dict[str, list[int]]) -> Any:
        keys = list(batch.num_scheduled_tokens)
        offered = {
            "req_ids": keys,
            "req_id_to_index": {key: index for index, key in enumerate(keys)},
            "sampled_token_ids": [sampled[key] for key in keys],
            "logprobs": None,
            "prompt_logprobs_dict": {},
            "pooler_output": [],
        }
        return made(**by_signature(made, offered))

    return outputs
