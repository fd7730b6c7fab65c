"""Switch for the recorder: `PYTHONPATH=…/drivers/sglang SLOTPROOF_RECORD=/path/log.jsonl`.

Every Python that has this folder on its path loads this file, so the file does little. If a log is
requested, the file waits for the import of SGLang's scheduler. If a later folder of the path also
has a `sitecustomize`, the file loads this module, too.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SCHEDULER = "sglang.srt.managers.scheduler"


class Finder:
    """Import finder that only hooks the scheduler's module, after the module has been executed."""

    def __init__(self) -> None:
        self.looking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the scheduler's spec from the other finders, with the hook added to its loader."""
        del path, target
        if name != SCHEDULER or self.looking:
            return None
        self.looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.looking = False
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: Any) -> None:
                execute(module)
                hook(module)

            loader.exec_module = exec_module
        return spec


def hook(module: Any) -> None:
    """Load the recorder and hook the scheduler. Failures must not stop the server."""
    try:
        importlib.import_module("slotproof_sglang.recording.hooks").hook(module)
    except Exception as error:
        sys.stderr.write(f"slotproof: recorder off: {type(error).__name__}: {error}\n")


def load_next() -> None:
    """Load the next `sitecustomize` on the path, if any."""
    rest = [folder for folder in sys.path if Path(folder or ".").resolve() != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


if os.environ.get("SLOTPROOF_RECORD"):
    sys.meta_path.insert(0, Finder())
load_next()
