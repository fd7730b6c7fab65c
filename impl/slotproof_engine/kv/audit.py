"""Page audit: check that every page of a pool has exactly one owner. Works on any engine's tensors.

A correct sum is weak evidence: one page may have two owners while another has none. For each page,
the audit counts how often rows, the prefix tree and the free list name the page. An engine calls
the audit with ten lines of code. In this example, a page has 2 tokens. Each row owns one page, the
tree owns one page, and one page is free:

>>> import torch
>>> from slotproof_engine.kv.audit import Audit, Ownership
>>> own = Ownership(
...     req_to_token=torch.tensor([[0, 1, 6, 7], [2, 3, -1, -1]]),  # the tensors as they are
...     allocated=torch.tensor([4, 1]), protected=torch.tensor([2, 0]),
...     free_pages=torch.tensor([2]), tree_pages=torch.tensor([0]),
... )
>>> audit = Audit(pages=4, page_size=2)  # once; on a GPU: device="cuda"
>>> audit.launch(own)  # any time: waits for nothing, copies the result when it is there
>>> print(audit.verdict())  # None while the audit runs; wait=True waits
4 pages, each with one owner
>>> own.free_pages[0] = 1  # freed while a row still has it
>>> audit.launch(own)
>>> print(audit.verdict(wait=True))
a page has no owner: 1, first page 2; a row owns a free page: 1, first page 1

On a GPU, a CUDA graph may capture ``launch``, with tensors at fixed addresses. A free list of
varying length then needs ``free_count``, or padding with -1. Call ``replayed()`` after each
replay::

    audit.launch(own)  # once: compiles
    with torch.cuda.graph(graph):
        audit.launch(own)
    graph.replay()
    audit.replayed()

Set ``first_page=1`` if page IDs begin at 1 (SGLang reserves page 0 for padding). For each page of a
row, the audit reads only the first entry, which determines all others in an aligned page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from slotproof_engine.kernels import AUTO, plain_audit, wants_triton
from slotproof_engine.kernels.fields import COUNTED, FOUND, KINDS, NAMED, NEVER, PAGE_KINDS, Kind
from slotproof_engine.kernels.ownership import Ownership

__all__ = ["Audit", "Finding", "Kind", "Ownership", "Verdict"]

SENTENCES = {
    Kind.LOST: "a page has no owner",
    Kind.ROW_ROW: "a page is in rows more than once",
    Kind.ROW_FREE: "a row owns a free page",
    Kind.ROW_TREE: "a row owns a page of the tree",
    Kind.TREE_FREE: "a page of the tree is free",
    Kind.FREE_FREE: "a page is in the free list more than once",
    Kind.TREE_TREE: "a page is in the tree more than once",
    Kind.NO_PAGE: "a row has no page below its allocated length",
    Kind.OUTSIDE: "a row has an index outside the pool",
    Kind.UNALIGNED: "a page of a row begins in the middle of a pool page",
    Kind.NOT_IN_TREE: "a protected page of a row is not in the tree",
    Kind.STRAY: "the free list or the tree has an ID outside the pool",
}


@dataclass(frozen=True)
class Finding:
    """A kind of violation, with its number of occurrences and its first place."""

    kind: Kind
    count: int
    page: int | None = None
    """ID of the first page in violation. ``None`` if the finding is about a position in a row."""
    owner: int | None = None
    position: int | None = None
    """Position in the owner's row where the page begins."""

    def __str__(self) -> str:
        owner = f"owner {self.owner} at position {self.position}"
        first = owner if self.page is None else f"page {self.page}"
        return f"{SENTENCES[self.kind]}: {self.count}, first {first}"


@dataclass(frozen=True)
class Verdict:
    """Result of an audit."""

    pages: int
    findings: tuple[Finding, ...]
    overflow: bool = False
    """True if a page has more owners than its 32-bit word can count. The counts are then wrong."""

    @property
    def ok(self) -> bool:
        """True if every page has exactly one owner."""
        return not self.findings and not self.overflow

    def __str__(self) -> str:
        if self.ok:
            return f"{self.pages} pages, each with one owner"
        return "; ".join(
            [*map(str, self.findings), *["a page has over 500 owners"] * self.overflow]
        )


class Audit:
    """Page audit of a pool of ``pages`` pages, with page IDs beginning at ``first_page``.

    The buffers take 4 bytes per page. On a GPU, a launch allocates nothing. ``kernels``: ``auto``,
    ``torch`` or ``triton``.
    """

    def __init__(
        self,
        pages: int,
        page_size: int,
        first_page: int = 0,
        device: str | torch.device = "cpu",
        kernels: str = AUTO,
    ) -> None:
        if pages < 1 or page_size < 1:
            raise ValueError(f"pages and page_size must be at least 1, not {pages}, {page_size}")
        self.pages, self.page_size, self.first_page = pages, page_size, first_page
        self._run = plain_audit.audit_pages
        if wants_triton(str(device), kernels):
            from slotproof_engine.kernels import triton_audit

            self._run = triton_audit.audit_pages
        self._words = torch.zeros(pages, dtype=torch.int32, device=device)
        self._nothing = torch.tensor([0] * KINDS + [NEVER] * KINDS + [0, 0], device=device)
        self._found = torch.empty_like(self._nothing)
        on_gpu = self._found.is_cuda
        self._host = torch.empty(FOUND, dtype=torch.int64, pin_memory=on_gpu)
        event: Any = torch.cuda.Event  # untyped in torch
        self._copied = event() if on_gpu else None
        self._row_pages = 0
        self._launched = False

    def launch(self, own: Ownership) -> None:
        """Enqueue the audit and the copy of its result. ``own`` is read when the audit runs."""
        self._words.zero_()
        self._found.copy_(self._nothing)
        self._run(self._words, self._found, own, self.page_size, self.first_page)
        self._host.copy_(self._found, non_blocking=True)
        self._row_pages = own.req_to_token.shape[1] // self.page_size
        self._launched = True
        if self._copied is not None and not torch.cuda.is_current_stream_capturing():
            self._copied.record()

    def replayed(self) -> None:
        """Tell the audit that a CUDA graph with a captured launch was replayed. The next verdict is
        the result of that launch."""
        if self._copied is not None:
            self._copied.record()

    def verdict(self, *, wait: bool = False) -> Verdict | None:
        """Return the last launch's result, ``None`` if it is not ready. ``wait``: wait for it."""
        if not self._launched:
            raise RuntimeError("no audit was launched: call launch() first")
        if self._copied is not None:
            if wait:
                self._copied.synchronize()
            elif not self._copied.query():
                return None
        return self.read(self._host.tolist())

    def read(self, result: Sequence[int]) -> Verdict:
        """Build the verdict from a result of ``FOUND`` numbers."""
        findings = []
        for kind in Kind:
            count, first = result[kind], result[KINDS + kind]
            if not count:
                continue
            if kind < PAGE_KINDS or kind == Kind.STRAY:
                findings.append(Finding(kind, count, page=first))
            else:
                owner, number = divmod(first, self._row_pages + 1)
                place = number * self.page_size
                findings.append(Finding(kind, count, owner=owner, position=place))
        return Verdict(self.pages, tuple(findings), result[NAMED] != result[COUNTED])
