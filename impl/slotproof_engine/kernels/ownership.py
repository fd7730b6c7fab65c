"""Input of the audit: the owners of all pages."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Ownership:
    """Owners of all pages, as int32 or int64 tensors on one device. The audit only reads.

    An *owner* has a row, and is a request or a session's slot. In that row, the prefix tree owns
    the positions [0, Q) and the owner owns [Q, ceil(A)). In a sliding-window pool, positions before
    E are already freed. Lengths are in tokens, and ceil() rounds up to whole pages.
    """

    req_to_token: Tensor
    """Row table, ``[rows, row width]``: the KV index of each position, < 0 if it has no KV."""
    allocated: Tensor
    """Allocated length A of each owner, ``[owners]``."""
    free_pages: Tensor
    """IDs of the free pages, one-dimensional. Entries < 0 are padding."""
    tree_pages: Tensor | None = None
    """IDs of the prefix tree's pages, one-dimensional. Entries < 0 are padding. None: no tree."""
    protected: Tensor | None = None
    """Protected length Q of each owner, ``[owners]``. None: 0."""
    evicted: Tensor | None = None
    """End E of each owner's freed sliding-window KV, ``[owners]``. None: 0."""
    rows: Tensor | None = None
    """Row of each owner, < 0 if the owner has no row. None: owner i has row i."""
    free_count: Tensor | None = None
    """Number of valid entries in ``free_pages``, a scalar on the device. None: all."""
    tree_count: Tensor | None = None
    """Number of valid entries in ``tree_pages``, a scalar on the device. None: all."""

    def __post_init__(self) -> None:
        if self.req_to_token.dim() != 2 or self.req_to_token.stride(1) != 1:
            raise ValueError(
                "req_to_token: must be a two-dimensional table whose rows are contiguous"
            )
        for name in ("allocated", "free_pages", "tree_pages", "protected", "evicted", "rows"):
            tensor = getattr(self, name)
            if tensor is not None and (tensor.dim() != 1 or not tensor.is_contiguous()):
                raise ValueError(f"{name}: must be a contiguous one-dimensional tensor")
        for name in ("protected", "evicted", "rows"):
            tensor = getattr(self, name)
            if tensor is not None and tensor.shape != self.allocated.shape:
                raise ValueError(f"{name}: must have one number for each owner")
        if self.rows is None and len(self.allocated) > len(self.req_to_token):
            raise ValueError(
                "allocated: more owners than rows of req_to_token. Pass rows to say "
                "which row each owner has"
            )
