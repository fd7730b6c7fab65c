"""Hooks SGLang's event loops: those of one stage are recorded, any other says that it is not."""

from __future__ import annotations

import functools
import sys
from typing import Any

from slotproof_driver.usage import UsageError

from .recorder import Recorder, refuse
from .settings import Settings

RECORDED = ("event_loop_normal", "event_loop_overlap")


def hook(module: Any) -> None:
    """Wrap every event loop of the scheduler's class."""
    scheduler = module.Scheduler
    for name in dir(scheduler):
        if name.startswith("event_loop_"):
            setattr(scheduler, name, looped(getattr(scheduler, name), name in RECORDED))


def looped(loop: Any, recorded: bool) -> Any:
    """The event loop, with a recorder where that is possible."""

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
    """A recorder, or one line that says why there is none."""
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
    """One line on the server's standard error."""
    sys.stderr.write(f"slotproof: {' '.join(line.split())}\n")
    sys.stderr.flush()
