"""Bounds on whatever a file or a driver may ask for, each with its reason.

Traces, logs, baselines and drivers come from anywhere: what would take more memory, time or
disk than these allow is refused in one line. `docs/explanation/trust.md` has them as a table.
"""

from __future__ import annotations

LINE_BYTES = 1 << 26
"""A line of a log or of a driver: one that never ends must not fill the memory."""
STDERR_FIRST, STDERR_LAST = 1_000, 4_000
"""Bytes of a driver's standard error that a failure carries: how it began, and its last words.
What lies between is counted and not kept: a driver may write gigabytes."""
INSTALLER_FIRST, INSTALLER_LAST = 1 << 18, 1 << 18
"""Bytes of the output of pip and venv, for their reason in one line: an index may send anything."""
PARTING_SECONDS = 2.0
"""What processes of ``--jobs`` have after Ctrl-C to give back what they found, and then to end:
the command in hand takes far less, and one whose driver hangs is not waited for."""
