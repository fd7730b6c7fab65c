"""Search for counterexamples: plan, order of the work, and treatment of findings."""
