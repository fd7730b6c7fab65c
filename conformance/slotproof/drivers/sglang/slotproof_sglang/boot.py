"""From a configuration to a scheduler that stands still between two iterations.

Order matters: the number of torch threads is set before any operation, because the
driver forks, and the engine is imported last.
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

#: Imported by some release at module level, needed by none on CPU.
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

#: Values the engine can take; a field that is absent here takes any sensible value. What
#: `retract` can be, the build is asked (`processes.py`).
LIMITS: dict[str, list[Any]] = {
    "page_size": [1, 4, 16],
    "retract": ["keep", "wipe"],
    "aligned_reuse": [False],
    "overlap": [False, True],
}

#: What shapes the scheduler itself. The rest (reserve, timeout) is set per example, so
#: that configurations which differ only there share one template process.
SHAPE = (
    "page_size",
    "total_tokens",
    "swa_tokens",
    "window",
    "max_running",
    "rows",
    "context_len",
    "chunk",
    "overlap",
    "draft",
    "topk",
    *options.SHAPE,
)

OWN = {"context_len": 128, "reserve": 100, **options.DEFAULTS}


def limits() -> dict[str, list[Any]]:
    """Those of this build, which has some of the options."""
    has = options.offered()
    lacks = {name: [each] for name, each in options.DEFAULTS.items() if name not in has}
    return {**LIMITS, **lacks, **{name: values for name, values in has.items() if values}}


def normalise(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with defaults filled in; `UsageError` for what can't be had."""
    full: dict[str, Any] = filled(config, {**DEFAULTS, **OWN}, limits())
    page = full["page_size"]
    if full["chunk"] < 0 or full["chunk"] % page:
        raise UsageError(f"config.chunk: {full['chunk']} is no multiple of the page size {page}")
    if full["context_len"] < 8:
        raise UsageError("config.context_len: SGLang keeps 6 tokens of it to itself, take 8 up")
    refusal = window.refusal(full)
    if refusal is not None:
        raise UsageError(refusal)
    return full


def shape_key(config: dict[str, Any]) -> str:
    """What a template process is kept for."""
    return json.dumps([config[name] for name in SHAPE])


def import_engine() -> str:
    """Import the build under test, once per process tree; returns its version."""
    os.environ.setdefault("SGLANG_CPU_OMP_THREADS_BIND", "0-1")
    # The checks are run by the driver after each iteration; as assertions, not warnings.
    os.environ.setdefault("SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_BUSY", "1")
    os.environ.setdefault("SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE", "1")
    os.environ.setdefault("SGLANG_CHECK_KV_PAGE_INVARIANTS", "1")
    os.environ.pop("SGLANG_USE_CPU_ENGINE", None)
    prepare(STUBBED)

    transformers: Any = importlib.import_module("transformers")
    register = transformers.AutoConfig.register

    def tolerant(model_type: str, config: Any, exist_ok: bool = False) -> Any:
        # Several releases register a model type that a newer transformers knows already.
        return register(model_type, config, exist_ok=True)

    transformers.AutoConfig.register = tolerant
    importlib.import_module("sglang.srt.managers.scheduler")
    # A scheduler imports these when it is built: do it once, before the forks. A build that lacks
    # one, or fails to import it, says so there.
    for module in ("sglang.srt.models.registry", "sglang.srt.managers.tp_worker"):
        with suppress(Exception):
            importlib.import_module(module)
    leave_no_shared_memory()
    readable_tree()
    gc.collect()
    gc.freeze()  # else a collection in a template copies all that it shares with this process
    return str(importlib.import_module("sglang").__version__)


def leave_no_shared_memory() -> None:
    """Builds from 0.5.15 on tell of their load in a file of /dev/shm, which is there for ever where
    a process is killed: memory without a name in its place."""
    if importlib.util.find_spec("sglang.srt.managers.load_snapshot") is None:
        return
    module: Any = importlib.import_module("sglang.srt.managers.load_snapshot")
    if hasattr(module, "shm_path_for") and hasattr(os, "memfd_create"):
        module.shm_path_for = lambda *_: f"/proc/self/fd/{os.memfd_create('sglang_loads')}"


def write_model(folder: str, context_len: int, layers: int) -> None:
    """A tiny Llama: a `config.json` and nothing else, the weights being random."""
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
        # No end token, so that lengths are decided by max_new and stop tokens alone.
        "eos_token_id": None,
        "tie_word_embeddings": False,
    }
    (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")


def server_args(config: dict[str, Any], folder: str) -> Any:
    """The build's own `ServerArgs`, given those fields that it has."""
    module = importlib.import_module("sglang.srt.server_args")
    cls = module.ServerArgs
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
        # SGLang sizes the request table by this one and admits by the next.
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
    has = options.arguments_of(cls)
    return cls(**{name: value for name, value in wanted.items() if name in has})


def build_scheduler(config: dict[str, Any]) -> Any:
    """A fresh scheduler of this configuration. One per process: SGLang has globals."""
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
        raise UsageError("config.overlap: this build switches overlap scheduling off here")
    randomise_weights(scheduler)
    refusal = window.finish(scheduler, model_runner(scheduler).model, config)
    if refusal is not None:
        raise UsageError(refusal)
    return scheduler


def publish_args(scheduler_module: Any, args_module: Any, args: Any) -> None:
    """Make the arguments the process's own, the way this build's scheduler process does."""
    publish = getattr(scheduler_module, "publish", None)
    ranks = getattr(scheduler_module, "SpawnRanks", None)
    if publish is None:
        args_module.set_global_server_args_for_scheduler(args)
    elif ranks is None:
        publish(args, role="scheduler")
    else:
        publish(args, role="scheduler", ranks=ranks(world_rank=0, dp_rank=None, gpu_id=0))


def randomise_weights(scheduler: Any) -> None:
    """Larger random weights than the loader's, so that every token depends on its context."""
    torch: Any = importlib.import_module("torch")
    runner = model_runner(scheduler)
    generator = torch.Generator().manual_seed(20260101)
    with torch.no_grad():
        for name, parameter in sorted(runner.model.named_parameters()):
            if "norm" in name:
                parameter.fill_(1.0)
            else:
                values = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
                parameter.copy_(values * (parameter.shape[-1] ** -0.5) * 2.0)


def model_runner(scheduler: Any) -> Any:
    """The object that holds the model, which moved between releases."""
    for path in ("tp_worker.model_runner", "tp_worker.worker.model_runner"):
        found: Any = scheduler
        for part in path.split("."):
            found = getattr(found, part, None)
            if found is None:
                break
        if found is not None:
            return found
    raise UsageError("this build keeps its model runner in no known place")
