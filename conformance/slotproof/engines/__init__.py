"""Engines under test. All run behind a pipe, except the reference engine in this process."""
