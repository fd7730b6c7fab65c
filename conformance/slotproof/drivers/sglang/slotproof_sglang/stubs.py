"""Packages that SGLang imports but a CPU run never uses: they get stand-ins."""

from __future__ import annotations

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
