"""Bounds on whatever a file or a driver may ask for, each with its reason.

Traces, logs, baselines and drivers come from anywhere: what would take more memory, time or
disk than these allow is refused in one line. `docs/explanation/trust.md` has them as a table;
together they keep an answer under ten seconds and 500 MB.
"""

from __future__ import annotations

LINE_BYTES = 8 << 20
"""A line of a log or of a driver: read whole, and forty times its size as Python objects."""
JOURNAL_LINE_BYTES = 256 << 20
"""A line of a journal: the findings of 64 examples, some of 2 MB."""
TRACE_BYTES = 4 << 20
"""A trace: read whole, and copied. A longer one is written without its figures."""
BASELINE_BYTES = 1 << 20
"""A baseline: thousands of findings."""
NAME_CHARS = 1_000
"""The name of a session, a request, an engine, a clause: it is printed, and part of file names."""
TEXT_CHARS = 100_000
"""What an engine says in words (an error, a traceback): it is printed and kept in traces."""
REASON_CHARS = 1_000
"""Of that, where it is the reason in one line of ours: why a driver refuses to start."""
INTEGER = (1 << 53) - 1
"""Magnitude of an integer: what every reader of JSON keeps exactly."""
ACTORS = 10_000
"""Sessions, slots or requests of a snapshot, rows of an engine: each is an actor of the spec."""
EVENTS = 10_000
"""Events, or messages, of one iteration."""
VIOLATIONS = 1_000
"""Clauses that a trace says were violated, or ignored."""
POSITIONS = 2_000_000
"""Positions that the owners of rows describe in a snapshot, all together: each is looked at."""
ACTOR_FIGURES = 20
"""Figures of a session, a slot or a request in a snapshot."""
KEPT = 5_000_000
"""Iterations of a trace × figures of a snapshot (pages, rows, those of actors): all are kept."""
COMMANDS = 10_000
"""Commands of a trace."""
ITERATIONS = 10_000
"""Iterations that a trace asks for, all commands together: some seconds on the reference."""
STEPS = 10_000
"""Iterations of one command."""
SECONDS = 1_000_000_000
"""Of a tick: thirty years."""
TOKENS = 1_000_000
"""Tokens that a command may ask for or bring, and the largest token id."""
POOL_TOKENS = 10_000_000
"""Tokens of a pool: more than a GPU of 2026 keeps for one model."""
CONTEXT = 1_000_000
"""Tokens of a request."""
PAGE_TOKENS = 4_096
"""Tokens of a page."""
BUILT_TOKENS = 1_000_000
"""Tokens of each pool of an engine that a trace asks for: the reference engine allocates them."""
BUILT_CELLS = 4_000_000
"""rows × context_len of such an engine: its `req_to_token`, 32 MB for a pool."""
DRAWN_PAGES = 100_000
"""Pages of a pool that is drawn."""
DRAWN_CELLS = 200_000
"""Pages (or stretches of pages) × iterations that are drawn: a browser opens no more."""
STDERR_FIRST, STDERR_LAST = 1_000, 4_000
"""Bytes of a driver's standard error that a failure carries: how it began, and its last words.
What lies between is counted and not kept: a driver may write gigabytes."""
MARKER_BYTES = 10_000
"""What says of a folder that it is an environment: eight short fields."""
PARTING_SECONDS = 2.0
"""What processes of ``--jobs`` have after Ctrl-C to give back what they found, and then to end:
the command in hand takes far less, and one whose driver hangs is not waited for."""
EXAMPLES_AT_ONCE = 300
"""Examples of one run of Hypothesis: it keeps every choice of every example, some 100 KB each."""
ROWS_SHOWN = 1_000_000
"""Rows of `req_to_token` that a snapshot may speak of: 100 times what a configuration may ask
for; the free ones are listed one by one."""
SEEN_CHARS = 500
"""Of what `check-driver` saw a driver do wrong, in one line: the rest of a long answer tells
nothing more."""
SEEN_LINES = 3
"""Lines of a driver that are no answers, and answers to other messages, that it shows."""
