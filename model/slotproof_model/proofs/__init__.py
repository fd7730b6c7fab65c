"""What there is to prove of the spec, and Z3 on it."""
