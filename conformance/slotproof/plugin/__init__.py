"""The conformance suite as pytest items: `pytest --pyargs slotproof`."""
