"""Lockstep: engine and spec side by side, compared by oracles."""
