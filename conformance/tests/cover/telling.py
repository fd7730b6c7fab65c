"""Whether the sentence of a violation says what or whom it is about."""

from __future__ import annotations

import re

from slotproof.lockstep.observation import Violation

_NAMES = re.compile(
    r"\b[rs]\d+\b|\b(page|pages|row|position) -?\d|\b(full|swa)( pool|:)|[\w.]+'? is [\w-]+"
)


def telling(violation: Violation) -> bool:
    """A request, a session, a page or a row by name, a pool, what a variable is, or two figures."""
    numbers = re.findall(r"(?<![\w.-])-?\d+\b", violation.detail)
    return bool(_NAMES.search(violation.detail)) or len(numbers) > 1
