"""The program uv: it finds interpreters, makes environments and installs packages."""

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
"""uv's option, by the key of pip's configuration."""
_CAUSE = re.compile(r"(?:error|cause|Caused by): |╰─▶ ")
_NO_SPACE = re.compile(r"No space left on device|Disk quota exceeded|os error (?:28|122)\b")
_GPU = re.compile(r"^ \+ ((?:nvidia-|cuda-|triton(?==)|pytorch-triton|rocm)[^=]*)", re.MULTILINE)


def clean_environment() -> dict[str, str]:
    """Return this process' variables, without those that would lead another Python astray."""
    astray = ("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in astray}


def run(*arguments: str, keep_open: Collection[int] = (), **variables: str) -> Done:
    """Run uv to its end. It inherits the file descriptors ``keep_open``.

    uv and all that it starts are killed if this is interrupted.
    """
    import uv  # a machine with a GPU and no network may lack it: there no environment is made

    try:
        argv = [uv.find_uv_bin(), *arguments]
        # A project in the current folder has no say, and uv takes no Python from the network.
        fixed = {"UV_NO_CONFIG": "1", "UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1"}
        env = {**clean_environment(), **fixed, **variables}
        if cert := pip_configuration().get("cert"):
            env.setdefault("SSL_CERT_FILE", cert)
        return children.run(argv, env=env, pass_fds=keep_open)
    except OSError as error:
        raise EnvironmentProblem(f"uv does not start: {error}") from None


def install(*arguments: str) -> list[str]:
    """Return a command line that installs wheels from where pip would take them."""
    found = pip_configuration()
    sources: list[str] = []
    for key, option in _SAME_AS_PIP.items():
        for value in found.get(key, "").split():
            sources += (option, value)
    if found.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        sources.append("--no-index")
    # Of a package that several indexes have, pip takes the best release.
    best = ("--index-strategy", "unsafe-best-match")
    return ["pip", "install", *best, *sources, "--only-binary", ":all:", *arguments]


@cache
def pip_configuration() -> dict[str, str]:
    """Return pip's configuration. It is empty for a Python without pip."""
    done = children.run([sys.executable, "-P", "-m", "pip", "config", "list"])
    lines = [line.partition("=") for line in done.stdout.decode().splitlines()]
    return {
        key.removeprefix(section): ast.literal_eval(value)
        for section in ("global.", "install.", ":env:.")  # the last one wins
        for key, _, value in lines
        if key.startswith(section)
    }


def gpu_package(done: Done) -> str | None:
    """Return the first package in a dry run that only a build for GPUs needs.

    >>> gpu_package(Done([], 0, b"", b" + filelock==4\\n + nvidia-nccl-cu13==2.29.7\\n"))
    'nvidia-nccl-cu13'
    """
    found = _GPU.search(done.stderr.decode(errors="replace"))
    return found[1] if found else None


def problem(done: Done) -> str:
    """Return why uv failed, in one line.

    >>> problem(Done([], 2, b"", b"error: Failed to write\\n  cause: x (os error 28)"))
    'there is no space left on the device (of the environments, or of temporary files)'
    >>> problem(Done([], 2, b"", b"error: it broke\\n  cause: a line\\n    goes on\\n\\nhint: x"))
    'uv ended with status 2: a line goes on'
    """
    text = " ".join(done.stderr.decode(errors="replace").partition("\nhint: ")[0].split())
    why = _CAUSE.split(text)[-1][:300] or "no reason given"
    if _NO_SPACE.search(text):
        return "there is no space left on the device (of the environments, or of temporary files)"
    if "error sending request" in text:
        return f"the package index can't be reached ({why}); it takes a network, once"
    return f"uv ended with status {done.returncode}: {why}"
