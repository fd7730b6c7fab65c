"""The items of the suite; see :mod:`slotproof.plugin.hooks`."""

from slotproof.plugin.part import Part


def test_conforms(slotproof_part: Part) -> None:
    """The engine does what the spec allows, in every example of this part."""
    slotproof_part.run()
