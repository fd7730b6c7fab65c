"""What the audit is told: who says that a page is his."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Ownership:
    """Plain tensors of one device, int32 or int64, read and never written.

    An *owner* is whoever describes the KV of a row: a request or a session's slot. Of
    its row, [0, Q) is the tree's, [Q, ceil(A)) its own; in a sliding-window pool what
    lies before E was given back. Lengths are tokens, ceil() goes to the next page.
    """

    req_to_token: Tensor
    """The row table, ``[rows, row width]``: the KV index of each position, < 0: none."""
    allocated: Tensor
    """A of each owner, ``[owners]``."""
    free_pages: Tensor
    """Page ids, one-dimensional; entries < 0 are padding."""
    tree_pages: Tensor | None = None
    """Page ids, one-dimensional; entries < 0 are padding. None: there is no tree."""
    protected: Tensor | None = None
    """Q of each owner, ``[owners]``. None: 0."""
    evicted: Tensor | None = None
    """E of each owner, ``[owners]``. None: 0."""
    rows: Tensor | None = None
    """The row of each owner, < 0: he has none. None: owner i has row i."""
    free_count: Tensor | None = None
    """How many of ``free_pages`` count, one number on the device. None: all."""
    tree_count: Tensor | None = None
    """The same for ``tree_pages``."""

    def __post_init__(self) -> None:
        if self.req_to_token.dim() != 2 or self.req_to_token.stride(1) != 1:
            raise ValueError("req_to_token: not a table with rows that are contiguous")
        for name in ("allocated", "free_pages", "tree_pages", "protected", "evicted", "rows"):
            tensor = getattr(self, name)
            if tensor is not None and (tensor.dim() != 1 or not tensor.is_contiguous()):
                raise ValueError(f"{name}: not a contiguous one-dimensional tensor")
        for name in ("protected", "evicted", "rows"):
            tensor = getattr(self, name)
            if tensor is not None and tensor.shape != self.allocated.shape:
                raise ValueError(f"{name}: not one number for each owner")
        if self.rows is None and len(self.allocated) > len(self.req_to_token):
            raise ValueError("allocated: more owners than rows, and no rows given")
