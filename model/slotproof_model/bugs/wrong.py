"""Wrong specs that somebody might write, each with the clause that refutes it.

The systematic mutants (``mutate``) change one place each, these whatever it takes: guard,
memory, effect and what must be allowed agree, as in an engine that is wrong on purpose.
What refutes each is pinned, so that a clause that no longer says what it was made for is
noticed.
"""

from __future__ import annotations

from slotproof_model.bugs.altered import Wrong
from slotproof_model.bugs.wrong_life import LIFE
from slotproof_model.bugs.wrong_locks import LOCKS
from slotproof_model.bugs.wrong_memory import MEMORY

WRONG: dict[str, Wrong] = {each.name: each for each in (*MEMORY, *LOCKS, *LIFE)}
