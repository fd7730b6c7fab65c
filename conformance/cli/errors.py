"""Bad input gets one clear line and exit status 2."""

from __future__ import annotations


class UsageProblem(Exception):
    """What was wrong, where, what to do: one line."""
