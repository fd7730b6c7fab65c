"""Specs with an error in them: known bugs, mutants, wrong specs, deviations."""
