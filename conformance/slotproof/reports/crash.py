"""Where an engine crashed: the last frame of its traceback that is the engine's own.

Deeper frames are a library's that it called, or of the driver's hooks in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from slotproof.engines.registry import is_ours
from slotproof.environments.families import FAMILIES
from slotproof.lockstep.observation import Violation
from slotproof.traces.record import Record

_FRAME = re.compile(r'^ *File "([^"\n]{1,1000})", line (\d{1,7}), in ([^\n]{1,200})$', re.MULTILINE)
_LIBRARY = re.compile(r".*(?:site-packages|dist-packages|lib/python\d+(?:\.\d+)?)/")
_DRIVERS = "|".join(("common", *FAMILIES))
_SUITE = re.compile(rf"(?:^|/)slotproof/(?:engines|lockstep|drivers/(?:{_DRIVERS})/)")
"""Ours, on the way to the engine and in it."""


class Frame(NamedTuple):
    """A line of a traceback."""

    path: str
    line: str
    function: str

    def within(self, package: str) -> str:
        """The path from that package or module on; empty where it is not in it.

        >>> Frame("/env/lib/python3.11/site-packages/sglang/srt/x.py", "4", "f").within("sglang")
        'sglang/srt/x.py'
        >>> Frame("/home/me/sglang/python/sglang/srt/x.py", "4", "f").within("sglang")
        'sglang/srt/x.py'
        >>> Frame("/envs/sglang/lib/python3.11/site-packages/torch/x.py", "4", "f").within("sglang")
        ''
        """
        if _SUITE.search(self.path) or self.path.startswith("<"):
            return ""
        rest, installed = _LIBRARY.subn("", self.path)
        parts = rest.split("/")
        names = [*parts[:-1], parts[-1].removesuffix(".py")]
        if package not in names or (installed and names[0] != package):
            return ""
        at = 0 if installed else len(names) - 1 - names[::-1].index(package)
        return "/".join(parts[at:])

    @property
    def somewhere(self) -> str:
        """The file's name, where it is neither a library's nor ours."""
        known = _SUITE.search(self.path) or _LIBRARY.match(self.path) or self.path.startswith("<")
        return "" if known else self.path.rpartition("/")[2]


def crashed_at(trace: Record, violation: Violation) -> str:
    """``sglang/srt/mem_cache/radix_cache.py:634 in dec_lock_ref``; empty where it is not known.

    Of a driver that sends garbage, or nothing, a traceback is no crash of the engine.
    """
    if violation.clause != "INV-ALIVE.crash" or violation.fault not in (None, "death"):
        return ""
    frames = [Frame(*found) for found in reversed(_FRAME.findall(violation.said))]
    for package in (*_packages(trace), ""):
        for frame in frames:
            if path := frame.within(package) if package else frame.somewhere:
                return f"{path}:{frame.line} in {frame.function}"
    return ""


def _packages(trace: Record) -> Iterator[str]:
    """What the engine is imported as, as far as its names tell."""
    if is_ours(trace.spec):
        yield "slotproof_engine"
        return
    module, colon, _ = trace.spec.partition(":")
    if colon and module != "cmd":
        yield module.partition(".")[0]
    yield trace.engine.partition(" ")[0]
