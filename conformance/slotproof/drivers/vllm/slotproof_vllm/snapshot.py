"""Snapshot of the protocol, read from the build's objects. `layout.py` lists their places."""

from __future__ import annotations

from typing import Any

from slotproof_driver.hashes import token_hash

from .clients import ClientRequest, Clients, Session
from .events import Watcher
from .layout import Layout, key_of
from .runner import Runner

CHECK = {"ran": False, "level": 0, "pools": {}, "verdict": "off", "message": ""}
"""Checker fields for an engine that has no memory check at run time."""
NO_KV = {"row": -1, "C": 0, "A": 0, "Q": 0, "E": 0}


class Snapshooter:
    """Reader that makes the snapshots of one scheduler."""

    def __init__(
        self, layout: Layout, clients: Clients, watcher: Watcher, runner: Runner, shares: bool
    ) -> None:
        self.layout, self.clients, self.watcher = layout, clients, watcher
        self.runner = runner
        self.shares = shares

    def take(self) -> dict[str, Any]:
        """Return a snapshot without the messages to clients."""
        events = self.watcher.take()
        sessions, slots, requests = {}, {}, {}
        for sid, session in self.clients.sessions.items():
            sessions[sid] = self._session(session)
            lent = session.turn is not None and self.layout.runs(session.key)
            if session.slot:
                slots[sid] = {**self._kv(session.key), "lent": lent, "locks": 1}
            if session.turn is not None:
                requests[session.turn.rid] = self._request(session.key, session.turn, session)
        for rid, turn in self.clients.plain.items():
            requests[rid] = self._request(rid, turn, None)
        return {
            "pools": {"full": self._pool()},
            "tree": {"full": self.layout.tree()} if self.shares else {},
            "reusable": {"full": self.layout.reusable()},
            **self._lookup(),
            "queues": self._named(self.layout.queues()),
            "tables": self._named({**self.layout.tables(), "model runner": self._run()}),
            **self._rows(),
            "sessions": sessions,
            "slots": slots,
            "requests": requests,
            "checker": CHECK,
            "events": events,
        }

    def longest(self, session: Session) -> int:
        """Return the number of tokens that a session has after all turns sent so far. For an
        unfinished turn, the longest possible answer is counted, less its last token."""
        more = (len(turn.tokens) + turn.max_new - 1 for turn in session.turns())
        return len(self._history(session)) + sum(more)

    def _pool(self) -> dict[str, Any]:
        layout, free = self.layout, self.layout.free_pages()
        shared = len(layout.tree()) * layout.page_size
        protected = layout.protected()
        return {
            "total": layout.total,
            "available": len(free) * layout.page_size,
            "evictable": shared - protected,
            "protected": protected,
            "free": sorted(free),
            "evicted": self.watcher.evicted,
        }

    def _lookup(self) -> dict[str, Any]:
        """Return the pages found by each prefix's hash, and the hashes of stored blocks."""
        if not self.shares:
            return {}
        stored = self.runner.hashes.items()
        holds = [[key_of(digest), block - 1] for block, digest in stored]
        return {"lookup": {"full": {"finds": self.layout.finds(), "holds": holds}}}

    def _run(self) -> list[str]:
        """Return the model runner's request IDs, except finished requests that it still lists."""
        ended = self.layout.ended()
        return [key for key in self.runner.requests if key not in ended]

    def _named(self, ids: dict[str, list[str]]) -> dict[str, list[str]]:
        """Return the lists with each ID of the engine replaced by the client's name."""
        return {name: [self._name(key) for key in keys] for name, keys in ids.items()}

    def _name(self, key: str) -> str:
        of = self.clients.keys.get(key)
        if isinstance(of, Session):
            return of.turn.rid if of.turn is not None else of.sid
        return key

    def _rows(self) -> dict[str, Any]:
        """Return the rows with the KV index of each position, and the content stored there."""
        watcher, size, used, content = self.watcher, self.layout.page_size, {}, {}
        for key, row in watcher.rows.items():
            blocks = self.layout.blocks(key)
            valid, allocated, _ = self.layout.lengths(key)
            at = [(block - 1) * size + offset for block in blocks for offset in range(size)]
            used[str(row)] = {"full": at[:allocated]}
            content[str(row)] = self.runner.stamps(blocks, valid)
        total = len(watcher.rows) + len(watcher.free_rows)
        rows = {"total": total, "free": list(watcher.free_rows), "used": used}
        return {"rows": rows, "content": content}

    def _session(self, session: Session) -> dict[str, Any]:
        history = self._history(session)
        return {
            "open": True,
            "closing": session.closing,
            "inflight": session.turn and session.turn.rid,
            "history": len(history),
            "hash": token_hash(history),
        }

    def _history(self, session: Session) -> list[int]:
        """Return the tokens before a session's next turn, without the last token, which has no KV.
        During a turn, return the prompt without the turn's own tokens."""
        request = self.layout.request(session.key)
        if request is None:
            return []
        if session.turn is None:
            return list(request._all_token_ids)[:-1]
        length = request.num_prompt_tokens - len(session.turn.tokens)
        return list(request._all_token_ids)[:length]

    def _kv(self, key: str) -> dict[str, int]:
        """Return the row and the lengths of a slot or a request."""
        if key not in self.watcher.rows:
            return dict(NO_KV)
        valid, allocated, shared = self.layout.lengths(key)
        return {"row": self.watcher.rows[key], "C": valid, "A": allocated, "Q": shared, "E": 0}

    def _request(self, key: str, turn: ClientRequest, session: Session | None) -> dict[str, Any]:
        request, runs = self.layout.request(key), self.layout.runs(key)
        loan = session.sid if session is not None and session.slot and runs else None
        phase = "waiting" if not runs else "parked" if key in self.watcher.parked else "running"
        return {
            "session": session and session.sid,
            "kind": "plain" if session is None else "turn",
            "phase": phase,
            "in_last": phase == "running",
            "in_running": runs,
            "loan": loan,
            **(self._kv(key) if runs else NO_KV),
            "locks": int(runs and loan is None),
            "prompt": request.num_prompt_tokens,
            "hash": token_hash(list(request._all_token_ids)[: request.num_prompt_tokens]),
            "output": request.num_output_tokens,
        }
