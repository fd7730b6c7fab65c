"""The spec itself, as data: start with `state.py`, `transitions.py` and `invariants.py`."""
