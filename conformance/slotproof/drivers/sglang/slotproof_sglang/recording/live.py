"""Parts of the driver, adapted to a server's scheduler, which runs without the driver's steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..dialects.base import Dialect
from ..events import Wrapper
from ..intake import Intake
from ..messages import Mailbox, outer_rid
from ..snapshot import Snapshooter
from ..tracker import Event, Tracker
from .clients import Clients
from .guard import Switch, guarded
from .tokens import Running

MOST_NEW = 1_000_000
"""Value of `max_new` for a submission with a larger limit or without a limit."""


class LiveTracker(Tracker):
    """Tracker that forgets ended requests, because a server runs for a long time."""

    def __init__(self, clients: Clients) -> None:
        super().__init__()
        self.clients = clients

    def emit(self, transition: str, session: str | None, rid: str | None, **params: int) -> Event:
        """Append an event. A close also removes the session from the clients' record."""
        if transition in ("T-CLOSE", "T-REAP"):
            self.clients.sessions.pop(str(session), None)
        return super().emit(transition, session, rid, **params)

    def end(self, req: Any) -> None:
        """Record the end of a request."""
        super().end(req)
        self.new_tokens.pop(req.rid, None)


class LiveSnapshooter(Snapshooter):
    """Snapshooter that hashes each long prompt once, and each long history once per turn."""

    def __init__(self, dialect: Dialect, tracker: Tracker, empty: Running) -> None:
        super().__init__(dialect, tracker)
        self.empty = empty

    def hashed_history(self, session: Any, new_tokens: dict[str, int]) -> tuple[int, int | None]:
        place = req, prompt, output = self.dialect.history_place(session, new_tokens)
        kept = getattr(session, "_slotproof_history", None)
        if kept is None or kept[0] != place:
            tokens = self.empty
            if req is not None:
                tokens = tokens.more(req.origin_input_ids[:prompt])
                tokens = tokens.more(req.output_ids[:output])
            kept = place, (tokens.count, tokens.hash if tokens.count else None)
            session._slotproof_history = kept
        return kept[1]

    def hashed_prompt(self, req: Any) -> int | None:
        if not self.dialect.is_session_turn(req):
            return None  # The prompt of a plain request is compared with nothing.
        kept = getattr(req, "_slotproof_prompt", None)
        if kept is None or kept[0] != len(req.origin_input_ids):
            tokens = self.empty.more(req.origin_input_ids)
            kept = req._slotproof_prompt = tokens.count, tokens.hash
        return kept[1]


class LiveMailbox(Mailbox):
    """Mailbox that reads messages and then lets the engine send them."""

    def __init__(self, clients: Clients) -> None:
        super().__init__()
        self.clients = clients

    def _add(self, message: dict[str, Any]) -> None:
        if message.get("session") in self.clients.slotless:
            self.clients.slotless.discard(message["session"])  # This message answers the open.
        else:
            super()._add(self.clients.hears(message))

    def listen(self, switch: Switch) -> None:
        """Wrap the sender's class. It is wrapped once, even if several modules import it."""
        known = {getattr(module, "SenderWrapper", None) for module in list(sys.modules.values())}
        for sender in known:
            if isinstance(sender, type) and hasattr(sender, "send_output"):
                cls: Any = sender
                cls.send_output = guarded(switch, cls.send_output, self._sent)

    def _sent(self, original: Any, sender: Any, output: Any, *args: Any, **kwargs: Any) -> Any:
        self.deliver(output)
        return original(sender, output, *args, **kwargs)


class LiveIntake(Intake):
    """Intake that records client messages as commands of the protocol."""

    def __init__(
        self, scheduler: Any, dialect: Dialect, tracker: LiveTracker, switch: Switch
    ) -> None:
        super().__init__(scheduler, dialect, tracker)
        self.switch, self.clients = switch, tracker.clients
        self.commands: list[dict[str, Any]] = []

    def dispatch(self, original: Any, message: Any) -> Any:
        """Wrap a message's dispatch. A batch is split into requests, as in the engine."""
        kind = type(message).__name__
        if kind == "BatchTokenizedGenerateReqInput":
            for part in message:
                self.dispatch(original.original, part)
            original.called = True
            return None
        if "Embedding" in kind:
            self.switch.off("embedding requests are not recorded")
            return original(message)
        command = command_of(kind, message)
        if command is not None and self._slotless(message):
            return self._branch(original, message, command)
        if command is not None:
            self.commands.append(self.clients.says(command))
        return super().dispatch(original, message)

    def _slotless(self, message: Any) -> bool:
        """Return True if the message is about a session without a slot."""
        params = getattr(message, "session_params", None)
        sid = getattr(message, "session_id", None) if params is None else params.id
        if sid in self.scheduler.session_controller.sessions:
            return self.dialect.branches(str(sid))
        return not getattr(message, "streaming", True)

    def _branch(self, original: Any, message: Any, command: dict[str, Any]) -> Any:
        """Record a turn of a session without a slot as a plain request. The engine first builds the
        turn's whole prompt. The open and the close of such a session are not recorded."""
        if command["do"] == "open":
            self.clients.slotless.add(message.session_id)
        if command["do"] != "submit":
            return original(message)
        result = super().dispatch(original, message)
        made = (r for r in reversed(self.scheduler.waiting_queue) if r.rid == message.rid)
        tokens = next((req.origin_input_ids for req in made), message.input_ids)
        self.commands.append(self.clients.says({**command, "session": None, "tokens": tokens}))
        return result


def command_of(kind: str, message: Any) -> dict[str, Any] | None:
    """Return the protocol's command for one of the engine's input messages, or None."""
    if kind == "OpenSessionReqInput":
        return {"do": "open", "session": message.session_id}
    if kind == "CloseSessionReqInput":
        return {"do": "close", "session": message.session_id}
    if kind == "TokenizedGenerateReqInput":
        session, sampling = message.session_params, message.sampling_params
        most = sampling.max_new_tokens
        return {
            "do": "submit",
            "session": None if session is None else session.id,
            "rid": outer_rid(message.rid),
            "tokens": message.input_ids,
            "max_new": MOST_NEW if most is None else min(int(most), MOST_NEW),
            "stop": sorted(int(token) for token in sampling.stop_token_ids or ()),
        }
    if kind == "AbortReq":
        whole = getattr(message, "abort_all", False)
        return {"do": "abort_all"} if whole else {"do": "abort", "rid": outer_rid(message.rid)}
    words = {
        "FlushCacheReqInput": "flush",
        "PauseGenerationReqInput": "pause",
        "ContinueGenerationReqInput": "continue",
    }
    return {"do": words[kind]} if kind in words else None


class LiveWrapper(Wrapper):
    """Installer of the driver's wrappers. Each wrapper is guarded, so none can stop the server."""

    def __init__(
        self, scheduler: Any, dialect: Dialect, tracker: LiveTracker, switch: Switch
    ) -> None:
        super().__init__(scheduler, dialect, tracker)
        self.switch = switch
        self.intake = self.live = LiveIntake(scheduler, dialect, tracker, switch)

    def _around(self, original: Any, wrapper: Callable[..., Any]) -> Callable[..., Any]:
        return guarded(self.switch, original, wrapper)
