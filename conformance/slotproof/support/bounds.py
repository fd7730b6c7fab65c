"""Bounds on the data in files and from drivers, each with its reason.

Traces, logs, baselines and drivers may come from strangers. slotproof refuses larger data with a
one-line message. `docs/reference/spec/bounds.md` has the bounds as a table. Together the bounds
limit every answer of slotproof to ten seconds and 500 MB.
"""

from __future__ import annotations

LINE_BYTES = 8 << 20
"""Bytes of a line in a log or from a driver. As Python objects, a line takes 40 times its size."""
JOURNAL_LINE_BYTES = 256 << 20
"""Bytes of a journal line: the findings of about 64 examples. Some findings have 2 MB."""
TRACE_BYTES = 4 << 20
"""Bytes of a trace, read and copied as a whole. A longer trace is written without states."""
BASELINE_BYTES = 1 << 20
"""Bytes of a baseline. The bound suffices for thousands of findings."""
NAME_CHARS = 1_000
"""Characters of the name of a session, request, engine or clause. File names contain such names."""
TEXT_CHARS = 100_000
"""Characters of a text from an engine, such as a traceback. Traces store such texts."""
REASON_CHARS = 1_000
"""Characters of a driver's reason for refusing to start, printed in a one-line message."""
INTEGER = (1 << 53) - 1
"""Magnitude of an integer. Every JSON reader represents smaller integers exactly."""
ACTORS = 10_000
"""Sessions, slots or requests of a snapshot, or rows of an engine. Each is an actor of the spec."""
EVENTS = 10_000
"""Events of one iteration, or messages of one iteration."""
VIOLATIONS = 1_000
"""Violated clauses of a trace, or ignored clauses."""
POSITIONS = 2_000_000
"""Positions in all owned rows of a snapshot. The oracles check every position."""
ACTOR_FIGURES = 20
"""Numbers in a session, a slot or a request of a snapshot."""
KEPT = 5_000_000
"""Values of a stored trace: its iterations × the pages, rows and actor numbers of a snapshot."""
COMMANDS = 10_000
"""Commands of a trace."""
ITERATIONS = 10_000
"""Iterations requested by all commands of a trace. The reference engine runs them in seconds."""
STEPS = 10_000
"""Iterations requested by one command."""
SECONDS = 1_000_000_000
"""Seconds of one tick, about thirty years."""
TOKENS = 1_000_000
"""Tokens in a command. Also the largest token ID."""
POOL_TOKENS = 10_000_000
"""Tokens of a pool. A GPU of 2026 holds fewer tokens for one model."""
CONTEXT = 1_000_000
"""Tokens of a request."""
PAGE_TOKENS = 4_096
"""Tokens of a page."""
BUILT_TOKENS = 1_000_000
"""Tokens of a pool when an engine is built for a trace. The reference engine allocates them all."""
BUILT_CELLS = 4_000_000
"""Rows × context_len of an engine built for a trace: cells of `req_to_token`, 32 MB per pool."""
DRAWN_PAGES = 100_000
"""Pages of a pool that a report draws page by page. Pages of a larger pool are not drawn."""
DRAWN_CELLS = 200_000
"""Drawn cells × iterations in a report. Browsers do not open larger reports."""
STDERR_FIRST, STDERR_LAST = 1_000, 4_000
"""Bytes stored from the beginning, and from the end, of a failed driver's standard error. A driver
may write gigabytes, so the rest is only counted."""
MARKER_BYTES = 10_000
"""Bytes of the marker file in an environment's folder. The file has eight short fields."""
PARTING_SECONDS = 2.0
"""Seconds for the processes of ``--jobs`` to return their findings and end after Ctrl-C. A command
takes far less. slotproof does not wait for a driver that hangs."""
EXAMPLES_AT_ONCE = 300
"""Examples of one Hypothesis run. Hypothesis stores some 100 KB of choices per example."""
ROWS_SHOWN = 1_000_000
"""Rows of `req_to_token` in a snapshot, 100 times the maximum of a configuration. A snapshot lists
its free rows one by one."""
SEEN_CHARS = 500
"""Characters that `check-driver` prints of a wrong answer. The rest of a long answer adds no
information."""
SEEN_LINES = 3
"""Lines that `check-driver` prints of a driver's output if it is not the expected answer."""
