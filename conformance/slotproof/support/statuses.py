"""Exit statuses of all commands. This module imports nothing."""

from __future__ import annotations

CONFORMS, FOUND, USAGE, INCONCLUSIVE = 0, 1, 2, 3
"""Statuses: nothing found, a counterexample, wrong usage with a one-line message, inconclusive."""

INTERNAL = 70
"""Status of an internal error of slotproof, without a verdict (``EX_SOFTWARE`` of sysexits)."""
