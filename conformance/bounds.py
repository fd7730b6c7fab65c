"""Bounds on whatever a file or a driver may ask for, each with its reason.

Traces, logs, baselines and drivers come from anywhere: what would take more memory, time or
disk than these allow is refused in one line. `docs/explanation/trust.md` has them as a table.
"""

from __future__ import annotations

LINE_BYTES = 1 << 26
"""A line of a log or of a driver: one that never ends must not fill the memory."""

EXAMPLES_AT_ONCE = 300
"""Examples of one run of Hypothesis: it keeps every choice of every example, some 100 KB each."""

ROWS_SHOWN = 1_000_000
"""Rows of ``req_to_token`` that a snapshot may speak of: 100 times what a configuration may ask
for; the free ones are listed one by one."""
