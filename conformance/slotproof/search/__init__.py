"""A search for counterexamples: what is tried, in which order, and what becomes of findings."""
