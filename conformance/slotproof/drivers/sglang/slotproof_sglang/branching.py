"""Sessions that keep no slot: a prompt that the engine puts together from an earlier request.

Such a session (opened without ``streaming``) is a tree of requests. A turn names one of them and
goes on from its end, from the end of its prompt (``drop_previous_output``), or from any place in it
(``offset``); with ``replace`` whatever came after it is ended first, and itself if it still runs.
Each is an ordinary request with the whole prompt, and is judged as one.

So is what a client here asks for: its prompt is sent as a turn that names the request with which it
has most in common, and its remaining tokens. Which way, follows from prompts and names alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from .messages import inner_rid, outer_rid
from .options import drawn

SESSION = "branches"
"""The engine's only session of that kind."""


@dataclass
class Branch:
    """A request of it."""

    prompt: list[int]
    answer: list[int] | None = None
    """None: it is not over, or was aborted. Then the engine may have tokens that it told nobody."""
    over: bool = False

    def shares(self, tokens: list[int]) -> int:
        """How many of the first tokens of a prompt are its own."""
        own = [*self.prompt, *(self.answer or ())]
        pairs = zip(own, tokens, strict=False)  # either may be the longer one
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class Branches:
    """The requests that a new one may go on from."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.made: dict[str, Branch] = {}

    def turn(self, rid: str, tokens: list[int]) -> tuple[list[int], dict[str, Any]]:
        """What is sent of a prompt, and the fields of ``SessionParams`` beside its id."""
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
        """The latest of those that have most in common with a prompt, and how much. Only who
        replaces it may go on from one that is running."""
        session = self.scheduler.session_controller.sessions[SESSION]
        best, most = None, 1
        for inner, node in session.req_nodes.items():
            branch = self.made[outer_rid(inner)]
            if branch.answer is None and len(node.req.origin_input_ids) != len(branch.prompt):
                continue  # it is refused: the engine has cut it to one token
            shared = min(branch.shares(tokens), len(tokens) - 1)  # something has to be new
            if shared >= most and (running or branch.over):
                best, most = outer_rid(inner), shared
        return best, most

    def sent(self, command: dict[str, Any], message: Any) -> list[str]:
        """A request is sent. The options that are at work: whether it goes on from another."""
        if command["session"] is not None:
            return []
        self.made[command["rid"]] = Branch([int(token) for token in command["tokens"]])
        return [] if message.session_params.rid is None else ["branching"]

    def heard(self, messages: list[dict[str, Any]]) -> None:
        """What became of requests."""
        for each in messages:
            branch = self.made.get(str(each.get("rid")))
            if branch is not None and each["type"] == "finish":
                branch.over = True
                branch.answer = None if each["reason"] == "abort" else each["tokens"]
