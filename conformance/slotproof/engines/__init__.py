"""Engines under test: the reference engine in-process, any other behind a pipe."""
