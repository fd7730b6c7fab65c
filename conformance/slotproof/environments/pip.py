"""pip's command lines, and its failures in one line."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from slotproof.environments.processes import Done

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
_GPU = re.compile(r"nvidia-|cuda-|triton$|pytorch-triton|rocm", re.IGNORECASE)


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
    return [name for need in needs if _GPU.match(name := Requirement(need).name)]


def problem(done: Done) -> str:
    """Why pip failed, in some words.

    >>> problem(Done(1, "WARNING: x\\nERROR: No space left on device"))
    'there is no space left on the device (of the environments, or of temporary files)'
    """
    text = done.text
    if _NO_SPACE.search(text):
        return "there is no space left on the device (of the environments, or of temporary files)"
    missing = _NO_VERSION.search(text)
    if missing and missing["there"] != "none":
        return _no_release(missing["what"], missing["there"].split(", "))
    if _UNREACHABLE.search(text):
        errors = re.findall(r"\[Errno -?[0-9]+\] ([^'\")\n]+)", text)
        why = f" ({errors[-1].strip()})" if errors else ""
        return f"the package index can't be reached{why}; it takes a network, once"
    if missing:
        return f"the package index has nothing for {missing['what']} and this Python"
    lines = done.lines
    errors = [line for line in lines if line.lower().startswith("error")]
    said = (errors or lines[-1:] or ["nothing said"])[0]
    return f"pip ended with status {done.status}: {said[:200]}"


def _no_release(what: str, there: list[str]) -> str:
    """``there`` is in order, as pip has it."""
    package, _, wanted = what.partition("==")
    try:
        at = bisect(there, Version(wanted), key=Version)
    except InvalidVersion:  # a range was asked for
        at = len(there)
    near = ", ".join(there[max(0, at - NEAR) : at + NEAR])
    return f"there is no {package} {wanted} (for this Python and machine); near it: {near}"
