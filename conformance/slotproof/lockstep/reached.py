"""Counts of client behaviour in an example: prompts, limits, answers, refusals, and transitions in
succession. Behaviour is counted where the engine's snapshots show it. It is never judged."""

from __future__ import annotations

from typing import TypeAlias

from slotproof.lockstep.client import Client
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.referee import Iteration, empty_snapshot
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Message, Snapshot
from slotproof_model.spec.transitions import TRANSITIONS

_Node: TypeAlias = "dict[int, _Node]"

_LIMIT = {-1: "one less", 0: "exactly", 1: "one more"}


def branch(common: int, length: int, leaf: bool, page: int) -> str:
    """Return the kind of a prompt that shares its first ``common`` tokens with an earlier prompt.

    >>> [branch(common, 9, leaf=False, page=4) for common in (0, 3, 4, 5, 6, 9)]
    ['new', 'before a page', 'at a page', 'after a page', 'within a page', 'repeated']
    >>> branch(4, 9, leaf=True, page=4)
    'continued'
    """
    if common == length:
        return "repeated"
    if common == 0:
        return "new"
    if leaf:
        return "continued"
    if common % page == 0:
        return "at a page"
    if common % page == page - 1:
        return "before a page"
    return "after a page" if common % page == 1 else "within a page"


class Reached:
    """Counter for one example. Its counts are added to the coverage of the whole run."""

    def __init__(self, config: EngineConfig, coverage: Coverage) -> None:
        self.config, self.coverage = config, coverage
        self._known: _Node = {}
        """Trie of all prompts and answers. Each edge is a token."""
        self._asked: set[str] = set()
        """Requests for which a client sent an abort."""
        self._before = empty_snapshot()
        self._last: dict[str, str] = {}
        """Last transition, by session."""

    def sends(self, command: Command, client: Client) -> None:
        """Count a command that is about to be sent. :meth:`saw` counts its effects."""
        if command["do"] == "abort":
            self._asked.add(command["rid"])
        elif command["do"] == "abort_all":
            self._asked.update(rid for rid, sent in client.requests.items() if not sent.answers)
        elif command["do"] == "submit" and command["tokens"]:
            past = client.history.get(command["session"] or "", [])
            if isinstance(past, list):
                prompt = past + command["tokens"]
                self.coverage.reached["prompts"][self._learn(prompt)] += 1
                over = len(prompt) + command["max_new"] - self.config.context_len
                if over in _LIMIT:
                    self.coverage.reached["context"][_LIMIT[over]] += 1

    def _learn(self, tokens: list[int]) -> str:
        node, common = self._known, 0
        while common < len(tokens) and tokens[common] in node:
            node = node[tokens[common]]
            common += 1
        how = branch(common, len(tokens), not node, self.config.page_size)
        for token in tokens[common:]:
            node = node.setdefault(token, {})
        return how

    def saw(self, entry: Iteration, client: Client) -> None:
        """Count the iterations of a command, after the clients received their messages."""
        for snapshot in entry.snapshots[: entry.judged]:
            self._iteration(self._before, snapshot, client)
            self._before = snapshot

    def _iteration(self, before: Snapshot, now: Snapshot, client: Client) -> None:
        reached = self.coverage.reached
        for transition, session, _, params in now.get("events", []):
            if "m" in params:
                pool = before["pools"].get("full")
                cached = pool is not None and pool["evictable"] + pool["protected"] > 0
                none = "nothing" if cached else "an empty tree"
                reached["matches"]["found" if params["m"] else none] += 1
            if session is not None:
                if session in self._last:
                    reached["pairs"][f"{self._last[session]} {transition}"] += 1
                self._last[session] = transition
        for option in now.get("options", ()):
            reached["options"][option] += 1
        for message in now["messages"]:
            if message["type"] == "refused":
                reached["refused"][_told(message, before)] += 1
            elif message["type"] == "finish":
                reason = message["reason"]
                reached["finishes"][reason] += 1
                if reason == "abort":
                    self._aborted(message["rid"], before, now, client)
                else:
                    sent = client.requests.get(message["rid"])
                    if sent is not None and isinstance(sent.prompt, list):
                        self._learn(sent.prompt + message["tokens"])
        slots = now["slots"].values()
        if not now["rows"]["free"] and len(slots) >= now["rows"]["total"] and not now["requests"]:
            reached["slots"]["hold all rows"] += 1

    def _aborted(self, rid: str, before: Snapshot, now: Snapshot, client: Client) -> None:
        reached, request = self.coverage.reached, before["requests"].get(rid)
        if rid in self._asked:
            phase = request["phase"] if request is not None else "not read yet"
            decoding = phase == "running" and request is not None and request["output"] > 0
            reached["aborted"]["decoding" if decoding else phase] += 1
        else:
            reached["refused"][self._why(rid, before, now, client)] += 1

    def _why(self, rid: str, before: Snapshot, now: Snapshot, client: Client) -> str:
        """Return the client-visible reason for the engine's own abort of a request."""
        for transition, session, of, _ in now.get("events", []):
            how = TRANSITIONS.get(transition) if of == rid else None
            if how is not None and (how.by, how.stage) == ("the scheduler", "abort"):
                return "out of memory"
            if how is not None and how.detaches == "stub":
                seen = before["sessions"].get(session or "")
                return "session closing" if seen and seen["closing"] else "turn in flight"
        if (sent := client.requests.get(rid)) is None:
            return "unknown request"
        if sent.session is not None:
            sessions = (before["sessions"].get(sent.session), now["sessions"].get(sent.session))
            if not any(seen is not None and seen["open"] for seen in sessions):
                return "session not open"
        if len(sent.prompt) + sent.max_new > self.config.context_len:
            return "longer than the context"
        if len(sent.prompt) > self.config.total_tokens:
            return "larger than the pool"
        return "another"


def _told(message: Message, before: Snapshot) -> str:
    """Return why an open or close was refused, given the session's state before the iteration."""
    seen = before["sessions"].get(message["session"] or "") if "session" in message else None
    if seen is None or not seen["open"]:
        return "close of none"
    return "close again" if seen["closing"] else "open again"
