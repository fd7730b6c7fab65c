"""pip's command lines, and its failures in one line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from slotproof.conformance.environments.processes import Done

NEAR = 3
"""How many releases before and after the one asked for are named."""

_UNREACHABLE = re.compile(
    r"connection broken by|NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|SSLError"
    r"|Could not fetch URL|Name or service not known|name resolution|Network is unreachable"
    r"|Connection (?:refused|reset)|Read timed out"
)
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|Errno 28|Errno 122")
_NO_VERSION = re.compile(
    r"satisfies the requirement (?P<what>[^\s(]+) \(from versions: (?P<there>[^)]*)\)"
)
_GPU = re.compile(r"(?:nvidia-|cuda-|triton\b|pytorch-triton|rocm)", re.IGNORECASE)


def install(python: Path, *arguments: str, into: Path | None = None) -> list[str]:
    """``python -m pip install``, of that Python's own pip, into another environment if asked."""
    target = ["--python", str(into)] if into else []
    plain = ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    return [str(python), "-m", "pip", *target, "install", *plain, "--no-compile", *arguments]


def only(requirement: str) -> list[str]:
    """Arguments for one wheel and nothing it asks for."""
    return ["--no-deps", "--only-binary", ":all:", requirement]


def impatient(index: str) -> list[str]:
    """Arguments for an index that has a stand-in: it is not waited for."""
    return ["--index-url", index, "--retries", "1", "--timeout", "15"]


def gpu_packages(needs: Sequence[str]) -> list[str]:
    """Those requirements of a wheel that only a build for GPUs has.

    >>> gpu_packages(["filelock", "nvidia-nccl-cu13==2.29.7; platform_system == 'Linux'"])
    ['nvidia-nccl-cu13']
    """
    names = (re.split(r"[^A-Za-z0-9._-]", need.strip(), maxsplit=1)[0] for need in needs)
    return [name for name in names if _GPU.match(name)]


def problem(done: Done) -> str:
    """Why pip failed, in some words.

    >>> problem(Done(1, "WARNING: x\\nERROR: No space left on device"))
    'there is no space left on the device (of the environments, or of temporary files)'
    """
    text = done.text
    if _NO_SPACE.search(text):
        return "there is no space left on the device (of the environments, or of temporary files)"
    missing = _NO_VERSION.search(text)
    there = missing["there"].split(", ") if missing else []
    if missing and there != ["none"]:
        return _no_release(missing["what"], there)
    if _UNREACHABLE.search(text):
        return f"the package index can't be reached{_errno(text)}; it takes a network, once"
    if missing:
        return f"the package index has nothing for {missing['what']} and this Python"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    said = (errors or lines[-1:] or ["nothing said"])[0]
    return f"pip ended with status {done.status}: {said[:200]}"


def _no_release(what: str, there: list[str]) -> str:
    package, _, wanted = what.partition("==")
    below = [each for each in there if _figures(each) <= _figures(wanted)]
    above = there[len(below) :]
    near = ", ".join((*below[-NEAR:], *above[:NEAR]))
    return f"there is no {package} {wanted} (for this Python and machine); near it: {near}"


def _figures(release: str) -> list[int]:
    return [int(figure) for figure in re.findall("[0-9]+", release)]


def _errno(text: str) -> str:
    found = re.findall(r"\[Errno -?[0-9]+\] ([^'\")\n]+)", text)
    return f" ({found[-1].strip()})" if found else ""
