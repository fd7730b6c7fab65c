"""The driver's parts, made fit for a scheduler that is not stepped by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..dialects.base import Dialect
from ..draft import Drafts
from ..events import Wrapper
from ..intake import Intake
from ..messages import Mailbox, outer_rid
from ..snapshot import Snapshooter
from ..tracker import Event, Tracker
from .clients import Clients
from .guard import Switch, guarded
from .tokens import Running

MOST_NEW = 1_000_000
"""`max_new` of a submission at most, and of one without a limit."""


class LiveTracker(Tracker):
    """Forgets requests that ended: a server lives long."""

    def __init__(self, clients: Clients) -> None:
        super().__init__()
        self.clients = clients

    def emit(self, transition: str, session: str | None, rid: str | None, **params: int) -> Event:
        """An event; what clients know of a session ends with it."""
        if transition in ("T-CLOSE", "T-REAP"):
            self.clients.sessions.pop(str(session), None)
        return super().emit(transition, session, rid, **params)

    def end(self, req: Any) -> None:
        """A request ended."""
        super().end(req)
        self.new_tokens.pop(req.rid, None)


class LiveSnapshooter(Snapshooter):
    """Hashes a prompt once, a history once per turn: both may be long."""

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
            return None  # there is nothing to compare it with
        kept = getattr(req, "_slotproof_prompt", None)
        if kept is None or kept[0] != len(req.origin_input_ids):
            tokens = self.empty.more(req.origin_input_ids)
            kept = req._slotproof_prompt = tokens.count, tokens.hash
        return kept[1]


class LiveMailbox(Mailbox):
    """Reads what is sent, and has it sent."""

    def __init__(self, clients: Clients) -> None:
        super().__init__()
        self.clients = clients

    def _add(self, message: dict[str, Any]) -> None:
        if message.get("session") in self.clients.slotless:
            self.clients.slotless.discard(message["session"])  # it is answered once
        else:
            super()._add(self.clients.hears(message))

    def listen(self, switch: Switch) -> None:
        """Wrap the sender's class, once however many modules know it."""
        known = {getattr(module, "SenderWrapper", None) for module in list(sys.modules.values())}
        for sender in known:
            if isinstance(sender, type) and hasattr(sender, "send_output"):
                cls: Any = sender
                cls.send_output = guarded(switch, cls.send_output, self._sent)

    def _sent(self, original: Any, sender: Any, output: Any, *args: Any, **kwargs: Any) -> Any:
        self.deliver(output)
        return original(sender, output, *args, **kwargs)


class LiveIntake(Intake):
    """Notes what clients ask for as commands of the protocol."""

    def __init__(
        self, scheduler: Any, dialect: Dialect, tracker: LiveTracker, switch: Switch
    ) -> None:
        super().__init__(scheduler, dialect, tracker)
        self.switch, self.clients = switch, tracker.clients
        self.commands: list[dict[str, Any]] = []

    def dispatch(self, original: Any, message: Any) -> Any:
        """One message of a client; a batch of them is taken apart, as the engine does."""
        kind = type(message).__name__
        if kind == "BatchTokenizedGenerateReqInput":
            for each in message:
                self.dispatch(original.original, each)
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
        """Whether it is about a session that keeps no slot."""
        params = getattr(message, "session_params", None)
        sid = getattr(message, "session_id", None) if params is None else params.id
        if sid in self.scheduler.session_controller.sessions:
            return self.dialect.branches(str(sid))
        return not getattr(message, "streaming", True)

    def _branch(self, original: Any, message: Any, command: dict[str, Any]) -> Any:
        """A turn of it is a request with the whole prompt, known once the engine has put it
        together. Its open and its close are nobody's."""
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
    """The protocol's word for an input message; None for what is no command."""
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


class NoDrafts(Drafts):
    """A server is given no drafts by hand."""

    def __init__(self) -> None:
        """Nothing to keep."""

    def inject(self, req: Any) -> None:
        """Nothing to put in."""


class LiveWrapper(Wrapper):
    """The driver's wrappers, none of which can stop the server."""

    def __init__(
        self, scheduler: Any, dialect: Dialect, tracker: LiveTracker, switch: Switch
    ) -> None:
        super().__init__(scheduler, dialect, tracker, NoDrafts())
        self.switch = switch
        self.live = LiveIntake(scheduler, dialect, tracker, switch)
        self.intake = self.live

    def _around(self, original: Any, wrapper: Callable[..., Any]) -> Callable[..., Any]:
        return guarded(self.switch, original, wrapper)
