"""Lockstep: an engine and the spec side by side, and the oracles that compare them."""
