"""Counterexamples: written as ITF, validated when read, shown to people."""
