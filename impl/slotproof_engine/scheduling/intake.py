"""Intake: executes the clients' commands in order of arrival. Every legal command is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from slotproof_engine.base.config import EngineConfig
from slotproof_engine.base.events import Outbox
from slotproof_engine.requests.req import Req, Session
from slotproof_engine.scheduling.scheduler import ABORT, Scheduler
from slotproof_engine.sessions.session_controller import SessionController
from slotproof_engine.sessions.turn_queue import TurnQueue

Command: TypeAlias = dict[str, Any]

FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "open": {"session": (str,)},
    "submit": {
        "session": (str, type(None)),
        "rid": (str,),
        "tokens": (list,),
        "max_new": (int,),
        "stop": (list,),
    },
    "abort": {"rid": (str,)},
    "close": {"session": (str,)},
    "evict": {"tokens": (int,)},
    "retract": {},
    "accept": {"rid": (str,), "tokens": (int,)},
    "flush": {},
    "flush_all": {},
    "pause": {},
    "continue": {},
    "abort_all": {},
}
"""Commands for the inbox, and the types of their fields."""


def check_command(command: Command) -> None:
    """Raise ``ValueError`` for a malformed command. Odd but legal commands pass."""
    name = command.get("do")
    if name not in FIELDS:
        raise ValueError(f"do: no such command: {name!r}")
    for field, types in FIELDS[name].items():
        if field == "stop" and field not in command:
            continue
        if not isinstance(command.get(field, ...), types):
            raise ValueError(f"{name}: {field} is missing or has the wrong type")  # noqa: TRY004  # one kind of error for a malformed message


class Intake:
    """Executor of commands between two iterations."""

    def __init__(
        self,
        config: EngineConfig,
        controller: SessionController,
        scheduler: Scheduler,
        outbox: Outbox,
        queue: type[TurnQueue],
    ) -> None:
        self.config = config
        self.controller = controller
        self.scheduler = scheduler
        self.outbox = outbox
        self.queue = queue(controller, self.submit, self._answer)
        self._handlers: dict[str, Callable[[Command], object]] = {
            "open": lambda c: controller.open(c["session"]),
            "submit": self.submit,
            "abort": lambda c: self.abort(c["rid"]),
            "close": lambda c: controller.close(c["session"]),
            "evict": lambda c: self.evict(max(0, c["tokens"])),
            "retract": lambda _: self.retract(),
            "accept": lambda c: scheduler.rounds.asked.update({c["rid"]: c["tokens"]}),
            "flush": lambda _: self.flush(),
            "flush_all": lambda _: self.flush_all(),
            "pause": lambda _: self.pause(True),
            "continue": lambda _: self.pause(False),
            "abort_all": lambda _: self.abort_all(),
        }

    def handle(self, command: Command) -> None:
        self._handlers[command["do"]](command)
        self.queue.take()

    def submit(self, command: Command) -> None:
        """Queue a request, or answer immediately with the reason for a refusal."""
        rid, sid = command["rid"], command["session"]
        session = None if sid is None else self.controller.get(sid)
        tokens = list(command["tokens"])
        prompt = tokens if session is None else session.prompt_of(tokens)
        max_new, stop = max(0, command["max_new"]), command.get("stop", ())
        doomed = self._why_doomed(prompt, max_new)
        if session is not None:
            self.controller.touch(session)
        if rid in self.scheduler.reqs:
            self._answer(rid, "a request with this ID is already in flight")
        elif sid is not None and session is None:
            self._answer(rid, f"session {sid!r} is not open")
        elif session is not None and self._waits(session):
            self.queue.put(session, command)
        elif not prompt:
            self._answer(rid, "the prompt is empty")
        elif session is not None and not session.accepts_turn:
            self.reject(session, rid, prompt)
        elif session is not None:
            req = session.create_req(rid, prompt, max_new, stop)
            req.doomed = doomed
            self.scheduler.add(req)
            self.outbox.emit("T-SUBMIT", sid, rid, new=len(tokens))
        elif doomed:
            self._answer(rid, doomed)
        else:
            req = Req(
                rid=rid,
                origin_input_ids=prompt,
                max_new_tokens=max_new,
                stop_token_ids=frozenset(stop),
            )
            self.scheduler.add(req)
            self.outbox.emit("T-PLAIN-SUBMIT", None, rid, prompt=len(prompt))

    def _waits(self, session: Session) -> bool:
        """Return True if a new turn must wait: turns are queued, and another turn is in flight."""
        busy = session.inflight is not None
        return self.config.queues_turns and busy and self.queue.takes(session)

    def _why_doomed(self, prompt: list[int], max_new: int) -> str:
        if len(prompt) + max_new > self.config.context_len:
            return f"prompt and max_new exceed the context of {self.config.context_len} tokens"
        if len(prompt) > self.config.total_tokens:
            return f"the prompt is larger than the pool of {self.config.total_tokens} tokens"
        return ""

    def reject(self, session: Session, rid: str, prompt: list[int]) -> None:
        """Refuse a turn by aborting a stub request in its place. The session does not change."""
        closing = session.closing or session.close_waits
        why = "is closing" if closing else "has a turn in flight"
        stub = Req(rid=rid, origin_input_ids=prompt, max_new_tokens=0, kind="stub")
        self.outbox.emit("T-REJECT", session.session_id, rid, prompt=len(prompt))
        self.scheduler.abort(stub, f"session {session.session_id!r} {why}")

    def _answer(self, rid: str, message: str) -> None:
        """Answer that a request is refused. A refused request has no ``Req`` object."""
        self.outbox.tell_finish(rid, ABORT, [], message)

    def abort(self, rid: str) -> None:
        """Abort a request. Unknown and answered requests are ignored."""
        self.queue.abort(rid)
        req = self.scheduler.reqs.get(rid)
        if req is not None:
            self.scheduler.abort(req, "aborted by the client")

    def abort_all(self) -> None:
        self.queue.abort_all()
        for req in tuple(self.scheduler.reqs.values()):
            self.scheduler.abort(req, "aborted by the client")

    def evict(self, tokens: int) -> None:
        """Evict up to ``tokens`` unlocked tokens from the tree, in whole pages."""
        self.scheduler.cache.inner.evict(tokens)

    def flush(self) -> None:
        """Evict all unlocked pages from the tree."""
        self.evict(self.scheduler.cache.inner.kv.tree.evictable)

    def flush_all(self) -> None:
        """Retract all requests with a batch or a chunk, newest first. Then flush the tree."""
        chunked = self.scheduler.chunked_req
        for req in ([chunked] if chunked else []) + self.scheduler.running_reqs()[::-1]:
            self.scheduler.retract_decode(req)
        self.flush()

    def retract(self) -> None:
        """Retract the most recently admitted request, if any runs."""
        running = self.scheduler.running_reqs()
        if running:
            self.scheduler.retract_decode(running[-1])

    def pause(self, paused: bool) -> None:
        """Pause or resume the scheduler. While paused, commands are executed, but no batch runs."""
        self.scheduler.paused = paused
