"""Items of the suite, see :mod:`slotproof.plugin.hooks`."""

import pytest

from slotproof.plugin.part import Findings, Part


def test_conforms(
    slotproof_part: Part, slotproof_findings: Findings, request: pytest.FixtureRequest
) -> None:
    """Check that the engine conforms to the spec in every example of this part."""
    slotproof_part.run(slotproof_findings, request.node)
