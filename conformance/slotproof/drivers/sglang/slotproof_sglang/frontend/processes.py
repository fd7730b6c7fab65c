"""What runs in the processes that the build's `Engine` starts.

Each of them imports this module before anything of the build, for their targets are here: so the
stand-ins, and the mends that were asked for, are in place where the build is imported.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import sys
from types import ModuleType
from typing import Any

from .. import boot, mends, paging, speculation, window

TOLD = "SLOTPROOF_FRONTEND"
"""The environment variable with `config` and `mends`, which these processes inherit."""


def told() -> dict[str, Any]:
    """What the front end was started with."""
    found: dict[str, Any] = json.loads(os.environ[TOLD])
    return found


def without_uvloop() -> None:
    """Python's own event loop where the environment has not the one that the build asks for."""
    if importlib.util.find_spec("uvloop") is None:
        stand_in: Any = ModuleType("uvloop")
        stand_in.EventLoopPolicy = asyncio.DefaultEventLoopPolicy
        sys.modules["uvloop"] = stand_in


def prepared() -> dict[str, Any]:
    """Import the build, as the driver does, for one scheduler; the configuration."""
    asked = told()
    mends.apply(asked["mends"])
    without_uvloop()
    boot.import_engine()
    config = boot.normalise(asked["config"])
    window.prepare(config)
    speculation.prepare(config)
    if config["page_size"] > 1:
        paging.patch()
    return config


CONFIG = prepared()


def run_scheduler(*args: Any, **kwargs: Any) -> None:
    """The build's own scheduler process, with the driver's model."""
    module = importlib.import_module("sglang.srt.managers.scheduler")
    made = module.Scheduler.__init__

    def init(scheduler: Any, *args: Any, **kwargs: Any) -> None:
        made(scheduler, *args, **kwargs)
        boot.randomise_weights(scheduler)
        window.finish(scheduler, boot.model_runner(scheduler).model, CONFIG)
        speculation.rounds(scheduler)
        torch = importlib.import_module("torch")
        torch.Tensor.record_stream = lambda *_: None  # there is no device to wait for

    module.Scheduler.__init__ = init
    module.run_scheduler_process(*args, **kwargs)


def run_detokenizer(*args: Any, **kwargs: Any) -> None:
    """The build's own detokenizer process."""
    module = importlib.import_module("sglang.srt.managers.detokenizer_manager")
    module.run_detokenizer_process(*args, **kwargs)
