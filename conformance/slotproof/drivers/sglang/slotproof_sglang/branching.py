"""Sessions without a slot. The engine builds each prompt from earlier requests of the session.

Such a session (opened without ``streaming``) is a tree of requests. A turn names an earlier request
and continues from its end, from the end of its prompt (``drop_previous_output``), or from any place
(``offset``). With ``replace``, the engine first ends all later requests, and a named request that
still runs. Each request has its whole prompt and is judged as a plain request.

The driver sends a client's prompt as a turn. The turn names the request with the longest common
prefix and carries the remaining tokens. This choice depends only on prompts and IDs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from .messages import inner_rid, outer_rid
from .options import drawn

SESSION = "branches"
"""ID of the engine's only session without a slot."""


@dataclass
class Branch:
    """A request of the session without a slot."""

    prompt: list[int]
    answer: list[int] | None = None
    """Tokens of the answer. None before the end, and after an abort, which can lose tokens."""
    over: bool = False

    def shares(self, tokens: list[int]) -> int:
        """Return how many leading tokens the request and a prompt share."""
        own = [*self.prompt, *(self.answer or ())]
        pairs = zip(own, tokens, strict=False)  # Either sequence may be longer.
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class Branches:
    """Earlier requests from which a new request may continue."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.made: dict[str, Branch] = {}

    def turn(self, rid: str, tokens: list[int]) -> tuple[list[int], dict[str, Any]]:
        """Return the tokens to send for a prompt, and ``SessionParams`` fields except the ID."""
        replaces = drawn(rid) == 0
        best, shared = self._nearest(tokens, running=replaces)
        fields: dict[str, Any] = {"replace": True} if replaces else {}
        if best is None:
            return tokens, fields
        fields["rid"] = inner_rid(best)
        branch = self.made[best]
        if branch.answer is not None and shared == len(branch.prompt) + len(branch.answer):
            return tokens[shared:], fields
        if branch.over and shared == len(branch.prompt):
            return tokens[shared:], {**fields, "drop_previous_output": True}
        return tokens[shared:], {**fields, "offset": shared}

    def _nearest(self, tokens: list[int], running: bool) -> tuple[str | None, int]:
        """Return the latest request with the longest common prefix, and that prefix's length. Only
        a replacing request may continue from a running request."""
        session = self.scheduler.session_controller.sessions[SESSION]
        best, most = None, 1
        for inner, node in session.req_nodes.items():
            branch = self.made[outer_rid(inner)]
            if branch.answer is None and len(node.req.origin_input_ids) != len(branch.prompt):
                continue  # The engine refused the request and cut it to one token.
            shared = min(branch.shares(tokens), len(tokens) - 1)  # At least one token must be new.
            if shared >= most and (running or branch.over):
                best, most = outer_rid(inner), shared
        return best, most

    def sent(self, command: dict[str, Any], message: Any) -> list[str]:
        """Record a sent request. Return ``["branching"]`` if it continues an earlier request."""
        if command["session"] is not None:
            return []
        self.made[command["rid"]] = Branch([int(token) for token in command["tokens"]])
        return [] if message.session_params.rid is None else ["branching"]

    def heard(self, messages: list[dict[str, Any]]) -> None:
        """Record which requests ended."""
        for message in messages:
            branch = self.made.get(str(message.get("rid")))
            if branch is not None and message["type"] == "finish":
                branch.over = True
                branch.answer = None if message["reason"] == "abort" else message["tokens"]
