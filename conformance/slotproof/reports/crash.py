"""Place of a crash: the innermost traceback frame that lies in the engine's own code.

Deeper frames belong to libraries, or to hooks that the driver installs in the engine.
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
"""Pattern of slotproof's own files, whose frames are not the engine's."""


class Frame(NamedTuple):
    """A frame of a traceback."""

    path: str
    line: str
    function: str

    def within(self, package: str) -> str:
        """Return the file's path within ``package``, or "" if the file is outside the package.

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
        """Name of the file, or "" if the file belongs to a library or to slotproof."""
        known = _SUITE.search(self.path) or _LIBRARY.match(self.path) or self.path.startswith("<")
        return "" if known else self.path.rpartition("/")[2]


def crashed_at(trace: Record, violation: Violation) -> str:
    """Return a crash's place, as ``sglang/srt/mem_cache/radix_cache.py:634 in dec_lock_ref``.

    Return "" for an unknown place, or if the driver did not crash but sent garbage or nothing.
    """
    if violation.clause != "INV-ALIVE.crash" or violation.fault not in (None, "death"):
        return ""
    frames = [Frame(*match) for match in reversed(_FRAME.findall(violation.said))]
    for package in (*_packages(trace), ""):
        for frame in frames:
            if path := frame.within(package) if package else frame.somewhere:
                return f"{path}:{frame.line} in {frame.function}"
    return ""


def _packages(trace: Record) -> Iterator[str]:
    """Yield the names of the Python packages that may contain the engine's code."""
    if is_ours(trace.spec):
        yield "slotproof_engine"
        return
    module, colon, _ = trace.spec.partition(":")
    if colon and module != "cmd":
        yield module.partition(".")[0]
    yield trace.engine.partition(" ")[0]
