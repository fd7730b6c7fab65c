"""Snapshot of the protocol, read from the objects of the build."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slotproof_driver.hashes import token_hash

from .dialects.base import NO_KV, Dialect
from .messages import outer_rid


class Snapshooter:
    """Builder of one scheduler's snapshots. ``tracker``: facts that no engine object has."""

    def __init__(self, dialect: Dialect, tracker: Any) -> None:
        self.dialect = dialect
        self.tracker = tracker

    def take(self, pages: bool = True) -> dict[str, Any]:
        """Return a snapshot, except the engine's own check and the records of the driver.

        ``pages``: False to leave out the lists of pages of a large pool.
        """
        requests, slots = self.requests(), self.slots()
        shown = {
            "pools": self.pools(pages),
            "rows": self.rows(slots, requests) if pages else self.free_rows(),
            "sessions": self.sessions(),
            "slots": slots,
            "requests": requests,
        }
        return {**shown, "tree": self.tree()} if pages else shown

    def pools(self, pages: bool) -> dict[str, Any]:
        """Return the terms of each pool, and its free list if ``pages`` is set."""
        dialect, figures, swa = self.dialect, self.dialect.figures(), self.dialect.swa
        lists = {"full": (dialect.total, dialect.free, figures.evictable, figures.protected)}
        if swa is not None:
            lists["swa"] = swa.total, swa, figures.swa_evictable, figures.swa_protected
        pools: dict[str, Any] = {}
        for name, (total, free, evictable, protected) in lists.items():
            available = free.count() * dialect.page_size
            pools[name] = {"total": total, "available": available}
            pools[name] |= {"evictable": evictable, "protected": protected}
            if pages:
                pools[name]["free"] = sorted(free.pages())
        pools["full"]["evicted"] = self.tracker.evicted
        return pools

    def tree(self) -> dict[str, Any]:
        """Return the pages of the tree with their lock counts."""
        tree = {"full": self.dialect.tree_pages()}
        if self.dialect.swa is not None:
            tree["swa"] = self.dialect.swa_tree_pages()
        return {name: [list(page) for page in sorted(pages)] for name, pages in tree.items()}

    def rows(self, slots: dict[str, Any], requests: dict[str, Any]) -> dict[str, Any]:
        """Return the free rows, and the KV indices of all other rows up to their owners' A."""
        shown = self.free_rows()
        lengths: dict[int, int] = {row: 0 for row in self.row_numbers() if row not in shown["free"]}
        # A slot's A may be out of date while its KV is on loan. The request's A counts then.
        lent = {entry["row"] for entry in requests.values() if entry["row"] >= 0}
        idle = (entry for entry in slots.values() if entry["row"] not in lent)
        for owner in (*idle, *requests.values()):
            if owner["row"] >= 0:
                lengths[owner["row"]] = max(lengths.get(owner["row"], 0), owner["A"])
        used = {str(row): self.row(row, length) for row, length in sorted(lengths.items())}
        return {**shown, "used": used}

    def free_rows(self) -> dict[str, Any]:
        """Return the number of rows, and the free rows."""
        free = [int(row) for row in self.dialect.rows.free_slots]
        rows = self.dialect.rows
        return {"total": int(rows.size), "free": free, "width": int(rows.req_to_token.shape[1])}

    def row(self, row: int, length: int) -> dict[str, list[int]]:
        """Return, in each pool, the KV indices of a row's first ``length`` positions."""
        full = self.dialect.row_indices(row, length)
        swa = self.dialect.swa
        return {"full": full} if swa is None else {"full": full, "swa": swa.indices(full)}

    def row_numbers(self) -> range:
        """Return the numbers of all rows. Row 0 of newer tables is padding and is left out."""
        size, height = int(self.dialect.rows.size), int(self.dialect.rows.req_to_token.shape[0])
        return range(height - size, height)

    def sessions(self) -> dict[str, Any]:
        """Return the sessions of the engine."""
        sessions: dict[str, Any] = {}
        new_tokens = self.tracker.new_tokens
        for sid, session in self.dialect.sessions().items():
            length, value = self.hashed_history(session, new_tokens)
            inflight = self.dialect.inflight(session)
            sessions[sid] = {
                "open": True,
                "closing": self.dialect.close_pending(session),
                "inflight": None if inflight is None else outer_rid(inflight),
                "history": length,
                "hash": value,
            }
        return sessions

    def hashed_history(self, session: Any, new_tokens: dict[str, int]) -> tuple[int, int | None]:
        """Return the length and the hash of a session's history."""
        req, prompt, output = self.dialect.history_place(session, new_tokens)
        tokens = [] if req is None else [*req.origin_input_ids[:prompt], *req.output_ids[:output]]
        return len(tokens), token_hash(tokens)

    def hashed_prompt(self, req: Any) -> int | None:
        """Return the hash of a request's prompt."""
        return token_hash(req.origin_input_ids)

    def slots(self) -> dict[str, Any]:
        """Return the slots that hold KV."""
        return {
            sid: {**slot.kv._asdict(), "lent": None, "locks": slot.locks}  # no layout flags a loan
            for sid, slot in self.dialect.slots().items()
        }

    def named(self) -> Iterator[tuple[str, Any, str]]:
        """Yield each unfinished request with its name and its phase."""
        names: set[str] = set()
        for req, phase in self.dialect.live():
            rid = outer_rid(req.rid)
            while rid in names:
                rid += "'"
            names.add(rid)
            yield rid, req, phase

    def requests(self) -> dict[str, Any]:
        """Return every unfinished request."""
        dialect = self.dialect
        batches = dict(dialect.batches())
        requests: dict[str, Any] = {}
        for rid, req, phase in self.named():
            meta = self.tracker.meta(req)
            kv, loan, locks = dialect.kv(req), dialect.borrows(req), dialect.request_locks(req)
            if phase == "waiting":
                # A refused request has released its match. If the request still has a row, the row
                # is a leak and is shown.
                kv, loan, locks = (NO_KV if loan or kv.row < 0 else kv), None, 0
            hidden = meta.doomed and meta.kind == "turn"  # Cut by the engine, but still listed.
            requests[rid] = {
                "session": meta.session,
                "kind": meta.kind,
                "phase": phase,
                "in_last": any(req is other for other in batches["last_batch"]),
                "in_running": any(req is other for other in batches["running_batch"]),
                "loan": loan,
                **kv._asdict(),
                "locks": locks,
                "prompt": meta.prompt if hidden else len(req.origin_input_ids),
                "hash": None if hidden else self.hashed_prompt(req),
                "output": len(req.output_ids),
            }
        return requests
