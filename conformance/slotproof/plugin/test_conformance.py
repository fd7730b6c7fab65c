"""The items of the suite; see :mod:`slotproof.plugin.hooks`."""

import pytest

from slotproof.plugin.part import Findings, Part


def test_conforms(
    slotproof_part: Part, slotproof_findings: Findings, request: pytest.FixtureRequest
) -> None:
    """The engine does what the spec allows, in every example of this part."""
    slotproof_part.run(slotproof_findings, request.node)
