"""Specs with something wrong in them: known bugs, mutants, wrong specs, deviations."""
