"""The SGLang driver on a build with a fault in a server option.

    PYTHONPATH=…/drivers/sglang ENV/bin/python broken_options.py FAULT

The template process changes the build, so every forked child has the fault. It affects only the
code path of the option. The driver knows nothing of it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from slotproof_sglang import engine, main  # type: ignore[import-not-found]  # of the PYTHONPATH


def preempted(scheduler: Any) -> None:
    """`priority`: a preempted turn loses its slot and pages."""
    adder: Any = importlib.import_module("sglang.srt.managers.schedule_policy").PrefillAdder
    inner = adder.preempt_to_schedule

    def preempt_to_schedule(self: Any, *args: Any) -> bool:
        before = list(self.preempt_list)
        done = bool(inner(self, *args))
        for req in self.preempt_list:
            if req.session is not None and not any(req is other for other in before):
                scheduler.tree_cache.session.slots.pop(req.session.session_id, None)
        return done

    adder.preempt_to_schedule = preempt_to_schedule


def turned_away(scheduler: Any) -> None:
    """`queue`: after a turn is aborted to make room, its session still has a turn in flight."""
    _unmarked(scheduler, "_abort_on_queued_limit")


def _unmarked(scheduler: Any, method: str) -> None:
    """Make this method skip the release of an aborted request."""
    inner, release = getattr(scheduler, method), scheduler._release_aborted_request

    def wrong(*args: Any) -> Any:
        scheduler._release_aborted_request = lambda _: None
        try:
            return inner(*args)
        finally:
            scheduler._release_aborted_request = release

    setattr(scheduler, method, wrong)


def late(scheduler: Any, said: str, forget: Callable[[Any], None]) -> None:
    """Apply ``forget`` to a turn just before its timeout aborts it."""
    inner = scheduler._request_dispatcher

    def dispatch(message: Any) -> Any:
        if said in str(getattr(message, "abort_message", "")):
            for req in (*scheduler.waiting_queue, *scheduler.running_batch.reqs):
                if req.rid == message.rid and req.session is not None:
                    forget(req)
        return inner(message)

    scheduler._request_dispatcher = dispatch


def waits_too_long(scheduler: Any) -> None:
    """`waiting_timeout`: the session of the waiting turn does not learn of its end."""

    def forget(req: Any) -> None:
        req.session = None

    late(scheduler, "waiting timeout", forget)


def runs_too_long(scheduler: Any) -> None:
    """`running_timeout`: the session of the running turn loses its slot and pages."""

    def forget(req: Any) -> None:
        scheduler.tree_cache.session.slots.pop(req.session.session_id, None)
        req.session.abort_req()
        req.session = None

    late(scheduler, "running timeout", forget)


def pauses(scheduler: Any) -> None:
    """`pause_retracts`: a turn retracted by a pause loses its slot and pages."""
    module: Any = sys.modules[type(scheduler).__module__]
    inner = module.retract_all

    def retract_all(*, reqs: list[Any], **others: Any) -> Any:
        result = inner(reqs=reqs, **others)
        for req in reqs:
            if req.session is not None:
                scheduler.tree_cache.session.slots.pop(req.session.session_id, None)
        return result

    module.retract_all = retract_all


def mixes(scheduler: Any) -> None:
    """`mixed`: tokens decoded beside the prefill of other requests are not counted."""
    batch: Any = importlib.import_module("sglang.srt.managers.schedule_batch").ScheduleBatch
    inner = batch.mix_with_running

    def mix_with_running(self: Any, running: Any) -> None:
        inner(self, running)
        for req in running.reqs:
            if req.session is not None:
                req.kv.kv_allocated_len -= 1
                req.kv.kv_committed_len -= 1

    batch.mix_with_running = mix_with_running


def sorts(scheduler: Any) -> None:
    """`longest_match`: the prefix looked up for sorting a waiting request stays locked."""
    policy: Any = importlib.import_module("sglang.srt.managers.schedule_policy").SchedulePolicy
    inner = policy._compute_prefix_matches

    def _compute_prefix_matches(self: Any, waiting: Any, *args: Any) -> Any:
        result = inner(self, waiting, *args)
        for req in waiting:
            if isinstance(req.last_node, int):
                scheduler.tree_cache.lock(req.last_node)
        return result

    policy._compute_prefix_matches = _compute_prefix_matches


def _unsaved(scheduler: Any, asked: str) -> None:
    """Make a finished turn with this request attribute lose its slot and pages."""
    cache = type(scheduler.tree_cache.session)
    inner = cache.try_cache_finished_req

    def try_cache_finished_req(self: Any, req: Any) -> bool:
        kept = bool(inner(self, req))
        if kept and getattr(req, asked):
            self.slots.pop(req.session.session_id)
        return kept

    cache.try_cache_finished_req = try_cache_finished_req


def skips(scheduler: Any) -> None:
    """`stream`: if several tokens are due at the end, only the last is sent."""
    del scheduler
    name = "sglang.srt.managers.scheduler_components.output_streamer"
    streamer: Any = importlib.import_module(name)._GenerationStreamAccumulator
    inner = streamer.accept

    def accept(self: Any, *, req: Any) -> None:
        if req.stream and req.finished() and req.send_token_offset:
            req.send_token_offset = max(req.send_token_offset, len(req.output_ids) - 1)
        inner(self, req=req)

    streamer.accept = accept


def outlives(scheduler: Any) -> None:
    """`own_timeouts`: a session closed by its timeout leaks its slot and pages."""
    controller = scheduler.session_controller
    close, release = controller._close, scheduler.tree_cache.release_session

    def _close(sid: str) -> None:
        late = controller.sessions[sid].is_timed_out()
        scheduler.tree_cache.release_session = (lambda _: None) if late else release
        try:
            close(sid)
        finally:
            scheduler.tree_cache.release_session = release

    controller._close = _close


def forgets_its_time(scheduler: Any) -> None:
    """`own_timeouts`: every session closes at the earliest timeout of all."""
    controller = scheduler.session_controller
    inner = controller.open

    def opens(message: Any) -> Any:
        others = [session.timeout for session in controller.sessions.values() if session.timeout]
        message.timeout = min([message.timeout, *others])
        return inner(message)

    controller.open = opens


def replaces(scheduler: Any) -> None:
    """`branching`: the prefix matched for a replaced turn stays locked."""
    module: Any = importlib.import_module("sglang.srt.session.session_controller")
    for name in ("abort", "clear"):
        inner = getattr(module.SessionReqNode, name)

        def wrong(self: Any, *args: Any, inner: Any = inner) -> Any:
            if self.req.finished_reason is None and self.req.kv.holds_kv:
                scheduler.tree_cache.lock(self.req.last_node)
            return inner(self, *args)

        setattr(module.SessionReqNode, name, wrong)


def shares(scheduler: Any) -> None:
    """`branching`: a turn's tokens are written into the tokens of its predecessor."""
    del scheduler
    session: Any = importlib.import_module("sglang.srt.session.session_controller").Session
    inner = session._concat_token_arrays

    def _concat_token_arrays(last_req: Any, req: Any, params: Any) -> Any:
        made, unpadded = inner(last_req, req, params)
        if last_req.finished():
            last_req.origin_input_ids[:] = made
        return made, unpadded

    session._concat_token_arrays = staticmethod(_concat_token_arrays)


FAULTS: dict[str, Callable[[Any], None]] = {
    "preempted": preempted,
    "turned-away": turned_away,
    "waits-too-long": waits_too_long,
    "runs-too-long": runs_too_long,
    "pauses": pauses,
    "mixes": mixes,
    "sorts": sorts,
    "streams": lambda scheduler: _unsaved(scheduler, "stream"),
    "skips": skips,
    "outlives": outlives,
    "forgets-its-time": forgets_its_time,
    "replaces": replaces,
    "shares": shares,
    "computes-logprobs": lambda scheduler: _unsaved(scheduler, "return_logprob"),
}


def run() -> None:
    """Run the driver, with the fault installed when a scheduler exists."""
    fault = sys.argv.pop(1)  # not the driver's
    install = engine.Engine._install

    def _install(self: Any) -> None:
        FAULTS[fault](self.scheduler)
        install(self)

    engine.Engine._install = _install
    main.main()


if __name__ == "__main__":
    run()
