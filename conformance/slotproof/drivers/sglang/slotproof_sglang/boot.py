"""Construction of a scheduler from a configuration. The scheduler is not running yet.

The order of the steps matters. The driver forks later, so it sets the number of torch threads
before any operation. The engine is imported last.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from slotproof_driver.configuration import DEFAULTS, by_signature, filled
from slotproof_driver.stubs import prepare
from slotproof_driver.usage import UsageError

from . import options, paging, speculation, window
from .dialects.embedded import readable_tree

VOCAB = 256

#: Packages that some release imports at module level and that a CPU run never needs.
STUBBED = [
    "torchvision",
    "sgl_kernel",
    "tvm_ffi",
    "sentencepiece",
    "loguru",
    "gguf",
    "compressed_tensors",
    "uvicorn",
    "triton",
    "xgrammar",
    "openai",
    "partial_json_parser",
    "IPython",
    "pybase64",
    "prometheus_client",
    "torchao",
    "torch_memory_saver",
    "flashinfer",
    "vllm",
]

#: Possible values by field. Unlisted fields take any value in the valid range. A trial on the build
#: decides the values of `retract` (`processes.py`).
LIMITS: dict[str, list[Any]] = {
    "page_size": [1, 4, 16],
    "retract": ["keep", "wipe"],
    "aligned_reuse": [False],
    "overlap": [False, True],
}

#: Fields that are set per example. Each of the other fields needs another scheduler. Configurations
#: that differ only in the fields named here share one template process.
PER_EXAMPLE = {"reserve", "timeout", "retract", *options.DEFAULTS} - {*options.SHAPE}

OWN = {"context_len": 128, "reserve": 100, **options.DEFAULTS}


def limits() -> dict[str, list[Any]]:
    """Return the possible values by field. An option that the build lacks has its default."""
    has = options.offered()
    lacks = {name: [default] for name, default in options.DEFAULTS.items() if name not in has}
    return {**LIMITS, **lacks, **{name: values for name, values in has.items() if values}}


def normalise(config: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration with defaults. Raise `UsageError` for an impossible value."""
    full: dict[str, Any] = filled(config, {**DEFAULTS, **OWN}, limits())
    page = full["page_size"]
    if full["chunk"] < 0 or full["chunk"] % page:
        raise UsageError(f"config.chunk: {full['chunk']} is not a multiple of the page size {page}")
    if full["context_len"] < 8:
        raise UsageError("config.context_len: must be at least 8, as SGLang reserves 6 tokens")
    refusal = window.refusal(full)
    if refusal is not None:
        raise UsageError(refusal)
    return full


def shape_key(config: dict[str, Any]) -> str:
    """Return the key of the template process that can serve this configuration."""
    return json.dumps([value for name, value in config.items() if name not in PER_EXAMPLE])


def import_engine() -> str:
    """Import the build under test, once per tree of processes, and return its version."""
    os.environ.setdefault("SGLANG_CPU_OMP_THREADS_BIND", "0-1")
    # The driver needs the checks in each iteration, and needs them to raise instead of warn.
    os.environ.setdefault("SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY", "1")
    os.environ.setdefault("SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE", "1")
    os.environ.setdefault("SGLANG_CHECK_KV_PAGE_INVARIANTS", "1")
    os.environ.pop("SGLANG_USE_CPU_ENGINE", None)
    prepare(STUBBED)

    transformers: Any = importlib.import_module("transformers")
    register = transformers.AutoConfig.register

    def tolerant(model_type: str, config: Any, exist_ok: bool = False) -> Any:
        # Several releases register a model type that a newer transformers also registers.
        return register(model_type, config, exist_ok=True)

    transformers.AutoConfig.register = tolerant
    importlib.import_module("sglang.srt.managers.scheduler")
    # A new scheduler imports these modules. They are imported once here, before the forks. A
    # build whose import fails reports the error when it builds a scheduler.
    for module in ("sglang.srt.models.registry", "sglang.srt.managers.tp_worker"):
        with suppress(Exception):
            importlib.import_module(module)
    leave_no_shared_memory()
    readable_tree()
    gc.collect()
    gc.freeze()  # Otherwise a garbage collection in a template copies the shared memory.
    return str(importlib.import_module("sglang").__version__)


def leave_no_shared_memory() -> None:
    """Replace the /dev/shm file of load reports (since 0.5.15) by anonymous memory. A killed
    process would leave its file behind."""
    if importlib.util.find_spec("sglang.srt.managers.load_snapshot") is None:
        return
    module: Any = importlib.import_module("sglang.srt.managers.load_snapshot")
    if hasattr(module, "shm_path_for") and hasattr(os, "memfd_create"):
        module.shm_path_for = lambda *_: f"/proc/self/fd/{os.memfd_create('sglang_loads')}"


def write_model(folder: str, context_len: int, layers: int) -> None:
    """Write the `config.json` of a tiny Llama. Its random weights need no file."""
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": layers,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "hidden_act": "silu",
        "max_position_embeddings": max(2 * context_len, 512),
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "torch_dtype": "float32",
        "bos_token_id": None,
        # Without an end token, only max_new and stop tokens decide the length of an answer.
        "eos_token_id": None,
        "tie_word_embeddings": False,
    }
    (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")


def server_args(config: dict[str, Any], folder: str) -> Any:
    """Return the build's own `ServerArgs`. Fields that the build does not have are left out."""
    cls: Any = importlib.import_module("sglang.srt.server_args").ServerArgs
    wanted = {
        "model_path": folder,
        "device": "cpu",
        "load_format": "dummy",
        "attention_backend": "torch_native",
        "sampling_backend": "pytorch",
        "disable_overlap_schedule": not config["overlap"],
        "skip_tokenizer_init": True,
        "disable_cuda_graph": True,
        "disable_piecewise_cuda_graph": True,
        "max_total_tokens": config["total_tokens"],
        # `max_running_requests` sizes the request table. The next field limits admission.
        "max_running_requests": config["rows"],
        "pp_max_micro_batch_size": config["max_running"],
        "page_size": config["page_size"],
        "chunked_prefill_size": config["chunk"] or -1,
        "context_length": config["context_len"],
        "dtype": "float32",
        "enable_streaming_session": True,
        "mem_fraction_static": 0.5,
        "grammar_backend": "none",
        "random_seed": 0,
        "log_level": "error",
        **window.server_args(config),
        **speculation.server_args(config),
        **options.server_args(config),
    }
    return cls(**by_signature(cls, wanted))


def build_scheduler(config: dict[str, Any]) -> Any:
    """Return a fresh scheduler. Called once per process, because SGLang has global variables."""
    scheduler_module = importlib.import_module("sglang.srt.managers.scheduler")
    args_module = importlib.import_module("sglang.srt.server_args")
    window.prepare(config)
    speculation.prepare(config)
    with tempfile.TemporaryDirectory(prefix="slotproof-model-") as folder:
        write_model(folder, config["context_len"], window.LAYERS if config["window"] else 1)
        args = server_args(config, folder)
        ports = args_module.PortArgs.init_new(args)
        publish_args(scheduler_module, args_module, args)
        if config["page_size"] > 1:
            paging.patch()
        scheduler_class = scheduler_module.Scheduler
        zero = dict.fromkeys(
            ("gpu_id", "tp_rank", "moe_ep_rank", "pp_rank", "attn_cp_rank", "moe_dp_rank"), 0
        )
        offered = {"server_args": args, "port_args": ports, "dp_rank": None, **zero}
        scheduler = scheduler_class(**by_signature(scheduler_class.__init__, offered))
    if bool(scheduler.enable_overlap) != config["overlap"]:
        raise UsageError("config.overlap: must be false because this build disables overlap")
    randomise_weights(scheduler)
    refusal = window.finish(scheduler, config)
    if refusal is not None:
        raise UsageError(refusal)
    return scheduler


def publish_args(scheduler_module: Any, args_module: Any, args: Any) -> None:
    """Publish the arguments to the process, as the build's own scheduler process does."""
    publish = getattr(scheduler_module, "publish", None)
    ranks = getattr(scheduler_module, "SpawnRanks", None)
    if publish is None:
        args_module.set_global_server_args_for_scheduler(args)
    elif ranks is None:
        publish(args, role="scheduler")
    else:
        publish(args, role="scheduler", ranks=ranks(world_rank=0, dp_rank=None, gpu_id=0))


def randomise_weights(scheduler: Any) -> None:
    """Set random weights larger than the loader's, so that every token depends on its context."""
    torch: Any = importlib.import_module("torch")
    model = scheduler.tp_worker.model_runner.model
    generator = torch.Generator().manual_seed(20260101)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            if "norm" in name:
                parameter.fill_(1.0)
            else:
                values = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
                parameter.copy_(values * (parameter.shape[-1] ** -0.5) * 2.0)
