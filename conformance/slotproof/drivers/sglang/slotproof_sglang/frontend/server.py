"""The build's `Engine`: its front end in this process, its scheduler and detokenizer in others."""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from typing import Any

from slotproof_driver.usage import UsageError

from .. import boot
from . import clients


class Server:
    """A running `Engine` with a tiny model. `UsageError`, one line, where this build has none."""

    def __init__(self, config: dict[str, Any], mends: list[str]) -> None:
        os.environ["SLOTPROOF_FRONTEND"] = json.dumps({"config": config, "mends": mends})
        processes: Any = importlib.import_module("slotproof_sglang.frontend.processes")
        full: dict[str, Any] = processes.CONFIG
        module: Any = importlib.import_module("sglang.srt.entrypoints.engine")
        self.version = str(importlib.import_module("sglang").__version__)
        cls = module.Engine
        for name in ("run_scheduler_process_func", "run_detokenizer_process_func"):
            if not hasattr(cls, name):
                raise UsageError(
                    f"this build's Engine has no {name}: it is not known how to start it"
                )

        class Engine(cls):  # type: ignore[misc,valid-type]  # the build's
            run_scheduler_process_func = staticmethod(processes.run_scheduler)
            run_detokenizer_process_func = staticmethod(processes.run_detokenizer)

        self.folder = tempfile.TemporaryDirectory(prefix="slotproof-model-")
        boot.write_model(self.folder.name, full["context_len"], 2 if full["window"] else 1)
        self.engine = Engine(server_args=boot.server_args(full, self.folder.name))
        self.clients = clients.Clients(self.engine)

    def end(self) -> None:
        """End all of it."""
        try:
            self.engine.shutdown()
        finally:
            self.folder.cleanup()
