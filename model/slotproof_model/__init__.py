"""The reference spec of session-slot transitions, as data, and its readings.

Start with :mod:`slotproof_model.spec.state` for the state, then read
:mod:`slotproof_model.spec.transitions` and :mod:`slotproof_model.spec.invariants` top to bottom.
The three modules are the spec. Everything else in the package is a *reading* of the spec.
Imports no torch and no hypothesis.
"""
