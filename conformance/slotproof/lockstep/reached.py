"""Counts of client behaviour in an example: prompts, limits, answers, refusals, transitions in
succession, phases that meet a command, and rare values in consecutive turns. Behaviour is counted
where the engine's snapshots show it. It is never judged."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import chain, product
from typing import TypeAlias

from slotproof.lockstep.client import Client
from slotproof.lockstep.coverage import Coverage
from slotproof.lockstep.oracles.operators import RETRACTS
from slotproof.lockstep.referee import Iteration, empty_snapshot
from slotproof.protocol.commands import Command
from slotproof.protocol.config import EngineConfig
from slotproof.protocol.snapshot import Message, Snapshot
from slotproof_model.spec.transitions import TRANSITIONS

_Node: TypeAlias = "dict[int, _Node]"

_LIMIT = {-1: "one less", 0: "exactly", 1: "one more"}

_BEGUN = ("waiting", "retracted", "parked", "prefilled", "decoding")
_REQUEST = ("unread", *_BEGUN, "answered")
_SESSION = ("none", "opening", "empty", "idle", "unread", *_BEGUN, "closing")
_ENGINE = ("nothing", "slots", "running", "waiting", "parked", "paused")
_OPERATOR = "plain tick tick_ms evict retract flush flush_all pause continue abort_all"
TARGETS: dict[str, tuple[str, ...]] = {
    "abort": ("unknown", *_REQUEST),
    **dict.fromkeys(("accept", "draft"), _REQUEST),
    **dict.fromkeys(("open", "submit", "close"), _SESSION),
    **dict.fromkeys(_OPERATOR.split(), _ENGINE),
}
"""Phases of each command's target: a request, a session, or else the engine. The command ``plain``
is a submit without a session. ``parked``: between two chunks. ``prefilled``: the first result is
due. ``retracted``: the request waits after it ran."""
RARE = (
    *("one token", "no token", "no answer", "whole pages", "limit", "too long"),
    *("stop", "aborted", "retracted", "accepted"),
)
"""Rare values of a turn. ``limit``: prompt and new tokens fill the context or the pool. ``too
long``: one token too many. ``aborted``: by its client, after it ran. ``accepted``: all drafts."""
_NEEDS: dict[str, Callable[[EngineConfig, Collection[str]], bool]] = {
    "parked": lambda config, _: config.chunk > 0,
    "prefilled": lambda config, _: config.overlap,
    "whole pages": lambda config, _: config.page_size > 1,
    "accepted": lambda config, offered: config.draft > 0 and "accept" in offered,
    "retracted": lambda _, offered: bool({"retract", "flush_all"} & {*offered}),
    "paused": lambda _, offered: {"pause", "continue"} <= {*offered},
    "accept": lambda config, _: config.draft > 0,
    "draft": lambda config, _: config.draft > 0,
}
"""Conditions of commands, phases and values on the configuration and on the offered commands."""


def drawable(
    offered: Collection[str], configs: Collection[EngineConfig]
) -> tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]]]:
    """Return the pairs (command, phase of its target) and the pairs of rare values in consecutive
    turns, by name. Some configuration allows both parts of each pair."""
    sent = [name for name in TARGETS if name in {*offered, "plain"}]
    phases = [(name, phase) for name in sent for phase in TARGETS[name]]
    able = {
        name: {config for config in configs if name not in _NEEDS or _NEEDS[name](config, offered)}
        for name in (*RARE, *chain.from_iterable(phases))
    }
    pairs = {f"{a}, {b}": (a, b) for a, b in product(RARE, RARE) if able[a] & able[b]}
    named = {f"{one}: {two}": (one, two) for one, two in phases if able[one] & able[two]}
    return named, pairs


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
        self._ran: set[str] = set()
        """Requests that were running or parked after an iteration."""
        self._turns: dict[str, str] = {}
        """Last turn sent, by session."""
        self._next: dict[str, str] = {}
        """Following turn in the same session, by turn."""
        self._rare: dict[str, set[str]] = {}
        """Rare values of each turn."""

    def sends(self, command: Command, client: Client) -> None:
        """Count a command that is about to be sent. :meth:`saw` counts its effects."""
        self._target(command, client)
        if command["do"] == "submit" and command["session"] is not None:
            self._turn(command, client)
        elif command["do"] == "close":
            self._turns.pop(command["session"], None)
        elif command["do"] == "accept" and command["tokens"] > self.config.draft:
            running = self._request_phase(command["rid"], client) in ("prefilled", "decoding")
            self._is(command["rid"] if running else "", "accepted")
        if command["do"] == "abort":
            self._asked.add(command["rid"])
        elif command["do"] == "abort_all":
            self._asked.update(rid for rid, sent in client.requests.items() if not sent.answers)
        elif command["do"] == "submit" and command["tokens"]:
            past = client.history.get(command["session"] or "", [])
            if isinstance(past, list):
                prompt = past + command["tokens"]
                self.coverage.reached["prompts"][self._learn(prompt)] += 1
                if (over := len(prompt) + command["max_new"] - self.config.context_len) in _LIMIT:
                    self.coverage.reached["context"][_LIMIT[over]] += 1

    def _target(self, command: Command, client: Client) -> None:
        """Count a command with the phase of its target."""
        if (name := command["do"]) == "submit" and command["session"] is None:
            name = "plain"
        if name in ("abort", "accept", "draft"):
            phase = self._request_phase(command["rid"], client)
        elif name in ("open", "submit", "close"):
            phase = self._session_phase(command["session"], client)
        elif name in TARGETS:
            phase = self._engine_phase(client)
        else:
            return
        self.coverage.reached["phases"][f"{name}: {phase}"] += 1

    def _request_phase(self, rid: str, client: Client) -> str:
        if (sent := client.requests.get(rid)) is None:
            return "unknown"
        if sent.answers:
            return "answered"
        if (request := self._before["requests"].get(rid)) is None:
            return "waiting" if sent.read else "unread"
        if request["phase"] == "running":
            return "decoding" if request["output"] else "prefilled"
        if request["phase"] == "parked":
            return "parked"
        return "retracted" if rid in self._ran else "waiting"

    def _session_phase(self, sid: str, client: Client) -> str:
        shown = self._before["sessions"].get(sid)
        unread = {command["do"] for command in client.unread if command.get("session") == sid}
        if shown is None or not shown["open"]:
            return "opening" if "open" in unread else "none"
        if shown["closing"] or "submit" in unread:
            return "closing" if shown["closing"] else "unread"
        if shown["inflight"] is not None:
            return self._request_phase(shown["inflight"], client)
        return "idle" if sid in self._before["slots"] else "empty"

    def _engine_phase(self, client: Client) -> str:
        phases = {request["phase"] for request in self._before["requests"].values()}
        if client.paused or "parked" in phases:
            return "paused" if client.paused else "parked"
        if phases:
            return "running" if phases == {"running"} else "waiting"
        return "slots" if self._before["slots"] else "nothing"

    def _turn(self, command: Command, client: Client) -> None:
        """Count the rare values of a turn that is about to be sent."""
        sid, rid = command["session"], command["rid"]
        if (last := self._turns.get(sid)) is not None:
            self._next[last] = rid
        self._turns[sid] = rid
        past, new, config = client.history.get(sid, []), len(command["tokens"]), self.config
        end = len(past) + new + command["max_new"]
        values = {
            "one token": new == 1,
            "no token": not new,
            "no answer": not command["max_new"],
            "whole pages": config.page_size > 1 and end % config.page_size == 0,
            "limit": end == min(config.context_len, config.total_tokens),
            "too long": end == config.context_len + 1,
        }
        self._rare[rid] = set()
        for value in (name for name, holds in values.items() if holds):
            self._is(rid, value)

    def _ends(self, sid: str, client: Client) -> None:
        """Forget the last turn of a session that the engine closed. Later turns may be unread."""
        if (turn := self._turns.get(sid)) is not None and client.requests[turn].answers:
            del self._turns[sid]

    def _is(self, rid: str, value: str) -> None:
        """Record a rare value of a turn. Count its pairs with values of the turns next to it."""
        if (values := self._rare.get(rid)) is None or value in values:
            return
        values.add(value)
        pairs = self.coverage.reached["rare pairs"]
        before = next((turn for turn, then in self._next.items() if then == rid), "")
        pairs.update(f"{other}, {value}" for other in self._rare.get(before, ()))
        pairs.update(f"{value}, {other}" for other in self._rare.get(self._next.get(rid, ""), ()))

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
        for transition, session, rid, params in now.get("events", []):
            if "m" in params:
                pool = before["pools"].get("full")
                cached = pool is not None and pool["evictable"] + pool["protected"] > 0
                none = "nothing" if cached else "an empty tree"
                reached["matches"]["found" if params["m"] else none] += 1
            if transition in RETRACTS and rid is not None:
                self._is(rid, "retracted")
            if session is not None:
                if session in self._last:
                    reached["pairs"][f"{self._last[session]} {transition}"] += 1
                self._last[session] = transition
        for option in now.get("options", ()):
            reached["options"][option] += 1
        for message in now["messages"]:
            if message["type"] == "closed":
                self._ends(str(message["session"]), client)
            elif message["type"] == "refused":
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
                    if reason == "stop":
                        self._is(message["rid"], "stop")
        for rid, request in now["requests"].items():
            if request["phase"] in ("running", "parked"):
                self._ran.add(rid)
            elif rid in self._ran:
                self._is(rid, "retracted")
        slots = now["slots"].values()
        if not now["rows"]["free"] and len(slots) >= now["rows"]["total"] and not now["requests"]:
            reached["slots"]["hold all rows"] += 1

    def _aborted(self, rid: str, before: Snapshot, now: Snapshot, client: Client) -> None:
        reached, request = self.coverage.reached, before["requests"].get(rid)
        if rid in self._asked:
            phase = request["phase"] if request is not None else "not read yet"
            decoding = phase == "running" and request is not None and request["output"] > 0
            reached["aborted"]["decoding" if decoding else phase] += 1
            if rid in self._ran:
                self._is(rid, "aborted")
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
