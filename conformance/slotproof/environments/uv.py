"""The program uv, which finds interpreters, makes environments and installs packages."""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Collection
from functools import cache
from subprocess import CompletedProcess

from slotproof.environments.families import EnvironmentProblem
from slotproof.support import children

Done = CompletedProcess[bytes]

_SAME_AS_PIP = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraints",
}
"""Option of uv for each key of pip's configuration."""
_CAUSE = re.compile(r"(?:error|cause|Caused by): |╰─▶ ")
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|os error (?:28|122)\b")
_GPU = re.compile(r"^ \+ ((?:nvidia-|cuda-|triton(?==)|pytorch-triton|rocm)[^=]*)", re.MULTILINE)


def clean_environment() -> dict[str, str]:
    """Return this process's environment variables, except variables that mislead another Python."""
    astray = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in astray}


def run(*arguments: str, keep_open: Collection[int] = (), **variables: str) -> Done:
    """Run uv to its end. uv inherits the file descriptors ``keep_open``.

    An interrupt kills uv and uv's children.
    """
    import uv  # A GPU machine may lack uv: the machine has no network and needs no environments.

    try:
        argv = [uv.find_uv_bin(), *arguments]
        # uv must neither read a project in the current folder nor download an interpreter.
        fixed = {"UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1"}
        env = {**clean_environment(), **fixed, **variables}
        if cert := pip_configuration().get("cert"):
            env.setdefault("SSL_CERT_FILE", cert)
        return children.run(argv, env=env, pass_fds=keep_open)
    except OSError as error:
        raise EnvironmentProblem(f"uv does not start: {error}") from None


def install(*arguments: str) -> list[str]:
    """Return uv's arguments for installing wheels from pip's package indexes."""
    configuration = pip_configuration()
    sources: list[str] = []
    for key, option in _SAME_AS_PIP.items():
        for value in configuration.get(key, "").split():
            sources += (option, value)
    if configuration.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        sources.append("--no-index")
    # If several indexes have a package, pip chooses the best version. uv must do the same.
    best = ("--index-strategy", "unsafe-best-match")
    return ["pip", "install", *best, *sources, "--only-binary", ":all:", *arguments]


@cache
def pip_configuration() -> dict[str, str]:
    """Return pip's configuration by key. Empty if this Python has no pip."""
    done = children.run([sys.executable, "-P", "-m", "pip", "config", "list"])
    lines = [line.partition("=") for line in done.stdout.decode().splitlines()]
    return {
        key.removeprefix(section): ast.literal_eval(value)
        for section in ("global.", "install.", ":env:.")  # Later sections override earlier ones.
        for key, _, value in lines
        if key.startswith(section)
    }


def gpu_package(done: Done) -> str | None:
    r"""Return the first package in uv's plan that only GPU builds need, or None.

    >>> gpu_package(Done([], 0, b"", b" + filelock==4\n + nvidia-nccl-cu13==2.29.7\n"))
    'nvidia-nccl-cu13'
    """
    match = _GPU.search(done.stderr.decode(errors="replace"))
    return match[1] if match else None


def problem(done: Done) -> str:
    r"""Return the reason for uv's failure, in one line.

    >>> problem(Done([], 2, b"", b"error: Failed to write\n  cause: x (os error 28)"))
    'there is no space left on the device (of the environments, or of temporary files)'
    >>> problem(Done([], 2, b"", b"error: it broke\n  cause: a line\n    goes on\n\nhint: x"))
    'uv ended with status 2: a line goes on'
    """
    text = " ".join(done.stderr.decode(errors="replace").partition("\nhint: ")[0].split())
    why = _CAUSE.split(text)[-1][:300] or "no reason given"
    if _NO_SPACE.search(text):
        return "there is no space left on the device (of the environments, or of temporary files)"
    if "error sending request" in text:
        return f"the package index can't be reached ({why}); making an environment needs a network"
    return f"uv ended with status {done.returncode}: {why}"
