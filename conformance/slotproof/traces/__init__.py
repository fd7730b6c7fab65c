"""Counterexamples: written as ITF, validated when read, rendered as text or HTML."""
