"""Exit statuses of every command, in one place; nothing is imported here."""

from __future__ import annotations

CONFORMS, FOUND, USAGE, INCONCLUSIVE = 0, 1, 2, 3
"""Nothing found; a counterexample; wrong usage, one line says which; nothing can be said yet."""

INTERNAL = 70
"""A bug of slotproof itself: neither a verdict nor wrong usage (``EX_SOFTWARE`` of sysexits)."""
