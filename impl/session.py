"""Session: its history, and which of its turns is in flight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from slotproof.impl.req import Req


@dataclass(eq=False)
class Session:
    """An append-only conversation. Knows tokens; what KV there is, its slot knows."""

    session_id: str
    open: bool = True
    closing: bool = False
    """A close was asked for while a turn was in flight."""
    inflight: Req | None = None
    history: list[int] = field(default_factory=list)
    """Prompt and output of the last finished turn."""
    last_active: float = 0.0

    @property
    def accepts_turn(self) -> bool:
        """One turn at a time, and none once a close was asked for (#22790)."""
        return self.inflight is None and not self.closing

    def prompt_of(self, tokens: list[int]) -> list[int]:
        """The next turn's prompt. The history stays: the turn may never finish (#22790)."""
        return self.history + tokens

    def create_req(self, rid: str, prompt: list[int], max_new: int, stop: Iterable[int]) -> Req:
        """Make a turn and put it in flight."""
        req = Req(
            rid=rid, origin_input_ids=prompt, max_new_tokens=max_new,
            stop_token_ids=frozenset(stop), session=self, kind="turn",
        )  # fmt: skip
        self.inflight = req
        return req

    def finish_req(self, req: Req) -> None:
        """The turn in flight finished: its tokens are history now."""
        self.history = req.fill_ids
        self.inflight = None

    def abort_req(self) -> None:
        """The turn in flight is no more; the history stays as it was."""
        self.inflight = None
