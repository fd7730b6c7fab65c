"""Test of the sentence of a violation: does it name its subject?"""

from __future__ import annotations

import re

from slotproof.lockstep.observation import Violation

_NAMES = re.compile(
    r"\b[rs]\d+\b|\b(page|pages|row|position) -?\d|\b(full|swa)( pool|:)|[\w.]+'? is [\w-]+"
)


def telling(violation: Violation) -> bool:
    """Return True if it names a request, session, page, row, pool or variable, or two figures."""
    numbers = re.findall(r"(?<![\w.-])-?\d+\b", violation.detail)
    return bool(_NAMES.search(violation.detail)) or len(numbers) > 1
