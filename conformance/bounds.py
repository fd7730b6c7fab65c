"""Bounds on whatever a file or a driver may ask for, each with its reason.

Traces, logs, baselines and drivers come from anywhere: what would take more memory, time or
disk than these allow is refused in one line. `docs/explanation/trust.md` has them as a table.
"""

from __future__ import annotations

LINE_BYTES = 1 << 26
"""A line of a log or of a driver: one that never ends must not fill the memory."""
