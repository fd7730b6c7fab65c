"""Hooks into SGLang's event loops. Only loops with a single pipeline stage are recorded."""

from __future__ import annotations

import functools
import sys
from typing import Any

from slotproof_driver.usage import UsageError

from .recorder import Recorder, refuse
from .settings import Settings

RECORDED = ("event_loop_normal", "event_loop_overlap")


def hook(module: Any) -> None:
    """Wrap every event loop of the scheduler class in a module."""
    scheduler = module.Scheduler
    for name in dir(scheduler):
        if name.startswith("event_loop_"):
            setattr(scheduler, name, looped(getattr(scheduler, name), name in RECORDED))


def looped(loop: Any, recorded: bool) -> Any:
    """Return the event loop with a recorder, or with a message that the loop is not recorded."""

    @functools.wraps(loop)
    def run(scheduler: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = start(scheduler) if recorded else None
        if not recorded:
            tell(
                f"recorder off: {loop.__name__} is not recorded, only {' and '.join(RECORDED)} "
                "(one pipeline stage, no disaggregation)"
            )
        try:
            result = loop(scheduler, *args, **kwargs)
        except BaseException as error:
            if recorder is not None:
                recorder.stop(error if isinstance(error, Exception) else None)
            raise
        if recorder is not None:
            recorder.stop(None)
        return result

    return run


def start(scheduler: Any) -> Recorder | None:
    """Return a recorder, or None after printing one line on why nothing is recorded."""
    try:
        refuse(scheduler)
        return Recorder(scheduler, Settings.of(), tell)
    except UsageError as error:
        tell(f"recorder off: {error}")
    except OSError as error:
        tell(f"recorder off: {error.filename}: {error.strerror}")
    except Exception as error:
        tell(f"recorder off: {type(error).__name__}: {error}")
    return None


def tell(line: str) -> None:
    """Write one line to the server's standard error."""
    sys.stderr.write(f"slotproof: {' '.join(line.split())}\n")
    sys.stderr.flush()
