"""The reference spec of session-slot transitions, as data, and its readings.

Start with :mod:`slotproof_model.spec.state` (what a state is), then read
:mod:`slotproof_model.spec.transitions` and :mod:`slotproof_model.spec.invariants` top to
bottom: these three are the spec. Everything else here is a *reading* of it.
Imports no torch and no hypothesis.
"""
