"""Proof obligations of the spec, and their proofs with Z3."""
